"""What predicts the effect of putting one state in another's place: Table 2 of LexFrame.

A pair is a target and a donor, two real states of one layer from different documents. The donor's state is put in the
target's place and the rest of the whole model runs; the effect is KL(clean || replaced) at that position. Beside it
stand distances between the two states that are known before the exchange: of geometry (:mod:`lensproof.streams.clouds`)
and between their readings. Source: LexFrame section 4.2, table 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.corpora import draw
from lensproof.corpora.draw import Pairs
from lensproof.corpora.sequences import take, tokens
from lensproof.experiments.run import Run
from lensproof.frames import typical
from lensproof.frames.flow import Stand
from lensproof.frames.frame import Frame, frames
from lensproof.lenses import jacobian
from lensproof.lenses.jacobian import JacobianLens
from lensproof.lenses.reading import divergences
from lensproof.progress import bar
from lensproof.streams import clouds
from lensproof.streams.clouds import Cloud, Neighbours
from lensproof.streams.trace import residuals


class Last(NamedTuple):
    """Last-layer states of R pairs, each ``[R, d]``: what the model makes of the target's position, and what order 1
    makes of the two states there, and of the donor's in its own place."""

    clean: Tensor
    replaced: Tensor
    target: Tensor
    donor: Tensor
    donor_at_home: Tensor


def observe(run: Run) -> pd.DataFrame:
    """Exchange states and measure how well each distance foretells the effect.

    The layer L is left out: nothing of the model is left to run there. A shard holds the pairs whose target lies in its
    sequences; donors, and the clouds behind the geometry, come from all sequences of the experiment.

    Returns:
        One row per (pair, method): ``document``, ``sequence``, ``position`` of the target, ``donor_document``,
        ``donor_sequence``, ``donor_position``, ``layer``, ``method``, ``distance`` (nats for readings, degrees for
        subspaces), ``effect`` (nats).
    """
    stand = typical.load(run.input("typical_attention"), run.decoder, run.weights)
    lens = jacobian.load(run.input("jacobian_lens"), run.decoder, run.weights)
    chosen = take(run.sequences, "test", run.total)
    ids, documents = tokens(chosen), chosen["document"].to_numpy()
    layers = [layer for layer in run.layers if layer < run.decoder.depth]
    pairs = {
        layer: draw.pairs(documents, ids.shape[1], run.options["pairs"], run.seed, layer).of_targets(
            run.first, run.count
        )
        for layer in layers
    }
    states = clouds.collect(run.decoder, ids, layers)
    last = exchange(run.decoder, ids, states, pairs, stand, f"substitution, {run.checkpoint}")
    found = []
    for layer in bar(layers, f"distances, {run.checkpoint}", unit="layer"):
        distances = geometry(states[layer], pairs[layer], run.options)
        distances |= readings(run.decoder, lens, layer, states[layer], pairs[layer], last[layer])
        effect = divergences(run.decoder, last[layer].clean, last[layer].replaced[None])[0]
        found.append(_rows(chosen, pairs[layer], distances, effect.cpu().numpy()).assign(layer=np.int16(layer)))
    return pd.concat(found, ignore_index=True)


@torch.no_grad()
def exchange(
    decoder: Decoder,
    ids: Tensor,
    states: Mapping[int, np.ndarray],
    pairs: Mapping[int, Pairs],
    stand: Stand,
    progress: str | None = None,
) -> dict[int, Last]:
    """Run the rest of the whole model, and of order 1, on the states of pairs.

    Args:
        decoder: the model.
        ids: sequences ``[N, T]``.
        states: layer -> their states ``[N, T, d]``.
        pairs: layer -> pairs of positions in these sequences.
        stand: typical attention.
        progress: text of a progress bar, or None.

    Returns:
        Layer -> last-layer states in the order of the pairs.
    """
    found = {layer: Last(*(_empty(decoder, len(those.at)) for _ in Last._fields)) for layer, those in pairs.items()}
    numbers = range(len(ids))
    for number in bar(numbers, progress, unit="sequence") if progress else numbers:
        layers = [layer for layer, those in pairs.items() if (those.target == number).any()]
        homes = [layer for layer, those in pairs.items() if (those.donor == number).any()]
        if not layers and not homes:
            continue
        bound = decoder.on(ids[number])
        clean = residuals(bound, ids[number][None])[:, 0]
        model = frames(bound, clean, math.inf, layers)
        reading = frames(bound, clean, 1, [*layers, *homes], stand)
        for layer in layers:
            _fill_targets(found[layer], pairs[layer], number, states[layer], model[layer], reading[layer])
        for layer in homes:
            rows = np.flatnonzero(pairs[layer].donor == number)
            at = torch.from_numpy(pairs[layer].donor_at[rows]).to(clean.device)
            found[layer].donor_at_home[rows] = reading[layer].transport(clean[layer, at], at)
    return found


