"""Draw positions and labels: deterministic, and the same whatever the shard."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd

from lensproof.corpora.sequences import take
from lensproof.errors import LensproofError


def positions(sequence: int, length: int, count: int, seed: int) -> np.ndarray:
    """``count`` rising positions of a sequence, drawn without replacement from 1 .. length - 1.

    Position 0 is left out of all direction statistics: it has no prefix, and its state is like no other.

    Raises:
        LensproofError: there are not so many.
    """
    if count > length - 1:
        raise LensproofError(f"{count} positions are asked for, a sequence of {length} tokens has {length - 1}")
    digest = hashlib.sha256(f"{seed}/{sequence}".encode()).digest()
    generator = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    return np.sort(generator.choice(np.arange(1, length), size=count, replace=False))


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
