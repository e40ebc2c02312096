"""Correlations when whole documents are resampled, against scipy on the trials written out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lensproof.errors import LensproofError
from lensproof.statistics.bootstrap import resampling_weights
from lensproof.statistics.correlations import correlations, pearson, spearman
from lensproof.statistics.sample import Sample

SIZES = (3, 9, 6, 5, 1)
DOCUMENT = np.repeat(np.arange(5), SIZES)
SCIPY = {pearson: stats.pearsonr, spearman: stats.spearmanr}
BOTH = pytest.mark.parametrize("correlation", list(SCIPY), ids=lambda function: function.__name__)


def values(kind: str) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(3)
    x = generator.normal(size=len(DOCUMENT))
    y = x + generator.normal(size=len(x))
    return {
        "plain": (x, y),
        "ties": (np.round(x), np.round(2 * y)),
        "shifted": (1e4 + 1e-2 * x, -1e4 + 1e-2 * y),
        "skewed": (np.exp(5 * x), y),
    }[kind]


@BOTH
@pytest.mark.parametrize("kind", ["plain", "ties", "shifted", "skewed"])
def test_every_resample_is_what_scipy_says_of_the_trials_written_out(correlation, kind):
    x, y = values(kind)
    weights = resampling_weights(5, 60, 1)
    draws = correlation(x, y, DOCUMENT, weights)
    assert draws.shape == (61,)
    for weight, draw in zip(weights, draws, strict=True):
        times = weight[DOCUMENT].astype(int)
        expected = SCIPY[correlation](np.repeat(x, times), np.repeat(y, times)).statistic
        assert draw == pytest.approx(expected, abs=1e-9)


def test_ranks_by_hand():
    """Ranks of x: 1.5, 1.5, 3, 4; of y: 1, 2, 4, 3. r = 3.5 / √(4.5 · 5)."""
    x, y = np.array([7.0, 7, 8, 9]), np.array([0.1, 0.2, 9, 8])
    draws = spearman(x, y, np.array([0, 0, 1, 1]), np.ones((1, 2)))
    assert draws == pytest.approx([3.5 / np.sqrt(4.5 * 5)])


@BOTH
def test_what_does_not_vary_has_no_correlation(correlation):
    """Document 0 has one value of x only; drawn alone it leaves the correlation undefined, as a constant does."""
    x, y = np.array([0.1, 0.1, 0.1, 5.7, 0.3]), np.array([1.0, 2.0, 3.5, 4.0, 0.0])
    document = np.array([0, 0, 0, 1, 1])
    weights = np.array([[1.0, 1], [2, 0], [0, 2], [0, 0]])
    assert np.isnan(correlation(x, y, document, weights)).tolist() == [False, True, False, True]
    assert np.isnan(correlation(np.full(5, 0.1), y, document, weights)).all()


@pytest.fixture
def trials() -> pd.DataFrame:
    """Two methods, one of which has layer 3 only, in no order."""
    generator = np.random.default_rng(0)
    parts = []
    for method, layers in (("lexframe_1", (0, 3)), ("cosine_distance", (3,))):
        for layer in layers:
            x = generator.normal(size=len(DOCUMENT))
            part = {"document": 10 + DOCUMENT, "layer": layer, "method": method, "x": x}
            parts.append(pd.DataFrame({**part, "y": layer * x + generator.normal(size=len(x))}))
    table = pd.concat(parts, ignore_index=True).sample(frac=1, random_state=0)
    return table.assign(checkpoint="toy")


@BOTH
def test_each_method_and_layer_has_its_correlation(trials, correlation):
    sample = Sample.of(trials, resamples=100, level=0.9, seed=0, needs=("x", "y"))
    found = correlations(sample, trials, "x", "y", correlation)
    assert {method: values.layers for method, values in found.items()} == {
        "cosine_distance": (3,), "lexframe_1": (0, 3)
    }  # fmt: skip
    for method, by_layer in found.items():
        for s, layer in enumerate(by_layer.layers):
            own = trials[(trials["method"] == method) & (trials["layer"] == layer)]
            assert by_layer.draws[0, s] == pytest.approx(SCIPY[correlation](own["x"], own["y"]).statistic)
            assert by_layer.n[s] == len(own)


def test_a_value_that_is_not_finite_is_refused(trials):
    trials.loc[trials.index[5], "y"] = np.nan
    sample = Sample.of(trials, resamples=100, level=0.9, seed=0)
    with pytest.raises(LensproofError, match=r"toy: y is not finite in 1 trials, first \w+ at layer \d"):
        correlations(sample, trials, "x", "y")
