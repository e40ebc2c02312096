"""LexFrame's Table 1: KL, Top-1 and calibration error of each reading as layer means, with intervals.

Beside the paper's readings stands the tuned lens, where the estimates of ``translators`` are given: on the run's own
corpus, which need not be the one that it was trained on, and as a mean over the layers that it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lensproof.figures.names import setting_title
from lensproof.figures.tables import Column, Fitted, Layout, Line
from lensproof.statistics.methods import MODEL, in_order

COLUMNS = (
    Column("kl", key="kl"),
    Column("top1", key="top1"),
    Column("ece", key="ece", stated_digits=3),
)
TUNED = Line("tuned_lens", setting="held_out", experiment="translators")
OWN = Line(MODEL, layer="own", paths={"ece": "lexframe.text.model_ece"})
CAPTION = (
    "Readings against the model's own output: {mean}{equally}, with {level} "
    "bootstrap intervals over {documents}. KL from the model to the reading, lower is better; Top-1 is agreement "
    "with the model's top token; ECE is against the true next token, in 15 bins. A sum of absolute values such as "
    "ECE is too large in a small sample, and larger in a resample: its intervals are moved back by what resampling "
    "adds, and say how much the ECE of samples of this size scatters. Compare it with the model's own, which is too "
    "large alike, not with zero."
)
ON_TUNED = " The tuned lens{corpus} is read at {{other_layers}}, where it was trained."
TRAINED_ON = "trained_on"
"""Attribute of the tidy table: the corpus of the tuned lens, which is not a column. A table read from a file has none.
"""


def _layout(rows: pd.DataFrame) -> Layout:
    """The readings that there are: the orders depend on the configuration."""
    found = in_order({*rows["method"], "logit_lens", "jacobian_lens"} - {MODEL, TUNED.method})
    readings = [Line(method) for method in found]
    readings.insert(found.index("logit_lens") + 1, TUNED)
    corpora = ", ".join(map(setting_title, rows.attrs.get(TRAINED_ON, ())))
    on_tuned = ON_TUNED.format(corpus=f" was trained on {corpora}; it" if corpora else "")
    tuned = (rows["method"] == TUNED.method).any()
    return Layout(
        "table1", "Table 1", "readings", [*readings, OWN], COLUMNS, CAPTION + (on_tuned if tuned else ""),
        "lexframe.table1",
    )  # fmt: skip


def tidy(estimates: pd.DataFrame, published: Mapping[str, Any]) -> pd.DataFrame:
    """As :meth:`lensproof.figures.tables.Layout.tidy`; the estimates of ``translators`` name the corpus of training
    by their ``setting``, other than that of the run's own."""
    table = TABLE.tidy(estimates, published)
    tuned = estimates[(estimates["experiment"] == TUNED.experiment) & (estimates["method"] == TUNED.method)]
    corpora = tuned.loc[tuned["setting"] != TUNED.setting, "setting"].dropna()
    table.attrs[TRAINED_ON] = tuple(dict.fromkeys(corpora))
    return table


TABLE = Fitted("readings", _layout)
markdown, latex = TABLE.markdown, TABLE.latex
