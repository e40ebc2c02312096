"""What hangs on the choices that LexFrame leaves open: each decided otherwise, on the same states as what was chosen.

Order 1 at a few layers of a few sequences. Every *variant* differs from the chosen way in one point only; typical
attention is calibrated here, once for all of them, and not the run's, which may be of another precision:

- typical attention (KL of the reading): ``ridge_grid``, one strength per decade, not eight; ``ridge_folds``, the first
  and the second half of the sequences, not even and odd ones; ``ridge_of_fold``, a strength in units of the trace of
  the text that it is fitted on, so twice as strong in the final fit as on either fold;
  ``calibration_without_first_position``; ``typical_attention_at_first_position``, not the model's own;
- text (KL): ``bos``, without the token that marks a beginning, where the model uses one; ``joined_documents``, the
  second half of each sequence from another document;
- directions (cosine with the native readout): ``random_labels`` from the whole vocabulary, not the frequency ranking;
  position 0 is observed beside the drawn ones;
- bases: ``pseudo_inverse_cutoff`` of W at 1e-6, and ``lsmr_steps``, 30 of them, not the closed form (success of a move,
  table 3); ``basis_common_ridge``, one ridge for the difference of two tokens (reach and clean, table 5);
- attribution (table 6): ``ablation_reruns_mlp``, an attention write missing also from what the MLP of its block reads;
- distances (table 2): ``neighbours``, twice as many; ``unshrunk_covariance``.

The choices of statistics (position 0, layers 0 and L, bins, halves) are made otherwise in
:mod:`lensproof.statistics.sensitivity`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.corpora import draw
from lensproof.corpora.draw import Pairs
from lensproof.corpora.sequences import take, tokens
from lensproof.errors import LensproofError
from lensproof.experiments.run import Run
from lensproof.frames import typical as typical_attention
from lensproof.frames.basis import STEPS, OutputBasis, closed_form, covectors, lsmr, oriented
from lensproof.frames.flow import flow
from lensproof.frames.frame import Frame, frames, jacobians, linearise, native_readouts
from lensproof.frames.typical import TypicalAttention
from lensproof.lenses.reading import Comparison, NativeReading, compare, divergences
from lensproof.lenses.ridge import RIDGES, Folds, Moments
from lensproof.progress import bar
from lensproof.streams import clouds
from lensproof.streams.clouds import Cloud, Neighbours
from lensproof.streams.replay import remember, replay
from lensproof.streams.trace import residuals, writes

CHOSEN = "chosen"
CUTOFF = 1e-6
"""Of the pseudo-inverse of W, in place of 1e-10."""
STEP, LENGTHS = 0.1, np.geomspace(0.01, 1.0, 20)
"""Of a move (table 3) and of steering (table 5), in units of the state's norm."""
CLEAN = 0.1
"""Nats of mean change of the other tokens' log-probabilities below which a flip is clean (table 5)."""


@dataclass(frozen=True)
class Context:
    """One sequence ``ids`` ``[T]``, run once.

    ``states`` ``[L + 1, T, d]``, ``memories`` what blocks keep of them, ``native`` the model's own output, ``order1``
    the frames of order 1 by layer.
    """

    decoder: Decoder
    ids: Tensor
    states: Tensor
    memories: Sequence[Any]
    native: NativeReading
    order1: Mapping[int, Frame]

    @classmethod
    def of(cls, decoder: Decoder, ids: Tensor, layers: Sequence[int], typical: TypicalAttention) -> Context:
        """From ids, with frames at ``layers``; the decoder need not be bound to them."""
        decoder = decoder.on(ids)
        states = residuals(decoder, ids[None])[:, 0]
        made = frames(decoder, states, 1, layers, typical)
        return cls(decoder, ids, states, remember(decoder, states), NativeReading.of(decoder, states[-1]), made)

    @property
    def layers(self) -> list[int]:
        """Of the frames, rising."""
        return list(self.order1)

    def at(self, positions: Tensor) -> Tensor:
        """Clean states ``[S, R, d]`` of the frames' layers at positions ``[R]``."""
        return self.states[self.layers][:, positions]

    def replay(self, x: Tensor, at: Tensor) -> Tensor:
        """Last-layer states ``[..., S, R, d]`` of states ``x`` at the frames' layers, run on by the whole model."""
        cuts = torch.tensor(self.layers, device=x.device)[:, None].expand(x.shape[:-1])
        last = replay(
            self.decoder,
            self.memories,
            self.states,
            x.flatten(0, -2),
            at.expand(x.shape[:-1]).flatten(),
            cuts.flatten(),
        )
        return last.view_as(x)


