"""How early a reading has the model's answer: settling, and leaving at a threshold. LexFrame appendix B, table 7.

Computed from the observations of ``readings``, layers below L only: at L every reading is the model's own.

- **Settled** at a position: from which layer on, up to L, the reading's top token stays the model's; with l that
  layer, the share (L - l) / L of blocks that would not have to run. 0 where layer L-1 still differs, 1 where the
  embedding has it. It needs the model's answer, so nothing can act on it.
- **Threshold exit**: leave at the smallest layer l whose top probability is at least the threshold, and skip the share
  (L - l) / L of the blocks; run to L, skip nothing and agree with the model where no layer reaches it. One half of the
  documents sets the threshold: of the confidences at which one of its positions can leave, the lowest with which at
  least 0.95 of its positions agree with the model. What is skipped, and how often it agrees, is counted on the other.

Neither saves computing: a reading in the model's own terms runs the blocks that are left. Chosen: documents in turn
belong to the one half and to the other, in the order of their running numbers; the resamples draw documents within
each half and set the threshold anew each time.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pandas as pd

from lensproof.errors import LensproofError
from lensproof.statistics.bootstrap import cluster_sums, mean_draws, resampling_weights
from lensproof.statistics.methods import in_order
from lensproof.statistics.sample import Sample
from lensproof.statistics.table import finish, overall
from lensproof.statistics.trials import Trials

AGREEMENT = 0.95
"""With the model, at which the threshold is set."""
UNITS = {
    "settled": "share of layers", "skipped": "share of layers", "settled_minus_skipped": "share of layers",
    "agreement": "share", "threshold": "probability",
}  # fmt: skip
BLOCK = 2**22
"""Numbers in one temporary array of the resamples."""


class Grid(NamedTuple):
    """One method's readings, positions by layers in rising order."""

    document: np.ndarray  # (T,) running number
    layers: np.ndarray  # (S,) below L
    agrees: np.ndarray  # (T, S) top token is the model's
    confidence: np.ndarray  # (T, S)

    def part(self, documents: np.ndarray) -> Grid:
        """The positions of some documents, renumbered in their order."""
        rows = np.isin(self.document, documents)
        document = np.searchsorted(documents, self.document[rows])
        return Grid(document, self.layers, self.agrees[rows], self.confidence[rows])


