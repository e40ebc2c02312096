"""LexFrame's Table 6: attribution of the model's answer against measured ablation."""

from __future__ import annotations

from lensproof.figures.names import setting_title
from lensproof.figures.tables import Column, Layout, Line

CAPTION = (
    "Pearson correlation, over states, of each attribution with the change of the top token's centred logit when what"
    " a block, its attention or its MLP writes at the position is taken out and the rest of the whole model runs. The"
    " native difference is that ablation itself. {Mean}, with {level} bootstrap intervals over"
    " {documents}."
)
LAYOUT = Layout(
    name="table6",
    number="Table 6",
    experiment="attribution",
    lines=[
        Line("logit_lens_difference"),
        Line("jacobian_lens_difference"),
        Line("lexframe_1_difference"),
        Line("lexframe_1_linear"),
        Line("native_linear"),
        Line("native_difference"),
    ],
    columns=[Column("pearson", name, setting_title(name), key=name) for name in ("layer", "attention", "mlp")],
    caption=CAPTION,
    published="lexframe.table6",
)
tidy, markdown, latex = LAYOUT.tidy, LAYOUT.markdown, LAYOUT.latex