@torch.no_grad()
def observe(run: Run) -> pd.DataFrame:
    """Every variant beside the chosen way, on the sequences of the experiment.

    Returns:
        One row per trial: ``document``, ``sequence``, ``position``, ``layer``, ``method``, ``variant`` (``chosen``, or
        its name) and, where it is of that kind, ``kl``, ``agrees``, ``confidence``, ``correct`` (as in ``readings``);
        ``label`` with ``cosine`` or ``success``; ``reached`` and ``clean``; ``effect`` with ``score`` (logits) or
        ``distance``.

    Raises:
        LensproofError: no configured layer has a block below it and two above.
    """
    depth = run.decoder.depth
    layers = [layer for layer in run.layers if depth - layer > 1]
    inner = [layer for layer in layers if layer > 0]
    if not inner:
        raise LensproofError(f"experiments.sensitivity.layers names no layer among 1 to {depth - 2}")
    stands = calibrations(run)
    typical = stands[CHOSEN]
    labels = {
        CHOSEN: draw.labels(run.sequences, run.options["labels"]),
        "random_labels": np.random.default_rng(run.seed).permutation(run.decoder.vocabulary)[: run.options["labels"]],
    }
    labels = {variant: torch.from_numpy(ids).to(run.decoder.device) for variant, ids in labels.items()}
    outputs = {CHOSEN: OutputBasis.of(run.decoder), "pseudo_inverse_cutoff": OutputBasis.of(run.decoder, CUTOFF)}
    begins = run.sequences["tokens"].str[0].nunique() == 1
    sequences = take(run.sequences, "test", run.count, run.first)
    rows, texts = list(sequences.itertuples()), tokens(sequences)
    contexts = [Context.of(run.decoder, ids, inner, typical) for ids in texts]
    found = []
    for place, row in enumerate(bar(rows, f"sensitivity, {run.checkpoint}", unit="sequence")):
        context = contexts[place]
        at = draw.positions(row.sequence, len(context.ids), run.options["positions"], run.seed)
        at = torch.from_numpy(at).to(run.decoder.device)
        parts = [
            *readings(context, layers, stands),
            *other_texts(context, texts[place - 1], typical, begins),
            directions(context, at, labels),
            *bases(context, at[:1], labels[CHOSEN], outputs),
            ablations(context),
        ]
        found += [part.assign(document=row.document, sequence=row.sequence) for part in parts]
    found.append(exchanges(contexts, rows, run.options, run.seed))
    return pd.concat(found, ignore_index=True).assign(batch_size=1)


# -- typical attention and text


def calibrations(run: Run) -> dict[str, TypicalAttention]:
    """Typical attention by variant, the chosen way first, all from the same sums over the run's calibration text."""
    ids = run.role("calibration", run.options["calibration"])
    number = torch.arange(len(ids))
    odd, late = number % 2 == 1, number >= len(ids) // 2

    def moments(chosen: Tensor, first: int = 0) -> list[Moments]:
        return typical_attention.moments(run.decoder, ids[chosen], first=first, progress=f"moments, {run.checkpoint}")

    (early_even, late_even), (early_odd, late_odd) = (
        [moments(parity & half) for half in (~late, late)] for parity in (~odd, odd)
    )
    parity = _folds(_added(early_even, late_even), _added(early_odd, late_odd))
    halves = _folds(_added(early_even, early_odd), _added(late_even, late_odd))
    grid = [RIDGES] * run.decoder.depth
    chosen = typical_attention.fit(parity, grid)
    return {
        CHOSEN: chosen,
        "ridge_grid": typical_attention.fit(parity, [RIDGES[::8]] * run.decoder.depth),
        "ridge_folds": typical_attention.fit(halves, grid),
        "ridge_of_fold": typical_attention.fit(parity, [2 * ridge.cpu()[None].double() for ridge in chosen.ridge]),
        "calibration_without_first_position": typical_attention.fit(_folds(moments(~odd, 1), moments(odd, 1)), grid),
    }


