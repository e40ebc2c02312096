"""The methods that tables name, and the order in which they stand."""

from __future__ import annotations

import re
from collections.abc import Iterable

MODEL = "model"
"""The model's own reading."""
FRAME = "lexframe_"
"""A lexical reference frame of order n is ``lexframe_n``; what is made of it has a suffix, ``lexframe_1_basis``."""

FIXED = (
    "logit_lens", "logit_lens_difference", "tuned_lens", "tuned_lens_start", "identity_translator",
    "random_translator", "jacobian_lens", "jacobian_lens_normed", "jacobian_lens_difference", "ridge_probe",
    "fixed_input_basis", "fixed_output_basis", "output_rows_of_state", "output_rows_of_jacobian_lens",
    "cosine_distance", "euclidean_distance", "principal_subspace", "mahalanobis", "geodesic",
    "jacobian_lens_reading", "local_subspace", "global_subspace", "random_direction", "leading_over_width",
    "mean_and_regression", "mean_only", "zero",
)  # fmt: skip
"""What does not follow the context, and distances: before the frames."""
OF_FRAME = ("", "reading_kl", "reading_kl_own_prefix", "at_embedding", "readout", "basis", "difference", "linear")
NATIVE = (
    "fixed_direction_ceiling", "mean_direction", "native", "native_readout", "native_basis", "native_difference",
    "native_linear", MODEL,
)  # fmt: skip
"""What the whole model says, and ceilings: after the frames."""


def in_order(methods: Iterable[str]) -> list[str]:
    """Each method once: fixed maps and distances, then reference frames by order, then the native ones.

    A name that is not known stands by itself between the fixed maps and the frames.
    """
    return sorted(set(methods), key=_rank)


def _rank(method: str) -> tuple[int, int, int, str]:
    if method in FIXED:
        return (0, FIXED.index(method), 0, method)
    if method in NATIVE:
        return (3, NATIVE.index(method), 0, method)
    frame = re.fullmatch(rf"{FRAME}(\d+)_?(.*)", method)
    if frame is None:
        return (1, 0, 0, method)
    order, made = frame.groups()
    return (2, int(order), OF_FRAME.index(made) if made in OF_FRAME else len(OF_FRAME), method)
