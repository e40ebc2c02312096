"""The tuned lens and its controls: trained, as it started, and translators that know nothing, by corpus."""

from __future__ import annotations

import pandas as pd

from lensproof.figures.captions import OTHERWISE
from lensproof.figures.names import measure_title, setting_title
from lensproof.figures.tables import Column, Fitted, Layout, Line

LINES = [
    Line("tuned_lens"),
    Line("tuned_lens_start"),
    Line("identity_translator"),
    Line("random_translator"),
    Line("logit_lens"),
]
CAPTION = (
    "Affine translators of a layer's state before the model's own head: trained, as their closed form starts them, "
    "the identity (which reads as the logit lens does) and random ones. On the corpus that they were trained on, "
    "documents that training did not see, and on the corpus of Table 1 (held out). {Mean}, where they were "
    f"trained, with {{level}} bootstrap intervals over {{documents}}. {OTHERWISE} The paper leaves the tuned lens out."
)


def _layout(rows: pd.DataFrame) -> Layout:
    """Columns for each corpus that there is."""
    corpora = dict.fromkeys(rows["setting"].dropna())
    columns = [
        Column(measure, corpus, f"{measure_title(measure)}, {setting_title(corpus)}")
        for corpus in corpora
        for measure in ("kl", "top1")
    ]
    return Layout("translators", "Tuned lens and controls", "translators", LINES, columns, CAPTION)


TABLE = Fitted("translators", _layout)
tidy, markdown, latex = TABLE.tidy, TABLE.markdown, TABLE.latex