def _folds(even: list[Moments], odd: list[Moments]) -> list[Folds]:
    return [Folds(*block) for block in zip(even, odd, strict=True)]


def _added(one: list[Moments], other: list[Moments]) -> list[Moments]:
    return [a + b for a, b in zip(one, other, strict=True)]


def readings(context: Context, layers: Sequence[int], stands: Mapping[str, TypicalAttention]) -> Iterator[pd.DataFrame]:
    """The model itself, and order 1 on every typical attention: on the chosen one at ``layers``, on the others at the
    layers of the frames. Order 0 too where position 0 is what varies."""
    top = context.native.summary
    kl = torch.zeros_like(top.normaliser)
    yield _reading(context, "model", CHOSEN, context.decoder.depth, Comparison(kl, top.top, top.log_probability.exp()))
    yield from _read(context, layers, stands[CHOSEN], CHOSEN, orders=(0, 1))
    name = "typical_attention_at_first_position"
    yield from _read(context, context.layers, stands[CHOSEN], name, orders=(0, 1), exact_first=False)
    for variant, stand in stands.items():
        if variant != CHOSEN:
            yield from _read(context, context.layers, stand, variant)


def other_texts(context: Context, other: Tensor, typical: TypicalAttention, begins: bool) -> Iterator[pd.DataFrame]:
    """Order 1 on the sequence with the second half of ``other`` ``[T]``, and without its first token if ``begins``."""
    half = len(context.ids) // 2
    texts = {"joined_documents": torch.cat((context.ids[:half], other[half:]))}
    if begins:
        texts["bos"] = context.ids[1:]
    for variant, ids in texts.items():
        yield from _read(Context.of(context.decoder, ids, (), typical), context.layers, typical, variant)


def _read(
    context: Context,
    layers: Sequence[int],
    stand: TypicalAttention,
    variant: str,
    orders: Sequence[int] = (1,),
    exact_first: bool = True,
) -> Iterator[pd.DataFrame]:
    for order, cuts, last in flow(context.decoder, context.states, orders, stand, layers, exact_first):
        compared = compare(context.decoder, context.native, last)
        for place, layer in enumerate(cuts):
            parts = Comparison(*(part[place] for part in compared))
            yield _reading(context, f"lexframe_{order}", variant, layer, parts)


def _reading(context: Context, method: str, variant: str, layer: int, compared: Comparison) -> pd.DataFrame:
    """Rows as those of ``readings``, at every position."""
    top = compared.top.cpu()
    correct = np.full(len(top), None, dtype=object)
    correct[:-1] = (top[:-1] == context.ids[1:].cpu()).numpy()
    return _rows(method, variant, np.asarray(layer), np.arange(len(top))).assign(
        kl=_numbers(compared.kl),
        agrees=_flags(compared.top == context.native.summary.top),
        confidence=_numbers(compared.confidence),
        correct=pd.array(correct, dtype="boolean"),
    )


# -- directions, bases, ablation


def directions(context: Context, at: Tensor, labels: Mapping[str, Tensor]) -> pd.DataFrame:
    """Cosine of the logit lens and of order 1 with the native readout, at ``at`` ``[R]`` and at position 0."""
    at = torch.cat((at.new_zeros(1), at))
    rows = []
    for variant, chosen in labels.items():
        covector = covectors(context.decoder, chosen)
        native = native_readouts(context.decoder, context.states, at, covector)[context.layers]
        back = linearise(list(context.order1.values()), context.at(at), at).vjp
        found = {
            "logit_lens": covector.expand_as(native),
            "lexframe_1": back(covector.expand(len(context.layers) * len(at), -1, -1)).view_as(native),
        }
        for method, direction in found.items():
            cosine = cosine_similarity(direction.double(), native.double(), dim=-1)
            rows.append(_rows(method, variant, *_grid(context.layers, at, chosen)).assign(cosine=_numbers(cosine)))
    return pd.concat(rows)