class Exit(NamedTuple):
    """Draws (resamples + 1,) of a threshold exit on the half that is tested."""

    skipped: np.ndarray
    agreement: np.ndarray
    threshold: np.ndarray


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Settled and skipped shares of layers with bootstrap intervals over documents, for one checkpoint.

    Args:
        observations: trials of ``readings`` (``workflow/schemas/observations_readings.schema.yaml``).
        resamples: bootstrap resamples.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        One row per estimate (``workflow/schemas/estimates.schema.yaml``). Measures: ``settled``; ``skipped``,
        ``agreement`` and ``threshold`` of the exit; ``settled_minus_skipped``, both on the tested half. ``n`` counts
        positions and ``clusters`` documents, those of the tested half for the exit.
        ``threshold`` is 1 also where no confidence reaches the agreement, so that everything runs.

    Raises:
        LensproofError: the observations are not whole, or there are fewer than 4 documents.
    """
    sample, readings, depth = Trials.of(observations, resamples=resamples, level=level, seed=seed)
    documents = np.arange(len(sample.documents))
    if len(documents) < 4:
        raise LensproofError(f"{sample.checkpoint}: exits need at least 4 documents, two in each half: raise sequences")
    halves = documents[::2], documents[1::2]
    drawn = tuple(resampling_weights(len(half), resamples, [seed, i]) for i, half in enumerate(halves))

    grids = {method: _grid(sample, readings, method, depth) for method in in_order(readings["method"])}
    found: dict[str, dict[str, np.ndarray]] = {measure: {} for measure in UNITS}
    for method, grid in grids.items():
        found["settled"][method] = settled(grid, sample.weights, depth)
        parts = [grid.part(half) for half in halves]
        exits = threshold_exit(*parts, *drawn, depth)
        found["settled_minus_skipped"][method] = settled(parts[1], drawn[1], depth) - exits.skipped
        for measure, draws in exits._asdict().items():
            found[measure][method] = draws
    read = next(iter(grids.values())).document  # the same positions by every method
    n = dict.fromkeys(UNITS, int(np.isin(read, halves[1]).sum())) | {"settled": len(read)}
    behind = dict.fromkeys(UNITS, len(halves[1])) | {"settled": len(documents)}
    layers = max((grid.layers.tolist() for grid in grids.values()), key=len)
    pairs = {"settled": "all", "skipped": "all"}
    return finish(
        sample,
        "exits",
        itertools.chain.from_iterable(
            overall(
                sample,
                measure,
                unit,
                found[measure],
                n=n[measure],
                layers=layers,
                pairs=pairs.get(measure, ()),
                clusters=behind[measure],
            )
            for measure, unit in UNITS.items()
        ),
    )


def settled(grid: Grid, weights: np.ndarray, depth: int) -> np.ndarray:
    """Draws of the mean share of layers, counted back from L, over which the top token stays the model's.

    Args:
        grid: T positions by S layers.
        weights: (draws, documents) how often each document counts.
        depth: L.

    Returns:
        Array (draws,).
    """
    run = np.logical_and.accumulate(grid.agrees[:, ::-1], axis=1).sum(axis=1)
    first = np.append(grid.layers, depth)[len(grid.layers) - run]
    return _mean((depth - first) / depth, grid.document, weights)


def threshold_exit(
    chosen: Grid, tested: Grid, chosen_weights: np.ndarray, tested_weights: np.ndarray, depth: int
) -> Exit:
    """Set the threshold on one half in each resample, and leave with it on the other.

    As the threshold falls, a position's exit moves only when it passes one of the confidences that are higher than
    all those of the layers below. Sums over these *steps* give the agreement at every threshold at once.

    Args:
        chosen: the half on which the threshold is set.
        tested: the other.
        chosen_weights: (draws, documents of the one half) how often each counts.
        tested_weights: (draws, documents of the other half).
        depth: L.
    """
    steps, other = _steps(chosen, depth), _steps(tested, depth)
    index = _lowest(steps, np.bincount(chosen.document), chosen_weights)
    threshold = np.append(steps.value, np.inf)[index]  # index -1: none
    passed = np.searchsorted(-other.value, -threshold, side="right")  # steps of the other half at or above it
    positions = np.bincount(tested.document)
    counted = tested_weights @ positions
    agree = ((positions[:, None] + other.agree[:, passed]) * tested_weights.T).sum(axis=0)
    skip = (other.skip[:, passed] * tested_weights.T).sum(axis=0)
    return Exit(skip / counted, agree / counted, np.minimum(threshold, 1.0))


class _Steps(NamedTuple):
    """What changes as the threshold falls to each of E confidences, highest first."""

    value: np.ndarray  # (E,) falling
    agree: np.ndarray  # (D, E + 1) change in positions that agree, summed over the first 0 .. E steps
    skip: np.ndarray  # (D, E + 1) blocks skipped as shares of L, likewise


def _steps(grid: Grid, depth: int) -> _Steps:
    before = np.maximum.accumulate(grid.confidence, axis=1)[:, :-1]
    record = np.ones_like(grid.agrees, dtype=bool)
    record[:, 1:] = grid.confidence[:, 1:] > before
    position, place = np.nonzero(record)  # a position's records in the order of layers
    last = np.append(position[1:] != position[:-1], True)
    layer, agrees = grid.layers[place], grid.agrees[position, place].astype(np.float64)
    further = np.where(last, depth, np.roll(layer, -1)) - layer  # to the exit that a higher threshold takes, or L
    gain = agrees - np.where(last, 1.0, np.roll(agrees, -1))
    value = grid.confidence[position, place]
    order = np.argsort(-value, kind="stable")
    documents = int(grid.document.max()) + 1
    cell = (grid.document[position][order], np.arange(1, len(order) + 1))

    def summed(change: np.ndarray) -> np.ndarray:
        sums = np.zeros((documents, len(order) + 1))
        sums[cell] = change[order]
        return np.cumsum(sums, axis=1)

    return _Steps(value[order], summed(gain), summed(further / depth))


def _lowest(steps: _Steps, positions: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(draws,) index of the last step at which enough positions agree; -1 where there is none."""
    whole = np.append(steps.value[1:] != steps.value[:-1], True)  # of equal confidences, all pass together
    (ends,) = np.nonzero(whole)
    agree = positions[:, None] + steps.agree[:, ends + 1]
    short = 1e-9 * positions.sum()  # counts are whole: only rounding of the product can lie between
    found = []
    step = max(1, BLOCK // max(1, len(ends)))
    for start in range(0, len(weights), step):
        block = weights[start : start + step]
        enough = block @ agree >= AGREEMENT * (block @ positions)[:, None] - short
        last = len(ends) - 1 - np.argmax(enough[:, ::-1], axis=1)
        found.append(np.where(enough.any(axis=1), ends[last], -1))
    return np.concatenate(found)


def _grid(sample: Sample, readings: pd.DataFrame, method: str, depth: int) -> Grid:
    trials = readings[(readings["method"] == method) & (readings["layer"] < depth)]
    trials = trials.sort_values(["document", "sequence", "position", "layer"])
    layers = np.unique(trials["layer"].to_numpy())
    shape = (-1, len(layers))
    return Grid(
        document=sample.document(trials)[:: len(layers)],
        layers=layers.astype(np.int64),
        agrees=sample.values(trials, "agrees").astype(bool).reshape(shape),
        confidence=sample.values(trials, "confidence").reshape(shape),
    )


def _mean(values: np.ndarray, document: np.ndarray, weights: np.ndarray) -> np.ndarray:
    shape = weights.shape[1:]
    return mean_draws(weights, cluster_sums(values, document, shape), np.bincount(document, minlength=shape[0]))
