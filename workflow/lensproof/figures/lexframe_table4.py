"""LexFrame's Table 4: three ways to write a coefficient as output rows times something."""

from __future__ import annotations

from lensproof.figures.captions import OTHERWISE
from lensproof.figures.tables import Column, Layout, Line

CAPTION = (
    "Coefficients as output rows times the state, its Jacobian lens, or what transport makes of it, the first two "
    "with the best scale of each layer: KL from the model's output to theirs and agreement with its top token. {Mean}, "
    f"with {{level}} bootstrap intervals over {{documents}}. {OTHERWISE} The paper says of the first "
    "two only that they stay several nats away."
)
LAYOUT = Layout(
    name="table4",
    number="Table 4",
    experiment="decomposition",
    lines=[
        Line("output_rows_of_state"),
        Line("output_rows_of_jacobian_lens"),
        Line("lexframe_1", "Output rows of the transported state, LexFrame[1]"),
        Line("native", "Output rows of the transported state, native"),
    ],
    columns=[Column("kl", key="kl"), Column("top1", key="top1")],
    caption=CAPTION,
    published="lexframe.table4",
)
tidy, markdown, latex = LAYOUT.tidy, LAYOUT.markdown, LAYOUT.latex
