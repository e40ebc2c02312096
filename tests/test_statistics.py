"""Statistics against hand calculation, brute force and identities (known answers 33 and 34 among them)."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml
from jsonschema import Draft202012Validator
from synthetic import LAYERS, METHODS, observations, paper_like

from lensproof.codehash import code_hash
from lensproof.errors import LensproofError
from lensproof.files import read_parquet, read_provenance, write_parquet
from lensproof.statistics.bootstrap import cluster_sums, mean_draws, recentred, resampling_weights, summarise
from lensproof.statistics.calibration import confidence_bin, error_draws, gap_sums
from lensproof.statistics.contrasts import ratio, relative_drop, share_lower
from lensproof.statistics.methods import in_order
from lensproof.statistics.readings import estimate
from lensproof.statistics.table import COLUMNS

SETTINGS = {"resamples": 200, "level": 0.9, "seed": 3}


def select(estimates: pd.DataFrame, **wanted) -> pd.Series:
    """The one estimate that ``wanted`` names; columns not named are null, the summary a layer mean."""
    wanted = {"reference": None, "contrast": None, "layer": None, "summary": "layer_mean", **wanted}
    rows = estimates
    for column, value in wanted.items():
        rows = rows[rows[column].isna() if value is None else rows[column] == value]
    assert len(rows) == 1, wanted
    return rows.iloc[0]


def bootstrap_mean(values, clusters, *, resamples, level, seed) -> tuple[float, float, float]:
    """Point and interval of a mean over trials."""
    _, cluster = np.unique(clusters, return_inverse=True)
    shape = (cluster.max() + 1,)
    counts = cluster_sums(np.ones(len(values)), cluster, shape)
    weights = resampling_weights(shape[0], resamples, seed)
    return tuple(map(float, summarise(mean_draws(weights, cluster_sums(values, cluster, shape), counts), level)))


def plain_error(confidence, correct) -> float:
    """The definition of the calibration error, bin by bin."""
    confidence, correct = np.asarray(confidence, dtype=float), np.asarray(correct, dtype=float)
    total = 0.0
    for index in range(15):
        inside = (confidence > index / 15) & (confidence <= (index + 1) / 15)
        if inside.any():
            total += inside.mean() * abs(confidence[inside].mean() - correct[inside].mean())
    return total


def calibration_error(confidence, correct) -> float:
    """The library's, of one set of predictions."""
    gaps = gap_sums(np.asarray(confidence), np.asarray(correct), np.zeros(len(confidence), dtype=int), (1,))
    return float(error_draws(np.ones((1, 1)), gaps, np.array([len(confidence)]))[0])


@pytest.fixture(scope="module")
def trials() -> pd.DataFrame:
    return observations(documents=6, positions=10, seed=1)


@pytest.fixture(scope="module")
def estimates(trials) -> pd.DataFrame:
    return estimate(trials, **SETTINGS)


# -- bootstrap


def test_identical_rows_in_a_cluster_count_once():
    """Known answer 33: 40 clusters of 5 equal rows give the interval of 40 values, not of 200."""
    values = np.random.default_rng(0).normal(size=40)
    settings = {"resamples": 1000, "level": 0.95, "seed": 7}
    clustered = bootstrap_mean(np.repeat(values, 5), np.repeat(np.arange(40), 5), **settings)
    single = bootstrap_mean(values, np.arange(40), **settings)
    as_if_independent = bootstrap_mean(np.repeat(values, 5), np.arange(200), **settings)
    assert clustered == pytest.approx(single, abs=1e-12)
    assert as_if_independent[2] - as_if_independent[1] < 0.6 * (clustered[2] - clustered[1])


def test_two_clusters_by_hand():
    """Clusters (0, 0, 0) and (1): the mean is 1/4, and a resample is all of one, all of the other, or both."""
    point, lo, hi = bootstrap_mean(np.array([0.0, 0, 0, 1]), np.array([5, 5, 5, 9]), resamples=500, level=0.95, seed=0)
    assert (point, lo, hi) == (0.25, 0.0, 1.0)


def test_weights_draw_whole_clusters():
    weights = resampling_weights(clusters=7, resamples=50, seed=1)
    assert weights.shape == (51, 7)
    assert (weights[0] == 1).all()
    assert (weights.sum(axis=1) == 7).all()
    assert (weights == resampling_weights(7, 50, 1)).all()
    assert (weights[1:] != resampling_weights(7, 50, 2)[1:]).any()


