"""LexFrame's Table 2: what predicts the effect of putting one state in another's place."""

from __future__ import annotations

from lensproof.figures.tables import Column, Layout, Line

CAPTION = (
    "Spearman correlation of what two states are apart by, before one is put in the other's place, with the effect "
    "of doing so: KL from the model's output at that position to its output with the other state there. {Mean} "
    "except in the last row, with {level} bootstrap intervals over {documents} of the replaced states. "
    "Readings are taken in the replaced state's prefix; in a row of their own each in its own prefix."
)
LAYOUT = Layout(
    name="table2",
    number="Table 2",
    experiment="substitution",
    lines=[
        Line("cosine_distance"),
        Line("euclidean_distance"),
        Line("principal_subspace"),
        Line("mahalanobis"),
        Line("geodesic"),
        Line("jacobian_lens_reading"),
        Line("lexframe_1_reading_kl"),
        Line("lexframe_1_reading_kl_own_prefix"),
        Line(
            "lexframe_1_reading_kl", "LexFrame[1] reading KL, at the embedding", layer=0, key="lexframe_1_at_embedding"
        ),
    ],
    columns=[Column("spearman")],
    caption=CAPTION,
    published="lexframe.table2",
)
tidy, markdown, latex = LAYOUT.tidy, LAYOUT.markdown, LAYOUT.latex
