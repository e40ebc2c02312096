"""LexFrame's Table 3: whether a step along a token's direction raises that token above all others."""

from __future__ import annotations

from lensproof.figures.tables import Column, Layout, Line

CAPTION = (
    "Share of steps of a tenth of the state's norm along a token's direction after which, of all tokens, that token's"
    " logit has gained most in the whole model. {Mean}, with {level} bootstrap intervals over {documents}."
)
LAYOUT = Layout(
    name="table3",
    number="Table 3",
    experiment="composition",
    lines=[
        Line("fixed_input_basis"),
        Line("fixed_output_basis"),
        Line("lexframe_1_readout"),
        Line("lexframe_1_basis"),
        Line("native_readout"),
        Line("native_basis"),
    ],
    columns=[Column("success")],
    caption=CAPTION,
    published="lexframe.table3",
)
tidy, markdown, latex = LAYOUT.tidy, LAYOUT.markdown, LAYOUT.latex
