"""How intervals shrink with the number of documents."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from synthetic import LAYERS, observations

from lensproof.statistics import readings
from lensproof.statistics.bootstrap import resampling_weights
from lensproof.statistics.intervals import SETS, estimate, exponent, half_widths, sizes
from lensproof.statistics.sample import Sample

SETTINGS = {"resamples": 200, "level": 0.9, "seed": 3}


@pytest.fixture(scope="module")
def trials() -> pd.DataFrame:
    return observations(documents=20, positions=6, seed=2)


@pytest.fixture(scope="module")
def estimates(trials) -> pd.DataFrame:
    return estimate(trials, **SETTINGS)


def select(table: pd.DataFrame, **wanted) -> pd.Series:
    rows = table
    for column, value in wanted.items():
        rows = rows[rows[column].isna() if value is None else rows[column] == value]
    assert len(rows) == 1, wanted
    return rows.iloc[0]


def test_sizes():
    assert sizes(64) == [4, 8, 16, 32, 64]
    assert sizes(20) == [4, 8, 16, 20]
    assert sizes(5) == [4, 5]
    assert sizes(4) == [4]
    assert sizes(3) == [3]


def test_exponent_by_hand():
    n = np.array([4, 8, 16, 20])
    widths = 3 * n**-0.7 / np.sqrt(n / (n - 1))
    assert exponent(n, widths) == pytest.approx(-0.7)
    assert exponent(n, np.stack([widths, 2 * widths])) == pytest.approx([-0.7, -0.7])
    assert np.isnan(exponent([4, 8], np.array([0.0, 1.0])))


def test_all_documents_have_the_interval_of_the_table_itself(trials, estimates):
    table = readings.estimate(trials, **SETTINGS)
    for measure in ("kl", "top1"):
        own = select(table, measure=measure, method="lexframe_1", contrast=None, summary="layer_mean")
        row = select(estimates, measure=f"half_width_{measure}", method="lexframe_1", setting="20")
        assert row["point"] == pytest.approx((own["hi"] - own["lo"]) / 2, rel=1e-9)
        assert np.isnan([row["lo"], row["hi"]]).all()
        assert (row["n"], row["layers"], row["clusters"]) == (120, LAYERS - 1, 20)


def test_fewer_documents_have_wider_intervals(estimates):
    for measure in ("half_width_kl", "half_width_top1"):
        rows = estimates[(estimates["measure"] == measure) & (estimates["method"] == "lexframe_0")]
        assert rows["setting"].tolist() == ["4", "8", "16", "20"]
        assert rows["n"].tolist() == [24, 48, 96, 120]
        assert rows["point"].is_monotonic_decreasing
        assert (rows["lo"] <= rows["point"]).iloc[:-1].all()
        assert (rows["point"] <= rows["hi"]).iloc[:-1].all()


def test_independent_documents_give_the_inverse_square_root():
    """Known: half the 95% interval of a mean of n unit normals is 1.96 / √n, here times √((n-1)/n)."""
    values = np.random.default_rng(0).normal(size=(64, 1))
    sample = Sample("toy", np.arange(64), resampling_weights(64, 1000, 0), 1000, 0.95, 0)
    widths = [np.sqrt((half_widths(sample, values, np.ones((64, 1)), n) ** 2).mean()) for n in sizes(64)]
    assert widths[-1] == pytest.approx(1.96 * values.std() / 8, rel=0.05)
    assert exponent(sizes(64), np.array(widths)) == pytest.approx(-0.5, abs=0.05)


def test_sets_are_drawn_without_replacement():
    """Documents 0, 1, 2: a set of two different values always has an interval."""
    sample = Sample("toy", np.arange(3), resampling_weights(3, 100, 0), 100, 0.9, 0)
    widths = half_widths(sample, np.arange(3.0)[:, None], np.ones((3, 1)), 2)
    assert widths.shape == (SETS, 1)
    assert set(np.round(widths.ravel(), 6)) == {0.5, 1.0}


def test_the_power_is_that_of_the_rows(estimates):
    rows = estimates[(estimates["measure"] == "half_width_kl") & (estimates["method"] == "jacobian_lens")]
    row = select(estimates, measure="shrinkage_exponent_kl", method="jacobian_lens")
    assert row["point"] == pytest.approx(exponent([4, 8, 16, 20], rows["point"].to_numpy()))
    assert row["lo"] < row["point"] < row["hi"]


@pytest.mark.parametrize(("documents", "powers"), [(5, 0), (8, 0), (9, 1), (20, 1)])
def test_a_power_is_fitted_to_three_numbers_of_documents_or_more(trials, documents, powers):
    """Through two points goes every power."""
    table = estimate(trials[trials["document"] < documents], **SETTINGS)
    rows = table[(table["measure"] == "shrinkage_exponent_kl") & (table["method"] == "jacobian_lens")]
    assert len(rows) == powers == (len(sizes(documents)) > 2)


def test_one_number_of_documents_has_no_power(trials):
    table = estimate(trials[trials["document"] < 4], **SETTINGS)
    assert set(table["measure"]) == {"half_width_kl", "half_width_top1"}
    assert set(table["setting"]) == {"4"}
