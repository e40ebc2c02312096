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
}
SETTINGS = {
    "layer": "Block", "attention": "Attention write", "mlp": "MLP write", "held_out": "held out", "wall": "wall clock",
    # what a variant of the sensitivity experiment does
    "ridge_grid": "one ridge strength per decade",
    "ridge_folds": "folds are the halves of the calibration text",
    "ridge_of_fold": "ridge in units of the fold it is fitted on",
    "calibration_without_first_position": "calibrated without position 0",
    "typical_attention_at_first_position": "typical attention at position 0 too",
    "bos": "without the token that marks a beginning",
    "joined_documents": "second half of a sequence from another document",
    "resample_sequences": "sequences resampled, not documents",
    "first_position_in_readings": "position 0 left out of the readings",
    "first_position_in_directions": "position 0 among the states of directions",
    "layers_0_and_L": "layers 0 and L in the mean",
    "random_labels": "labels from the whole vocabulary",
    "pseudo_inverse_cutoff": "pseudo-inverse of W cut off at 1e-6",
    "lsmr_steps": "30 steps of LSMR, not the closed form",
    "basis_common_ridge": "one ridge for both tokens",
    "ablation_reruns_mlp": "MLP run again without its block's attention",
    "neighbours": "twice as many neighbours",
    "unshrunk_covariance": "covariance not shrunk",
    "ece_10_bins": "10 bins",
    "ece_20_bins": "20 bins",
    "ece_equal_mass": "15 bins of equal mass",
    "exit_halves": "the other half sets the threshold",
}  # fmt: skip

OF_TABLE = {"table2": "spearman", "table3": "success"}
"""What a published table of one column holds."""
STATED = {
    "order0_to_order1_kl_drop": "KL of order 1 below that of order 0, share",
    "text.order1_top1_at_embedding": "LexFrame[1], Top-1 at the embedding",
    "text.model_ece": "Model itself, ECE",
    "intervals.kl_max_share_of_value": "Half-width of a KL, share of it at most",
    "intervals.side_max_nats": "Half-width of a Side, nats at most",
    "intervals.other_max": "Half-width of any other mean at most",
    "text.angle_logit_lens_layer16_olmo_degrees": "Logit lens, angle at layer 16 of Olmo 3 (degrees)",
    "text.angle_jacobian_lens_layer16_olmo_degrees": "Jacobian lens, angle at layer 16 of Olmo 3 (degrees)",
    "text.angle_layer28_olmo_min_degrees": "Either lens, angle at layer 28 of Olmo 3 (degrees) at least",
    "text.order1_cosine_mid_depth": "LexFrame[1], cosine at mid-depth",
    "text.order1_cosine_layer_mean": "LexFrame[1], cosine, layer mean",
    "text.fixed_direction_ceiling_mid_depth": "Fixed-direction ceiling at mid-depth, cosine",
    "text.readout_state_inner_product_vs_centred_logit_correlation": "Correlation of ⟨b, x⟩ with the logit",
    "text.jacobian_fit_over_calibrate_and_read_orders_0_to_2": "Jacobian lens's fit over calibrating and reading, time",
    "relaxation.share_per_layer": "Share of angle lost per layer",
    "relaxation.exponential_fit_r2": "R² of the exponential fit",
    "relaxation.plateau_smollm3.sqrt_coherence": "Ceiling on SmolLM3's plateau, cosine",
    "training.logit_lens_kl_first_to_last.0": "Logit lens, KL at first (nats)",
    "training.logit_lens_kl_first_to_last.1": "Logit lens, KL at last (nats)",
    "training.order1_kl_first_to_last.0": "LexFrame[1], KL at first (nats)",
    "training.order1_kl_first_to_last.1": "LexFrame[1], KL at last (nats)",
    "training.order1_top1_min_trained": "LexFrame[1], least Top-1 once trained",
    "long_context.lexframe_1.0": "LexFrame[1], KL at 128 tokens (nats)",
    "long_context.lexframe_1.1": "LexFrame[1], KL at 1,024 tokens (nats)",
    "long_context.lexframe_2.0": "LexFrame[2], KL at 128 tokens (nats)",
    "long_context.lexframe_2.1": "LexFrame[2], KL at 1,024 tokens (nats)",
    "table8.three_disjoint_calibrations_kl_range.0": "LexFrame[1], least KL of three texts (nats)",
    "table8.three_disjoint_calibrations_kl_range.1": "LexFrame[1], largest KL of three texts (nats)",
    "table9.first_read_guardian.logit_lens": "Logit lens, first layer that reads Guardian",
    "table9.first_read_guardian.jacobian_lens": "Jacobian lens, first layer that reads Guardian",
    "table9.first_read_guardian.lexframe_1": "LexFrame[1], first layer that reads Guardian",
    "table9.model_top.Guardian": "Model itself, probability of Guardian",
    "table9.model_top.Times": "Model itself, probability of Times",
}
"""Published values besides those of tables with a column per measure, in words."""


def method_title(method: str) -> str:
    """``lexframe_1_basis`` as ``LexFrame[1] basis``, the way the paper writes it; a name not known as words."""
    if method in METHODS:
        return METHODS[method]
    frame = re.fullmatch(rf"{FRAME}(\d+)_?(.*)", method)
    if frame is None:
        return _words(method)
    order, made = frame.groups()
    return f"LexFrame[{order}]{OF_FRAME.get(made, f', {_words(made).lower()}')}"


def measure_title(measure: str) -> str:
    """What a column of this measure is called."""
    return MEASURES.get(measure) or _words(measure)


def setting_title(setting: str) -> str:
    """A component, corpus, calibration text or variant in words."""
    return SETTINGS.get(setting) or setting.replace("_", " ")


def stated_title(path: str) -> str:
    """What a published value is, by its dotted path: ``lexframe.table1.lexframe_1.kl`` as ``LexFrame[1], KL (nats)``.

    Raises:
        LensproofError: it has no name here.
    """
    _, *keys = path.split(".")
    if (name := ".".join(keys)) in STATED:
        return STATED[name]
    table, method, *rest = keys
    measure = rest[0] if rest else OF_TABLE.get(table)
    if not (table.startswith("table") and measure):
        raise LensproofError(f"{path} has no name in words: give it one in lensproof.figures.names")
    return f"{method_title(method)}, {SETTINGS.get(measure) or measure_title(measure.removesuffix('_nats'))}"


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
