"""How far two sides' numbers differ, in the terms of the project's bounds."""

from __future__ import annotations

import numpy as np

Arrays = dict[str, np.ndarray]


def layer_mean_kl(found: Arrays, order: int) -> float:
    """Mean KL in nats of an order over sequences, positions and the layers 1 .. L-1."""
    return float(found[f"kl_{order}"][:, 1:-1].mean(dtype=np.float64))


def relative_kl_difference(ours: Arrays, peer: Arrays, order: int) -> float:
    """Difference of the layer-mean KL, relative to the peer's."""
    reference = layer_mean_kl(peer, order)
    return abs(layer_mean_kl(ours, order) - reference) / reference


def reading_difference(ours: Arrays, peer: Arrays) -> float:
    """The largest relative difference of a layer-mean KL, over orders."""
    orders = [int(name.removeprefix("kl_")) for name in ours if name.startswith("kl_")]
    return max(relative_kl_difference(ours, peer, order) for order in orders)


def frobenius_differences(ours: Arrays, peer: Arrays) -> np.ndarray:
    """|ours - peer| / |peer| in the Frobenius norm, for each layer 1 .. L-1."""
    gap = np.linalg.norm(ours["jacobians"].astype(np.float64) - peer["jacobians"], axis=(1, 2))
    return gap / np.linalg.norm(peer["jacobians"].astype(np.float64), axis=(1, 2))


def jacobian_difference(ours: Arrays, peer: Arrays) -> float:
    """The largest relative Frobenius difference of a layer."""
    return float(frobenius_differences(ours, peer).max())


def basis_cosines(ours: Arrays, peer: Arrays) -> np.ndarray:
    """Cosine of every basis direction with the peer's, which has another length."""
    one, other = (side["basis"].astype(np.float64) for side in (ours, peer))
    return (one * other).sum(-1) / np.linalg.norm(one, axis=-1) / np.linalg.norm(other, axis=-1)


def basis_difference(ours: Arrays, peer: Arrays) -> float:
    """One less the mean cosine of basis directions."""
    return float(1 - basis_cosines(ours, peer).mean())


def attribution_difference(ours: Arrays, peer: Arrays) -> float:
    """|ours - peer| / |peer| over all blocks and positions."""
    one, other = (side["attribution"].astype(np.float64) for side in (ours, peer))
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))