def test_one_cluster_is_refused():
    with pytest.raises(ValueError, match="at least 2"):
        resampling_weights(1, 100, 0)


def test_percentiles_by_hand():
    """Resamples 0..100 at level 0.9: the 5th and 95th percentile."""
    interval = summarise(np.concatenate([[42.0], np.arange(101.0)]), 0.9)
    assert interval == (42.0, pytest.approx(5.0), pytest.approx(95.0))


def test_an_undefined_resample_leaves_the_interval_undefined():
    point, lo, hi = summarise(np.array([1.0, 2.0, np.nan, 3.0]), 0.9)
    assert point == 1.0
    assert np.isnan(lo)
    assert np.isnan(hi)


# -- contrasts


def test_ratio_with_a_small_denominator_is_not_defined():
    """Known answer 34."""
    values = ratio(np.array([0.5, 0.5, 0.5, 0.5]), np.array([9e-4, -9e-4, 1e-3, 2.0]))
    assert np.isnan(values[:2]).all()
    assert values[2:] == pytest.approx([500.0, 0.25])


def test_undefined_ratio_keeps_its_numerator():
    """Known answer 34 in the table: order 0's KL below 1e-3 leaves the relative drop undefined, not its numerator."""

    def nearly_exact(method, layer, layers):
        return {**paper_like(method, layer, layers), "kl": 5e-4 if method == "lexframe_0" else 1e-4}

    table = estimate(observations(nearly_exact, noise=0), **SETTINGS)
    row = select(table, measure="kl", method="lexframe_1", reference="lexframe_0", contrast="relative_drop")
    assert row[["point", "lo", "hi"]].isna().all()
    assert row["numerator"] == pytest.approx(4e-4, rel=1e-5)


def test_relative_drop_and_share_lower_by_hand():
    assert relative_drop(np.array([0.16]), np.array([0.87])) == pytest.approx([0.71 / 0.87])
    share = share_lower(np.array([[1.0, 1, 3, 1]]), np.array([[2.0, 2, 2, 1]]))
    assert share == pytest.approx([0.5])  # a tie is not lower


# -- calibration


def test_calibration_error_by_hand():
    """Bins (12/15, 13/15] and (4/15, 5/15]: (|1.7 - 1| + |0.6 - 0|) / 4."""
    assert calibration_error([0.85, 0.85, 0.3, 0.3], [1, 0, 0, 0]) == pytest.approx((0.7 + 0.6) / 4)
    assert calibration_error([1.0, 1.0], [1, 1]) == 0
    assert calibration_error([0.5, 0.5], [1, 0]) == pytest.approx(0)


def test_gaps_cancel_within_a_bin_and_not_between_bins():
    assert calibration_error([0.81, 0.86], [1, 1]) == pytest.approx((0.19 + 0.14) / 2)  # two bins, same side
    assert calibration_error([0.94, 0.98], [0, 1]) == pytest.approx(abs(0.94 + 0.98 - 1) / 2)  # one bin
    assert calibration_error([0.1, 0.9], [1, 0]) == pytest.approx((0.9 + 0.9) / 2)


def test_bins_are_closed_on_the_right():
    assert confidence_bin([0.0, 0.01, 1 / 15, 1 / 15 + 1e-9, 0.999, 1.0]).tolist() == [0, 0, 0, 1, 14, 14]


def test_bootstrap_of_the_calibration_error_resamples_documents():
    """Row by row the same as gathering the drawn documents and computing the error of their trials."""
    generator = np.random.default_rng(5)
    document = np.repeat(np.arange(4), [3, 9, 6, 5])
    confidence, correct = generator.random(23), generator.integers(0, 2, 23)
    weights = resampling_weights(4, 20, 0)
    counts = np.bincount(document)
    draws = error_draws(weights, gap_sums(confidence, correct, document, (4,)), counts)
    for weight, draw in zip(weights, draws, strict=True):
        rows = np.concatenate([np.repeat(np.flatnonzero(document == d), int(times)) for d, times in enumerate(weight)])
        assert draw == pytest.approx(plain_error(confidence[rows], correct[rows]))


