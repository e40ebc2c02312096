"""LexFrame's Table 5: making the runner-up pass the top token, along six kinds of direction."""

from __future__ import annotations

from lensproof.figures.tables import Column, Layout, Line

CAPTION = (
    "Moving a state until the runner-up passes the top token in the whole model, by up to its own norm. Reach: share "
    "of predictions turned. Side: at the first length that turns one, mean absolute change of the log-probability of "
    "all other tokens; weighted, by their probability. Clean: share of all tested predictions turned with Side below "
    "0.1 nats. Reach and Clean: {mean}{equally}; Side: one mean over all turned predictions there. "
    "With {level} bootstrap intervals over {documents}."
)
LAYOUT = Layout(
    name="table5",
    number="Table 5",
    experiment="steering",
    lines=[
        Line("logit_lens"),
        Line("jacobian_lens"),
        Line("lexframe_1_readout"),
        Line("lexframe_1_basis"),
        Line("native_readout"),
        Line("native_basis"),
    ],
    columns=[
        Column("reach", key="reach"),
        Column("side", key="side_nats"),
        Column("side_weighted"),
        Column("clean", key="clean"),
    ],
    caption=CAPTION,
    published="lexframe.table5",
)
tidy, markdown, latex = LAYOUT.tidy, LAYOUT.markdown, LAYOUT.latex
