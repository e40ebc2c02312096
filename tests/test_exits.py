"""Settling and threshold exit (LexFrame's table 7) against hand calculation and brute force."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from synthetic import LAYERS, METHODS, observations

from lensproof.errors import LensproofError
from lensproof.statistics.bootstrap import resampling_weights, summarise
from lensproof.statistics.exits import AGREEMENT, Grid, estimate, settled, threshold_exit
from lensproof.statistics.table import COLUMNS

SETTINGS = {"resamples": 100, "level": 0.9, "seed": 3}
ONCE = np.ones((1, 1))


def grid(agrees, confidence=None, layers=None, document=None) -> Grid:
    agrees = np.array(agrees, dtype=bool)
    confidence = np.zeros(agrees.shape) if confidence is None else np.array(confidence, dtype=float)
    layers = np.arange(agrees.shape[1]) if layers is None else np.array(layers)
    return Grid(np.zeros(len(agrees), dtype=int) if document is None else document, layers, agrees, confidence)


def select(table: pd.DataFrame, **wanted) -> pd.Series:
    rows = table
    for column, value in {"reference": None, "contrast": None, **wanted}.items():
        rows = rows[rows[column].isna() if value is None else rows[column] == value]
    assert len(rows) == 1, wanted
    return rows.iloc[0]


# -- settling


@pytest.mark.parametrize(
    ("agrees", "share"),
    [([1, 1, 1, 1], 1), ([0, 0, 0, 0], 0), ([1, 1, 1, 0], 0), ([0, 1, 0, 1], 1 / 4), ([1, 0, 1, 1], 2 / 4)],
)
def test_settled_by_hand(agrees, share):
    """Four layers below L = 4: only the run that reaches back from L counts."""
    assert settled(grid([agrees]), ONCE, 4) == pytest.approx([share])


def test_settled_counts_blocks_where_not_every_layer_is_read():
    """Layers 0, 3, 6 of L = 8: from layer 3 on the top token stays, so 5 of 8 blocks are left."""
    assert settled(grid([[0, 1, 1]], layers=[0, 3, 6]), ONCE, 8) == pytest.approx([5 / 8])


def test_settled_is_a_mean_over_positions():
    two = grid([[1, 1], [0, 1], [0, 0]], document=np.array([0, 0, 1]))
    assert settled(two, np.array([[1.0, 1], [2, 0], [0, 2]]), 2) == pytest.approx([1.5 / 3, 0.75, 0])


# -- exits


def test_exit_by_hand():
    """L = 4. At 0.6 the first half agrees at 19 of 20 positions, at 0.5 at 18: the threshold is 0.6.

    The tested half leaves at layers 1 and 3 (confidences 0.7 and 0.6) and once runs to the end.
    """
    sure = [([1, 1], [0.6, 0.6])] * 18
    chosen = [*sure, ([0, 0], [0.1, 0.65]), ([0, 0], [0.5, 0.5])]
    tested = [([1, 0], [0.7, 0.9]), ([0, 0], [0.59, 0.6]), ([0, 0], [0.3, 0.5])]
    halves = (grid(*zip(*half, strict=True), layers=[1, 3]) for half in (chosen, tested))
    found = threshold_exit(*halves, ONCE, ONCE, 4)
    assert found.threshold == pytest.approx([0.6])
    assert found.skipped == pytest.approx([(3 / 4 + 1 / 4 + 0) / 3])
    assert found.agreement == pytest.approx([2 / 3])


def test_where_no_threshold_reaches_the_agreement_everything_runs():
    """A reading that is sure and wrong: leaving at probability 1 is never right."""
    wrong = grid([[0, 0]] * 3, [[1.0, 1.0]] * 3)
    found = threshold_exit(wrong, wrong, ONCE, ONCE, 2)
    assert [values.item() for values in found] == [0, 1, 1]


def leave(part: Grid, times: np.ndarray, threshold: float, depth: int) -> tuple[float, float]:
    """Skipped share and agreement, position by position."""
    skipped, agrees = [], []
    for t, document in enumerate(part.document):
        passing = np.flatnonzero(part.confidence[t] >= threshold)
        skipped += [(depth - part.layers[passing[0]]) / depth if len(passing) else 0.0] * int(times[document])
        agrees += [part.agrees[t, passing[0]] if len(passing) else True] * int(times[document])
    return float(np.mean(skipped)), float(np.mean(agrees))


@pytest.mark.parametrize("step", [0.05, 1e-9])  # with ties among confidences, and without
def test_every_resample_sets_its_threshold_anew(step):
    generator = np.random.default_rng(4)
    document = np.repeat(np.arange(6), [5, 20, 9, 14, 8, 11])
    layers, depth = np.array([0, 2, 3, 6, 7]), 8
    confidence = np.round(generator.random((len(document), 5)) ** 0.5 / step) * step
    agrees = generator.random(confidence.shape) < confidence
    whole = Grid(document, layers, agrees, confidence)
    chosen, tested = whole.part(np.array([0, 2, 4])), whole.part(np.array([1, 3, 5]))
    weights = resampling_weights(3, 40, 0), resampling_weights(3, 40, 1)
    found = threshold_exit(chosen, tested, *weights, depth)
    records = np.maximum.accumulate(chosen.confidence, axis=1)
    seen = set()
    for draw, (one, other) in enumerate(zip(*weights, strict=True)):
        reached = [t for t in np.unique(records) if leave(chosen, one, t, depth)[1] >= AGREEMENT - 1e-12]
        threshold = min(reached, default=np.inf)
        skipped, agreement = leave(tested, other, threshold, depth)
        assert found.threshold[draw] == min(threshold, 1)
        assert (found.skipped[draw], found.agreement[draw]) == pytest.approx((skipped, agreement))
        seen.add(threshold)
    assert len(seen) > 2


# -- the table


@pytest.fixture(scope="module")
def trials() -> pd.DataFrame:
    return observations(documents=7, positions=10, seed=1)


@pytest.fixture(scope="module")
def estimates(trials) -> pd.DataFrame:
    return estimate(trials, **SETTINGS)


def test_each_method_has_its_rows(trials, estimates):
    assert tuple(estimates.columns) == COLUMNS
    for method in METHODS:
        own = trials[(trials["method"] == method) & (trials["layer"] < LAYERS)]
        runs = own.sort_values("layer", ascending=False).groupby(["document", "position"])["agrees"]
        row = select(estimates, measure="settled", method=method)
        assert row["point"] == pytest.approx(runs.apply(lambda run: run.cumprod().sum() / LAYERS).mean())
        assert (row["n"], row["clusters"], row["layers"], row["unit"]) == (70, 7, LAYERS, "share of layers")
        assert row["lo"] < row["hi"]
        for measure in ("skipped", "agreement", "threshold", "settled_minus_skipped"):
            row = select(estimates, measure=measure, method=method)
            assert (row["n"], row["clusters"]) == (30, 3)  # documents 1, 3 and 5 are tested


def test_differences_are_paired(trials, estimates):
    weights = resampling_weights(7, SETTINGS["resamples"], SETTINGS["seed"])
    share = {}
    for method in ("lexframe_0", "lexframe_1"):
        own = trials[(trials["method"] == method) & (trials["layer"] < LAYERS)]
        run = own.sort_values("layer", ascending=False).groupby(["document", "position"])["agrees"]
        by_document = run.apply(lambda values: values.cumprod().mean()).groupby("document").mean()
        share[method] = weights @ by_document.to_numpy() / 7
    row = select(estimates, measure="settled", method="lexframe_1", reference="lexframe_0", contrast="difference")
    expected = summarise(share["lexframe_1"] - share["lexframe_0"], SETTINGS["level"])
    assert row[["point", "lo", "hi"]].tolist() == pytest.approx(list(expected))


def test_a_better_reading_settles_earlier(estimates):
    better = select(estimates, measure="settled", method="lexframe_2")["point"]
    assert better > select(estimates, measure="settled", method="lexframe_0")["point"]


def test_order_of_rows_does_not_matter(trials, estimates):
    shuffled = estimate(trials.sample(frac=1, random_state=0), **SETTINGS)
    pd.testing.assert_frame_equal(shuffled, estimates)


def test_halves_need_two_documents_each(trials):
    with pytest.raises(LensproofError, match="toy: exits need at least 4 documents"):
        estimate(trials[trials["document"] < 3], **SETTINGS)
    estimate(trials[trials["document"] < 4], **SETTINGS)