@pytest.mark.parametrize("truth", [0.0, 0.03, 0.1])
def test_the_interval_of_a_calibration_error_holds_it_and_what_other_samples_give(truth):
    """Plain resamples of a small error lie above it; recentred, 95% of the intervals hold the mean error of samples of
    this size, whatever the error, and all hold the point."""
    generator, documents, positions, samples = np.random.default_rng(0), 16, 64, 150
    weights, counts = resampling_weights(documents, 200, 1), np.full(documents, positions)
    document, found, plain = np.repeat(np.arange(documents), positions), [], []
    for _ in range(samples):
        confidence = 1 / (1 + np.exp(-generator.normal(-0.5, 1.3, len(document))))
        correct = generator.random(len(document)) < confidence - truth
        draws = error_draws(weights, gap_sums(confidence, correct, document, (documents,)), counts)
        plain.append(summarise(draws, 0.95))
        found.append(summarise(recentred(draws, 0, 1), 0.95))
    point, lo, hi = np.array(found).T
    assert ((lo <= point) & (point <= hi)).all()
    assert ((lo <= point.mean()) & (point.mean() <= hi)).mean() > 0.9
    if truth == 0:
        _, lo, hi = np.array(plain).T
        assert ((lo <= point.mean()) & (point.mean() <= hi)).mean() < 0.9


def test_recentred_draws_by_hand():
    """Their mean is the sample's own value; none leaves the range; differences are those of the moved draws."""
    draws = np.array([[0.1, 0.5], [0.2, 0.5], [0.4, 0.7]])
    np.testing.assert_allclose(recentred(draws, 0, 1), [[0.1, 0.5], [0.0, 0.4], [0.2, 0.6]])
    np.testing.assert_allclose(recentred(draws, 0.05, 0.55), [[0.1, 0.5], [0.05, 0.4], [0.2, 0.55]])


# -- estimates of readings


def test_layer_mean_weighs_layers_equally_and_leaves_out_the_ends(trials, estimates):
    own = trials[trials["method"] == "lexframe_1"]
    by_layer = own.groupby("layer")[["kl", "agrees"]].mean().loc[1 : LAYERS - 1]
    assert select(estimates, measure="kl", method="lexframe_1")["point"] == pytest.approx(by_layer["kl"].mean())
    assert select(estimates, measure="top1", method="lexframe_1")["point"] == pytest.approx(by_layer["agrees"].mean())
    assert select(estimates, measure="kl", method="lexframe_1")["layers"] == LAYERS - 1


def test_each_layer_has_its_estimate(trials, estimates):
    for method in METHODS:
        for layer in range(LAYERS + 1):
            own = trials[(trials["method"] == method) & (trials["layer"] == layer)]
            known = own[own["correct"].notna()]
            place = {"method": method, "layer": layer, "summary": "layer"}
            expected = {
                "kl": own["kl"].astype(float).mean(),
                "top1": own["agrees"].mean(),
                "accuracy": known["correct"].mean(),
                "ece": plain_error(known["confidence"], known["correct"].astype(float)),
            }
            for measure, value in expected.items():
                assert select(estimates, measure=measure, **place)["point"] == pytest.approx(value, abs=1e-12)


def test_intervals_and_contrasts_are_those_of_gathered_documents(trials, estimates):
    """Brute force: gather the drawn documents' trials, compute everything anew, take percentiles."""
    weights = resampling_weights(6, SETTINGS["resamples"], SETTINGS["seed"])[1:]
    middle = trials[trials["layer"].between(1, LAYERS - 1)]
    by_document = (
        middle.groupby(["document", "method", "layer"], observed=True)["kl"].sum().unstack(["method", "layer"])
    )
    draws = pd.DataFrame(weights @ by_document.to_numpy() / 60, columns=by_document.columns)
    means = draws.T.groupby("method", observed=True).mean().T

    def ends(values):
        return np.quantile(values, [0.05, 0.95])

    pair = {"measure": "kl", "method": "lexframe_2", "reference": "lexframe_1"}
    cases = {
        (("measure", "kl"), ("method", "lexframe_0")): means["lexframe_0"],
        (*pair.items(), ("contrast", "difference")): means["lexframe_2"] - means["lexframe_1"],
        (*pair.items(), ("contrast", "relative_drop")): 1 - means["lexframe_2"] / means["lexframe_1"],
    }
    for wanted, values in cases.items():
        row = select(estimates, **dict(wanted))
        assert row[["lo", "hi"]].tolist() == pytest.approx(ends(values).tolist(), rel=1e-6)


