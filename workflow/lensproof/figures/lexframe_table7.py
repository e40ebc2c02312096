"""LexFrame's Table 7: how early a reading has the model's answer, and how early a threshold would leave."""

from __future__ import annotations

from lensproof.figures.tables import Column, Layout, Line

CAPTION = (
    "Settled: share of layers, counted back from the last, over which the reading's top token stays the model's. "
    "Skipped: share of layers left out when one stops at the first layer whose top probability passes a threshold, "
    "set on one half of the documents for an agreement of 0.95; skipped and agreement are of the other half. Read at "
    "{layers}; with {level} bootstrap intervals over {documents}. No computing is saved: a reading of a reference "
    "frame runs the layers that are left."
)
LAYOUT = Layout(
    name="table7",
    number="Table 7",
    experiment="exits",
    lines=[
        Line("logit_lens"),
        Line("jacobian_lens"),
        Line("lexframe_0"),
        Line("lexframe_1"),
        Line("lexframe_2"),
    ],
    columns=[Column("settled", key="settled"), Column("skipped", key="skipped"), Column("agreement")],
    caption=CAPTION,
    published="lexframe.table7",
)
tidy, markdown, latex = LAYOUT.tidy, LAYOUT.markdown, LAYOUT.latex
