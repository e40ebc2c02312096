"""LexFrame's Table 8: what stands in for attention in the order-0 stream."""

from __future__ import annotations

from lensproof.figures.captions import OTHERWISE
from lensproof.figures.tables import Column, Layout, Line

CAPTION = (
    "Order 1 with three things in place of attention in the stream of order 0 that it reads: KL from the model's "
    "output, cosine of its readouts with the native ones, and correlation of its attribution of blocks with the "
    "ablation. Below, calibrated on texts that share nothing. {Mean}, with "
    f"{{level}} bootstrap intervals over {{documents}}. {OTHERWISE} The paper gives this table without intervals."
)
LAYOUT = Layout(
    name="table8",
    number="Table 8",
    experiment="stand_ins",
    lines=[
        Line("mean_and_regression"),
        Line("mean_only"),
        Line("zero"),
        *(Line("mean_and_regression", f"Mean and regression, text {n}", f"calibration_{n}") for n in (1, 2, 3)),
    ],
    columns=[
        Column("kl", key="kl"),
        Column("cosine", key="cosine"),
        Column("attribution", key="attribution"),
    ],
    caption=CAPTION,
    published="lexframe.table8",
)
tidy, markdown, latex = LAYOUT.tidy, LAYOUT.markdown, LAYOUT.latex