def test_contrasts_are_paired():
    """Documents that differ much but alike for two methods: the difference is known far better than either."""

    def parallel(method, layer, layers):
        return {**paper_like(method, layer, layers), "kl": 1.0}

    trials = observations(parallel, noise=0, documents=10)
    trials["kl"] += trials["document"].astype("float32") + (trials["method"] == "lexframe_1")
    table = estimate(trials, **SETTINGS)
    difference = select(table, measure="kl", method="lexframe_1", reference="lexframe_0", contrast="difference")
    assert difference[["point", "lo", "hi"]].tolist() == pytest.approx([1, 1, 1])
    alone = select(table, measure="kl", method="lexframe_1")
    assert alone["hi"] - alone["lo"] > 1


def test_the_model_itself_has_calibration_and_accuracy(trials, estimates):
    own = trials[(trials["method"] == "model") & trials["correct"].notna()]
    place = {"method": "model", "layer": LAYERS, "summary": "layer"}
    error = plain_error(own["confidence"], own["correct"].astype(float))
    assert select(estimates, measure="ece", **place)["point"] == pytest.approx(error)
    assert select(estimates, measure="accuracy", **place)["point"] == pytest.approx(own["correct"].mean())
    gap = select(estimates, measure="ece", method="lexframe_1", reference="model", contrast="difference")
    assert gap["point"] == pytest.approx(select(estimates, measure="ece", method="lexframe_1")["point"] - error)


def test_the_embedding_is_held_against_the_layer_mean(estimates):
    gap = select(
        estimates, measure="top1", method="lexframe_1", contrast="layer_mean_minus_layer", layer=0, summary="layer"
    )
    mean = select(estimates, measure="top1", method="lexframe_1")["point"]
    assert gap["point"] == pytest.approx(
        mean - select(estimates, measure="top1", method="lexframe_1", layer=0, summary="layer")["point"]
    )


def test_share_of_layers_leaves_out_layers_where_the_reference_is_exact(estimates):
    row = select(estimates, measure="kl", method="lexframe_2", reference="lexframe_1", contrast="share_lower")
    assert row["point"] == 1
    assert row["layers"] == LAYERS - 2  # order 1 is exact at L-1


def test_reading_the_input_token_back_is_estimated_where_it_was_observed(trials, estimates):
    assert "readback" not in set(estimates["measure"])
    reads = trials.assign(reads_input=(trials["position"] < 3) & (trials["method"] != "model"))
    table = estimate(reads, **SETTINGS)
    assert select(table, measure="readback", method="logit_lens")["point"] == pytest.approx(0.3)
    assert select(table, measure="readback", method="logit_lens", layer=0, summary="layer")["n"] == 60
    assert select(table, measure="readback", method="model", layer=LAYERS, summary="layer")["point"] == 0
    rest = table[table["measure"] != "readback"].reset_index(drop=True)
    pd.testing.assert_frame_equal(rest, estimates)


def test_a_lens_fitted_for_some_layers_only_is_estimated_there(trials, estimates):
    some = trials[(trials["method"] != "jacobian_lens") | trials["layer"].isin([0, 3, 6])]
    table = estimate(some, **SETTINGS)
    mean = select(table, measure="kl", method="jacobian_lens")
    by_layer = [
        select(table, measure="kl", method="jacobian_lens", layer=layer, summary="layer")["point"] for layer in (3, 6)
    ]
    assert (mean["layers"], mean["point"]) == (2, pytest.approx(np.mean(by_layer)))
    other = {"measure": "kl", "method": "lexframe_1", "reference": "lexframe_0", "contrast": "relative_drop"}
    pd.testing.assert_series_equal(select(table, **other), select(estimates, **other), check_names=False)
    pair = {"measure": "kl", "method": "lexframe_0", "reference": "jacobian_lens"}
    assert select(table, **pair, contrast="difference")["layers"] == 2
    assert select(table, **pair, contrast="share_lower")["layers"] == 2


def test_counts(estimates):
    row = select(estimates, measure="kl", method="lexframe_1")
    assert (row["n"], row["clusters"], row["resamples"], row["level"], row["seed"]) == (60, 6, 200, 0.9, 3)
    assert select(estimates, measure="ece", method="lexframe_1")["n"] == 54  # one position of ten has no next token


def test_estimates_follow_the_observations(trials, estimates):
    closer = trials.assign(kl=trials["kl"].where(trials["method"] != "lexframe_1", trials["kl"] / 2))
    table = estimate(closer, **SETTINGS)
    wanted = {"measure": "kl", "method": "lexframe_1"}
    assert select(table, **wanted)["point"] == pytest.approx(select(estimates, **wanted)["point"] / 2)
    other = {"measure": "kl", "method": "lexframe_2"}
    assert select(table, **other)["point"] == select(estimates, **other)["point"]


