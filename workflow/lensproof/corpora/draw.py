"""Draw positions, pairs of positions and labels: deterministic, and the same whatever the shard."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import pandas as pd

from lensproof.corpora.sequences import take
from lensproof.errors import LensproofError


class Pairs(NamedTuple):
    """R pairs of positions in different documents; sequences go by their place in the list that they are drawn from."""

    target: np.ndarray
    """(R,) sequences."""
    at: np.ndarray
    """(R,) positions in them."""
    donor: np.ndarray
    donor_at: np.ndarray

    def of_targets(self, first: int, count: int) -> Pairs:
        """Those whose target is one of ``count`` sequences from ``first`` on."""
        chosen = (self.target >= first) & (self.target < first + count)
        return Pairs(*(part[chosen] for part in self))


def positions(sequence: int, length: int, count: int, seed: int) -> np.ndarray:
    """``count`` rising positions of a sequence, drawn without replacement from 1 .. length - 1.

    Position 0 is left out of all direction statistics: it has no prefix, and its state is like no other.

    Raises:
        LensproofError: there are not so many.
    """
    if count > length - 1:
        raise LensproofError(f"{count} positions are asked for, a sequence of {length} tokens has {length - 1}")
    generator = _generator(f"{seed}/{sequence}")
    return np.sort(generator.choice(np.arange(1, length), size=count, replace=False))


def pairs(documents: np.ndarray, length: int, count: int, seed: int, layer: int) -> Pairs:
    """``count`` pairs of positions from 1 on: every sequence is the target equally often, up to one pair.

    No position is the target twice before each of its sequence was; donors are drawn with replacement from all
    positions of the other documents. Every layer has pairs of its own.

    Args:
        documents: (N,) the document of each sequence.
        length: tokens in a sequence.

    Raises:
        LensproofError: all sequences are of one document.
    """
    if len(np.unique(documents)) < 2:
        raise LensproofError("a pair of states from different documents needs at least 2 of them: raise sequences")
    generator, number = _generator(f"{seed}/pairs/{layer}"), len(documents)
    turn, target = np.divmod(np.arange(count), number)
    rounds = -(-count // number // (length - 1))
    rows = [[generator.permutation(np.arange(1, length)) for _ in range(rounds)] for _ in range(number)]
    at = np.asarray(rows).reshape(number, -1)[target, turn]
    donor = np.empty(count, dtype=np.int64)
    for sequence in np.unique(target):
        others = np.flatnonzero(documents != documents[sequence])
        donor[target == sequence] = generator.choice(others, size=int((target == sequence).sum()))
    return Pairs(target, at, donor, generator.integers(1, length, size=count))


def _generator(key: str) -> np.random.Generator:
    digest = hashlib.sha256(key.encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def labels(sequences: pd.DataFrame, count: int) -> np.ndarray:
    """``count`` token ids spread evenly over the frequency ranking of the calibration text, most frequent first.

    Chosen: tokens that occur there at all, by falling count and rising id; label i has rank (i + 1/2) n / count. The
    first position is left out, so a BOS token is no label.

    Raises:
        LensproofError: the text has fewer different tokens.
    """
    text = take(sequences, "calibration", int((sequences["role"] == "calibration").sum()))
    ids, counts = np.unique(np.stack(text["tokens"].to_list())[:, 1:], return_counts=True)
    if len(ids) < count:
        raise LensproofError(f"{count} labels are asked for, the calibration text has {len(ids)} different tokens")
    ranking = ids[np.lexsort((ids, -counts))]
    return ranking[((np.arange(count) + 0.5) * len(ids) / count).astype(int)].astype(np.int64)
