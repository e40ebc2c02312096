"""Readings: distributions over the vocabulary, and how far each is from the model's own.

A last-layer state x reads as softmax(cap(W N(x))). Comparing thousands of states with a model of a large
vocabulary is mostly one matrix product, so the vocabulary is walked in chunks that stay in cache, keeping for each
state only the log normaliser and the top token; the expected score under the model's distribution needs no logits,
sum_v p_v w_v . N(x) being a product with one d-vector per position. All of it is in float32, whatever the precision
of the model: where logits and their mean are rounded differently, a KL is wrong by more than it often is large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder, full
from lensproof.errors import LensproofError

# States and tokens of one tile of logits: about 4 MB in float32.
ROWS, TOKENS = 1024, 1024
ROUNDING = 1e-3
"""Nats. Up to so far below 0 a KL is taken as 0, in units of 1 or of a thousandth of the log normaliser if that is
more: such is the rounding of the difference of two numbers of that size in float32."""


class Summary(NamedTuple):
    """Of the readings of states ``[..., d]``: log normaliser, top token and its log-probability, each ``[...]``."""

    normaliser: Tensor
    top: Tensor
    log_probability: Tensor


class Comparison(NamedTuple):
    """Readings of C layers against the model's own: KL(model || reading) in nats, top token, its probability,
    each ``[C, T]``."""

    kl: Tensor
    top: Tensor
    confidence: Tensor


def summarise(decoder: Decoder, x: Tensor) -> Summary:
    """Normaliser and top token of the readings of last-layer states ``x`` ``[..., d]``, in float32.

    The top token is found before the softcap, which can make ties but never changes the order.
    """
    flat = decoder.normed(x).flatten(0, -2)
    parts = [_summarise_rows(decoder, rows) for rows in flat.split(ROWS)]
    return Summary(*(torch.cat(part).view(x.shape[:-1]) for part in zip(*parts, strict=True)))


def _summarise_rows(decoder: Decoder, normed: Tensor) -> Summary:
    chunks = decoder.unembedding.split(TOKENS)
    highest, normalisers = [], []
    for weight in chunks:
        raw = (normed @ full(weight).T).float()
        logits = decoder.cap(raw)
        highest.append(raw.amax(-1))
        capped = highest[-1] if decoder.softcap is None else logits.amax(-1)
        # The largest probability of a tile gives its normaliser in one pass over the tile.
        normalisers.append(capped - logits.softmax(-1).amax(-1).log())
    best, where = torch.stack(highest).max(0)
    normaliser = torch.stack(normalisers).logsumexp(0)
    top = torch.empty_like(where)
    for index in where.unique().tolist():
        rows = where == index
        top[rows] = index * TOKENS + (normed[rows] @ full(chunks[index]).T).argmax(-1)
    return Summary(normaliser, top, decoder.cap(best) - normaliser)


@dataclass(frozen=True)
class NativeReading:
    """The model's own output on one sequence, in the form that comparisons need.

    ``normed`` N(x_L) ``[T, d]``; ``summary`` of its reading; ``expected`` sum_v p_v w_v ``[T, d]``; ``log_p`` the
    distribution itself ``[T, V]``, kept only where a softcap makes it necessary.
    """

    normed: Tensor
    summary: Summary
    expected: Tensor
    log_p: Tensor | None

    @classmethod
    def of(cls, decoder: Decoder, x: Tensor) -> NativeReading:
        """From the last layer's states ``x`` ``[T, d]``."""
        log_p = decoder.logits(x).log_softmax(-1)
        expected = decoder.expected(log_p.exp()).float()
        capped = decoder.softcap is not None
        return cls(decoder.normed(x).float(), summarise(decoder, x), expected, log_p if capped else None)


@torch.no_grad()
def compare(decoder: Decoder, native: NativeReading, x: Tensor) -> Comparison:
    """Readings of last-layer states ``x`` ``[C, T, d]`` against the model's own at the same positions.

    Raises:
        LensproofError: a KL is below 0 by more than rounding.
    """
    summary = summarise(decoder, x)
    if native.log_p is None:
        difference = native.normed - decoder.normed(x).float()
        gap = torch.einsum("ctd,td->ct", difference, native.expected)
    else:
        gap = torch.stack([_capped_gap(decoder, native, state) for state in x])
    kl = at_least_zero(gap + summary.normaliser - native.summary.normaliser, native.summary.normaliser)
    return Comparison(kl, summary.top, summary.log_probability.exp())


def at_least_zero(kl: Tensor, normaliser: Tensor) -> Tensor:
    """KL divergences without what rounding took from those near 0.

    Args:
        kl: in nats.
        normaliser: log normalisers that went into them, of a shape that expands to theirs.

    Raises:
        LensproofError: one is further below 0 than rounding explains.
    """
    if (kl < -ROUNDING * (normaliser.abs() / 1000).clamp_min(1)).any():
        raise LensproofError(
            f"a KL of {float(kl.min()):.3g} nats is below 0 by more than rounding: run with precision float32 on "
            "device cpu, and if it stays, report it"
        )
    return kl.clamp_min(0)


def _capped_gap(decoder: Decoder, native: NativeReading, x: Tensor) -> Tensor:
    """Sum_v p_v (z_v of the model - z_v of the reading) with capped logits, for states ``[T, d]``."""
    own = native.log_p + native.summary.normaliser[:, None]
    return (native.log_p.exp() * (own - decoder.logits(x))).sum(-1)


@torch.no_grad()
def divergences(decoder: Decoder, x: Tensor, others: Tensor) -> Tensor:
    """KL(reading of x || reading of another), in nats, row by row.

    Args:
        decoder: the model.
        x: last-layer states ``[R, d]``.
        others: K other states for each row, ``[K, R, d]``.

    Returns:
        ``[K, R]`` in float32. The vocabulary is walked once for all of them.

    Raises:
        LensproofError: a KL is below 0 by more than rounding.
    """
    rows = zip(decoder.normed(x).split(ROWS), decoder.normed(others).split(ROWS, 1), strict=True)
    return torch.cat([_diverge_rows(decoder, *part) for part in rows], 1)


def _diverge_rows(decoder: Decoder, normed: Tensor, others: Tensor) -> Tensor:
    found = []
    for weight in map(full, decoder.unembedding.split(TOKENS)):
        own = decoder.cap((normed @ weight.T).float())
        mass = own.logsumexp(-1)
        share = (own - mass[:, None]).exp_()
        tile = [mass]
        for other in others:
            logits = decoder.cap((other @ weight.T).float())
            tile += [logits.logsumexp(-1), (share * (own - logits)).sum(-1)]
        found.append(torch.stack(tile))
    own, *rest = torch.stack(found, 1)  # each [tiles, R]
    normaliser = own.logsumexp(0)
    weight = (own - normaliser).exp()
    kl = [
        (weight * gap).sum(0) + mass.logsumexp(0) - normaliser for mass, gap in zip(rest[::2], rest[1::2], strict=True)
    ]
    return at_least_zero(torch.stack(kl), normaliser)


def likeliest(decoder: Decoder, x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` top tokens and their probabilities, each ``[..., count]``, of last-layer states ``x`` ``[..., d]``.

    The order is that before the softcap, which can make ties but never changes it.
    """
    raw = decoder.coefficients(x).float()
    top = raw.topk(count).indices
    return top, decoder.cap(raw).softmax(-1).gather(-1, top)


def distribution(decoder: Decoder, x: Tensor) -> Tensor:
    """Probabilities ``[..., V]`` of the readings of last-layer states ``x`` ``[..., d]``, in float32."""
    return decoder.logits(x).softmax(-1)