def _empty(decoder: Decoder, rows: int) -> Tensor:
    return decoder.unembedding.new_empty(rows, decoder.width)


def _fill_targets(last: Last, pairs: Pairs, number: int, states: np.ndarray, model: Frame, reading: Frame) -> None:
    """The rows whose target lies in sequence ``number``, which the two frames are of."""
    rows, clean, layer = np.flatnonzero(pairs.target == number), model.states, model.layer
    at = torch.from_numpy(pairs.at[rows]).to(clean.device)
    donors = torch.from_numpy(states[pairs.donor[rows], pairs.donor_at[rows]]).to(clean)
    last.clean[rows] = clean[-1, at]
    last.replaced[rows] = model.transport(donors, at)
    last.target[rows], last.donor[rows] = reading.transport(torch.cat((clean[layer, at], donors)), at.repeat(2)).chunk(
        2
    )


def geometry(states: np.ndarray, pairs: Pairs, options: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Distances ``[R]`` between the states of pairs, by method.

    Args:
        states: all states of the layer ``[N, T, d]``: the cloud.
        pairs: of positions in them.
        options: ``neighbours``, ``leading``, ``graph`` (:class:`lensproof.config.Substitution`).
    """
    x, y = states[pairs.target, pairs.at], states[pairs.donor, pairs.donor_at]
    cloud = Cloud.of(states)
    near = Neighbours.of(cloud.points, max(options["neighbours"], options["graph"]))
    a, b = cloud.place[pairs.target, pairs.at], cloud.place[pairs.donor, pairs.donor_at]
    return {
        "cosine_distance": clouds.cosine(x, y),
        "euclidean_distance": clouds.euclidean(x, y),
        "principal_subspace": clouds.local_angles(
            cloud.points, near.nearest(options["neighbours"]), a, b, options["leading"]
        ),
        "mahalanobis": clouds.mahalanobis(clouds.flat(states), x, y),
        "geodesic": clouds.geodesic(cloud.points, near.nearest(options["graph"]), a, b),
    }


@torch.no_grad()
def readings(
    decoder: Decoder, lens: JacobianLens, layer: int, states: np.ndarray, pairs: Pairs, last: Last
) -> dict[str, np.ndarray]:
    """KL(reading of the target || reading of the donor) ``[R]`` in nats, by method.

    Chosen: order 1 reads both in the target's prefix; ``_own_prefix`` reads each in its own.
    """
    x, y = (
        torch.from_numpy(states[sequence, at]).to(last.clean)
        for sequence, at in ((pairs.target, pairs.at), (pairs.donor, pairs.donor_at))
    )
    by_lens = divergences(decoder, lens.transport(x, layer), lens.transport(y, layer)[None])
    by_frame = divergences(decoder, last.target, torch.stack((last.donor, last.donor_at_home)))
    names = ("jacobian_lens_reading", "lexframe_1_reading_kl", "lexframe_1_reading_kl_own_prefix")
    return dict(zip(names, torch.cat((by_lens, by_frame)).cpu().numpy(), strict=True))


def _rows(
    sequences: pd.DataFrame, pairs: Pairs, distances: Mapping[str, np.ndarray], effect: np.ndarray
) -> pd.DataFrame:
    pair = pd.DataFrame({
        "document": sequences["document"].to_numpy()[pairs.target],
        "sequence": sequences["sequence"].to_numpy()[pairs.target],
        "position": pairs.at.astype(np.int16),
        "donor_document": sequences["document"].to_numpy()[pairs.donor],
        "donor_sequence": sequences["sequence"].to_numpy()[pairs.donor],
        "donor_position": pairs.donor_at.astype(np.int16),
        "effect": effect,
    })  # fmt: skip
    return pd.concat([pair.assign(method=method, distance=values) for method, values in distances.items()])