def bases(
    context: Context, at: Tensor, labels: Tensor, outputs: Mapping[str, OutputBasis]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Basis directions at the position ``at`` ``[1]``: moves along those of labels, and flips of the top token."""
    made, x = list(context.order1.values()), context.at(at)
    pair = context.decoder.coefficients(context.states[-1, at])[0].topk(2).indices.flip(0)  # runner-up, top token
    (u, v), targets = outputs[CHOSEN](pair), {variant: basis(labels) for variant, basis in outputs.items()}
    # One decomposition of each Jacobian serves all.
    every = torch.cat((*targets.values(), torch.stack((u, v, u - v))))
    *solved, of_pair = closed_form(jacobians(made, x, at)[:, 0], every).split([len(labels)] * len(targets) + [3], 1)
    found = dict(zip(targets, solved, strict=True))
    found["lsmr_steps"] = lsmr(linearise(made, x, at), targets[CHOSEN].expand(len(made), -1, -1), STEPS)
    readouts = native_readouts(context.decoder, context.states, at, covectors(context.decoder, labels))
    found = {variant: oriented(part, readouts[context.layers, 0]) for variant, part in found.items()}
    differences = {CHOSEN: of_pair[:, :1] - of_pair[:, 1:2], "basis_common_ridge": of_pair[:, 2:]}
    return _moves(context, at, labels, found), _flips(context, at, pair, differences)


def _moves(context: Context, at: Tensor, labels: Tensor, found: Mapping[str, Tensor]) -> pd.DataFrame:
    """Whether a label gains most of all tokens when the state moves along its direction, of ``[S, C, d]``."""
    x, clean = context.at(at), context.decoder.coefficients(context.states[-1, at])
    rows = []
    for variant, direction in found.items():
        moved = x + STEP * x.norm(dim=-1, keepdim=True) * normalize(direction, dim=-1)
        gain = context.decoder.coefficients(context.replay(moved, at)) - clean
        place = _rows("lexframe_1_basis", variant, *_grid(context.layers, at, labels))
        rows.append(place.assign(success=_flags(gain.argmax(-1) == labels)))
    return pd.concat(rows)


def _flips(context: Context, at: Tensor, pair: Tensor, found: Mapping[str, Tensor]) -> pd.DataFrame:
    """Whether the runner-up passes the top token within the longest move along ``[S, 1, d]``, and whether cleanly."""
    decoder, x = context.decoder, context.at(at)
    log_p = decoder.logits(context.states[-1, at]).log_softmax(-1)[0]
    others = torch.ones_like(log_p, dtype=torch.bool).index_fill(0, pair, False)
    rows = []
    for variant, direction in found.items():
        steps = torch.from_numpy(LENGTHS).to(x)[:, None, None, None] * x.norm(dim=-1, keepdim=True)
        last = context.replay(x + steps * normalize(direction, dim=-1), at)[:, :, 0]  # lengths S d
        gap = decoder.final_norm(last) @ (decoder.unembedding[pair[0]] - decoder.unembedding[pair[1]])
        reached, first = (gap > 0).max(0)
        there = decoder.logits(last[first, torch.arange(len(first))]).log_softmax(-1)
        side = (there - log_p)[:, others].abs().mean(-1)
        place = _rows("lexframe_1_basis", variant, np.asarray(context.layers), _numbers(at))
        rows.append(place.assign(reached=_flags(reached), clean=_flags(reached & (side < CLEAN))))
    return pd.concat(rows)


def ablations(context: Context) -> pd.DataFrame:
    """Order 1's difference for attention writes, beside their effect with and without the block's MLP run again."""
    decoder, states = context.decoder, context.states
    at = torch.arange(1, len(context.ids), device=states.device)
    covector = covectors(decoder, context.native.summary.top[1:])
    made = writes(decoder, states, [layer - 1 for layer in context.layers])
    rows = []
    for layer, frame in context.order1.items():
        block, below, x = decoder.blocks[layer - 1], states[layer - 1, at], states[layer, at]
        less = x - (made[layer - 1].attention * made[layer - 1].scale)[at]
        without = block.finish(below[None], torch.zeros_like(below)[None], at)[0]

        def value(last: Tensor) -> Tensor:
            return (decoder.final_norm(last).float() * covector).sum(-1)

        score = value(frame.transport(x, at)) - value(frame.transport(less, at))
        for variant, state in {CHOSEN: less, "ablation_reruns_mlp": without}.items():
            last = replay(decoder, context.memories, states, state, at, layer)
            place = _rows("lexframe_1_difference", variant, np.asarray(layer), _numbers(at))
            rows.append(place.assign(effect=_numbers(value(states[-1, at]) - value(last)), score=_numbers(score)))
    return pd.concat(rows)


# -- distances


def exchanges(contexts: Sequence[Context], rows: Sequence[Any], options: Mapping[str, Any], seed: int) -> pd.DataFrame:
    """Distances of pairs of states from different documents, beside the effect of putting one in the other's place."""
    documents = np.asarray([row.document for row in rows])
    found = []
    for layer in contexts[0].layers:
        pairs = draw.pairs(documents, len(contexts[0].ids), options["pairs"], seed, layer)
        states = torch.stack([context.states[layer] for context in contexts]).cpu().numpy()
        effect = np.empty(len(pairs.target))
        for number, context in enumerate(contexts):
            chosen = np.flatnonzero(pairs.target == number)
            at = torch.from_numpy(pairs.at[chosen]).to(context.states.device)
            donors = torch.from_numpy(states[pairs.donor[chosen], pairs.donor_at[chosen]]).to(context.states)
            last = replay(context.decoder, context.memories, context.states, donors, at, layer)
            effect[chosen] = divergences(context.decoder, context.states[-1, at], last[None])[0].cpu().numpy()
        for (method, variant), distance in _distances(states, pairs, options).items():
            found.append(_rows(method, variant, np.asarray(layer), pairs.at).assign(
                document=documents[pairs.target], sequence=[rows[number].sequence for number in pairs.target],
                effect=effect, distance=distance,
            ))  # fmt: skip
    return pd.concat(found)


def _distances(states: np.ndarray, pairs: Pairs, options: Mapping[str, Any]) -> dict[tuple[str, str], np.ndarray]:
    """Distances ``[R]`` by method and variant."""
    cloud, leading = Cloud.of(states), options["leading"]
    a, b = cloud.place[pairs.target, pairs.at], cloud.place[pairs.donor, pairs.donor_at]
    x, y = states[pairs.target, pairs.at], states[pairs.donor, pairs.donor_at]
    near = Neighbours.of(cloud.points, 2 * max(options["neighbours"], options["graph"]))
    found = {}
    for variant, factor in {CHOSEN: 1, "neighbours": 2}.items():
        local, graph = near.nearest(factor * options["neighbours"]), near.nearest(factor * options["graph"])
        found["principal_subspace", variant] = clouds.local_angles(cloud.points, local, a, b, leading)
        found["geodesic", variant] = clouds.geodesic(cloud.points, graph, a, b)
    found["mahalanobis", CHOSEN] = clouds.mahalanobis(clouds.flat(states), x, y)
    gap = x.astype(np.float64) - y
    precision = np.linalg.pinv(np.cov(clouds.flat(states).astype(np.float64).T), hermitian=True)
    found["mahalanobis", "unshrunk_covariance"] = np.sqrt(np.einsum("rd,rd->r", gap @ precision, gap).clip(0))
    return found


def _numbers(values: Tensor) -> np.ndarray:
    """All of them in a row."""
    return values.cpu().numpy().ravel()


def _flags(values: Tensor) -> pd.api.extensions.ExtensionArray:
    """The same of booleans, in a type that can be missing elsewhere."""
    return pd.array(_numbers(values), dtype="boolean")


def _grid(layers: Sequence[int], at: Tensor, labels: Tensor) -> list[np.ndarray]:
    """Layer, position and label of values ``[S, R, C]``, flattened."""
    return [part.ravel() for part in np.meshgrid(layers, _numbers(at), _numbers(labels), indexing="ij")]


def _rows(
    method: str, variant: str, layer: np.ndarray, position: np.ndarray, label: np.ndarray | None = None
) -> pd.DataFrame:
    """The factors of trials; one layer, or one position, may stand for all."""
    layer, position = np.broadcast_arrays(layer, position)
    rows = pd.DataFrame({"layer": layer.astype(np.int16), "position": position.astype(np.int16)})
    rows = rows if label is None else rows.assign(label=label.astype(np.int32))
    return rows.assign(method=method, variant=variant)