def test_order_of_rows_does_not_matter(trials, estimates):
    shuffled = estimate(trials.sample(frac=1, random_state=0), **SETTINGS)
    pd.testing.assert_frame_equal(shuffled, estimates, check_exact=False, rtol=1e-9, atol=1e-12)


def test_methods_stand_in_one_order():
    names = ["model", "lexframe_10", "lexframe_2", "jacobian_lens", "lexframe_0", "logit_lens", "lexframe_2"]
    assert in_order(names) == ["logit_lens", "jacobian_lens", "lexframe_0", "lexframe_2", "lexframe_10", "model"]


def without_a_trial(trials):
    return trials.drop(trials.index[trials["method"] == "lexframe_1"][3])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda trials: trials.drop(columns=["agrees", "kl"]), "lack kl, agrees"),
        (lambda trials: pd.concat([trials, trials.assign(checkpoint="other")]), r"one checkpoint .* \(other, toy\)"),
        (lambda trials: pd.concat([trials, trials]), "a position twice"),
        (lambda trials: trials[trials["document"] == 0], "at least 2 documents"),
        (lambda trials: trials[trials["method"] != "model"], "the model itself"),
        (lambda trials: trials[trials["method"] == "model"], "at least one reading"),
        (lambda trials: trials[trials["layer"].isin([0, LAYERS])], "no layer between"),
        (without_a_trial, "lexframe_1 at layer 0 has not exactly one trial"),
        (lambda trials: trials.assign(kl=trials["kl"].where(trials.index != 77, np.inf)), "not finite in 1 trials"),
    ],
)
def test_observations_that_are_not_whole_are_refused(trials, damage, message):
    with pytest.raises(LensproofError, match=message) as caught:
        estimate(damage(trials), **SETTINGS)
    assert "\n" not in str(caught.value)


# -- tables and the command


def records(table: pd.DataFrame) -> list[dict]:
    """Rows as plain types with null for what is missing."""
    return table.astype(object).where(table.notna(), None).to_dict("records")


@pytest.mark.parametrize("name", ["observations_readings", "estimates"])
def test_tables_match_their_schemas(root, trials, estimates, name):
    schema = yaml.safe_load((root / f"workflow/schemas/{name}.schema.yaml").read_text())
    Draft202012Validator.check_schema(schema)
    table = {"observations_readings": trials.head(500), "estimates": estimates}[name]
    validator = Draft202012Validator(schema)
    for row in records(table):
        validator.validate({key: getattr(value, "item", lambda value=value: value)() for key, value in row.items()})


def lensproof(*arguments, cwd=None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "lensproof", *map(str, arguments)], capture_output=True, text=True, cwd=cwd
    )


def test_command_joins_shards(tmp_path, trials, estimates):
    shards = [tmp_path / "shard_000.parquet", tmp_path / "shard_001.parquet"]
    write_parquet(shards[0], trials[trials["document"] < 2], {})
    write_parquet(shards[1], trials[trials["document"] >= 2], {})
    out = tmp_path / "estimates.parquet"
    done = lensproof("estimate", "readings", *shards, "--resamples", 200, "--level", 0.9, "--seed", 3, "--out", out)
    assert done.returncode == 0, done.stderr
    table = read_parquet(out)
    assert tuple(table.columns) == COLUMNS
    pd.testing.assert_frame_equal(table, estimates, check_exact=False, rtol=1e-9, atol=1e-12)
    provenance = read_provenance(out)
    assert set(provenance["inputs"]) == {str(shard) for shard in shards}
    assert provenance["code"] == code_hash("estimate", "lensproof.statistics.readings")
    assert provenance["settings"] == {"experiment": "readings", "resamples": 200, "level": 0.9, "seed": 3}


def test_command_refuses_in_one_line_and_writes_nothing(tmp_path, trials):
    shard, out = tmp_path / "shard.parquet", tmp_path / "estimates.parquet"
    write_parquet(shard, trials[trials["document"] == 0], {})
    for arguments in (["readings", shard], ["readings", tmp_path / "absent.parquet"], ["bootstrap", shard]):
        done = lensproof("estimate", *arguments, "--out", out)
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) == 1
    assert "there is no experiment 'bootstrap': use one of " in done.stderr
    assert "readings" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["shard.parquet"]
