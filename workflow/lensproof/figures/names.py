"""How methods, measures and checkpoints are called in figures and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lensproof.errors import LensproofError
from lensproof.statistics.methods import FRAME

METHODS = {
    "logit_lens": "Logit lens",
    "logit_lens_difference": "Logit lens, difference",
    "jacobian_lens": "Jacobian lens",
    "jacobian_lens_normed": "Jacobian lens through the norm",
    "jacobian_lens_difference": "Jacobian lens, difference",
    "jacobian_lens_reading": "Jacobian-lens reading KL",
    "tuned_lens": "Tuned lens",
    "tuned_lens_start": "Tuned lens, closed form only",
    "identity_translator": "Identity translator",
    "random_translator": "Random translator",
    "ridge_probe": "Ridge probe",
    "fixed_direction_ceiling": "Fixed-direction ceiling",
    "mean_direction": "Mean direction",
    "cosine_distance": "Cosine distance",
    "euclidean_distance": "Euclidean distance",
    "principal_subspace": "Principal-subspace angle",
    "mahalanobis": "Mahalanobis distance",
    "geodesic": "Geodesic distance",
    "local_subspace": "Local subspace",
    "global_subspace": "Global subspace",
    "random_direction": "Random directions",
    "leading_over_width": "Share of all dimensions",
    "fixed_input_basis": "Input embedding",
    "fixed_output_basis": "Output basis",
    "output_rows_of_state": "Output rows of the state",
    "output_rows_of_jacobian_lens": "Output rows of its Jacobian lens",
    "mean_and_regression": "Mean and regression",
    "mean_only": "Mean only",
    "zero": "Zero",
    "calibration": "Calibration of typical attention",
    "readings": "Reading of the test set",
    "native": "Native",
    "native_readout": "Native readout",
    "native_basis": "Native basis",
    "native_difference": "Native, difference",
    "native_linear": "Native, linear",
    "model": "Model itself",
}
OF_FRAME = {
    "": "",
    "readout": " readout",
    "basis": " basis",
    "difference": ", difference",
    "linear": ", linear",
    "reading_kl": " reading KL",
    "reading_kl_own_prefix": " reading KL, own prefixes",
}
"""What is made of a reference frame, after its name."""
MEASURES = {
    "kl": "KL (nats)",
    "top1": "Top-1",
    "ece": "ECE",
    "accuracy": "Accuracy",
    "readback": "Input read back",
    "cosine": "Cosine",
    "angle": "Angle (degrees)",
    "inner_product": "Correlation of ⟨b, x⟩ with the logit",
    "relaxation_share": "Share of angle lost per layer",
    "relaxation_r2": "R² of the exponential fit",
    "plateau_slope": "Rise of √κ per layer",
    "spearman": "Rank correlation",
    "energy": "Energy inside",
    "success": "Success",
    "reach": "Reach",
    "side": "Side (nats)",
    "side_weighted": "Side, weighted (nats)",
    "clean": "Clean",
    "pearson": "Correlation",
    "attribution": "Attribution",
    "settled": "Settled",
    "skipped": "Skipped",
    "settled_minus_skipped": "Settled less skipped",
    "agreement": "Agreement",
    "threshold": "Threshold",
    "half_width_kl": "Half-width of KL (nats)",
    "half_width_top1": "Half-width of Top-1",
    "shrinkage_exponent_kl": "Power, KL",
    "shrinkage_exponent_top1": "Power, Top-1",
    "seconds": "Time (s)",
    "seconds_per_item": "Time per sequence (s)",
    "time_ratio": "Time ratio",
    "first_layer": "First layer",
    "probability": "Probability",
    "rz": "R_z",
    "lz": "L_z (decades)",
    "mz": "M_z (nats)",
    "chance": "Chance",
    "probe": "Probe accuracy",
    "spread": "SD over splits",
    "floor": "Floor",
    "over_floor": "Times the floor",
}
SETTINGS = {
    "layer": "Block", "attention": "Attention write", "mlp": "MLP write", "held_out": "held out", "wall": "wall clock",
}  # fmt: skip


def method_title(method: str) -> str:
    """``lexframe_1_basis`` as ``LexFrame[1] basis``, the way the paper writes it; a name not known as words."""
    if method in METHODS:
        return METHODS[method]
    frame = re.fullmatch(rf"{FRAME}(\d+)_?(.*)", method)
    if frame is None:
        return _words(method)
    order, made = frame.groups()
    return f"LexFrame[{order}]{OF_FRAME.get(made, f', {_words(made).lower()}')}"


def contrast_title(method: str, reference: str) -> str:
    """``flexible − control``: one arm less another."""
    return f"{setting_title(method)} − {setting_title(reference)}"


def measure_title(measure: str) -> str:
    """What a column of this measure is called."""
    return MEASURES.get(measure) or _words(measure)


def setting_title(setting: str) -> str:
    """A component, corpus, calibration text or variant in words."""
    return SETTINGS.get(setting) or setting.replace("_", " ")


def titles(pairs: Iterable[str]) -> dict[str, str]:
    """``["toy=A toy model"]`` as checkpoint -> title.

    Raises:
        LensproofError: a pair has no ``=``.
    """
    split = [pair.partition("=") for pair in pairs]
    for name, equals, _ in split:
        if not equals:
            raise LensproofError(f"--title {name}: write it as CHECKPOINT=TEXT")
    return {name: text for name, _, text in split}


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()
