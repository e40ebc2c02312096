"""Estimates of visibility and of forced choice, on trials whose answers can be worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import yaml
from jsonschema import Draft202012Validator

from lensproof.errors import LensproofError
from lensproof.lenses.band import band
from lensproof.statistics.bootstrap import resampling_weights
from lensproof.statistics.means import medians
from lensproof.statistics.sample import Sample
from lensproof.statistics.visibility import estimate

DEPTH, VOCABULARY = 10, 101
"""The band of ten blocks is layers 5 to 10; R_z is 1 - rank / 100."""
ARMS = ("automatic", "report", "flexible", "control", "supplied")
RIGHT = {"automatic": 0.5, "report": 1.0, "flexible": 0.875, "control": 0.75, "supplied": 1.0}
"""Share of the eight instances that an arm answers rightly."""


def rank(arm: str, layer: int) -> int:
    """A rank that is the same in every instance: high ground in control, low in report, flexible falls at layer 8."""
    if arm == "flexible":
        return 40 if layer < 8 else 0
    return {"automatic": 60, "report": 0, "control": 60, "supplied": 50}[arm]


def trials(records="language", arms=ARMS, rank_of=rank, right=RIGHT, instances=8) -> pd.DataFrame:
    """Trials of a record set; instances 2i and 2i + 1 share a passage."""
    rows = []
    for arm in arms:
        for instance in range(instances):
            for layer in range(4, DEPTH + 1):
                own = rank_of(arm, layer)
                answers = {"correct": instance < right[arm] * instances, "open_correct": instance < 2}
                about = {"instance": f"i{instance}", "document": str(instance // 2), "method": arm, "layer": layer}
                readout = {"rank": own, "rz": 1 - own / (VOCABULARY - 1), "lz": -math.log10(own + 1), "mz": -own / 10}
                rows.append({**about, **answers, **readout})
    return pd.DataFrame(rows).assign(
        checkpoint="x", family=records.partition("_")[0], records=records, lens="jacobian_lens", depth=DEPTH,
        in_band=lambda table: table["layer"].isin(band(DEPTH)), choice_margin=1.0,
        choices=lambda table: np.where(table["method"] == "control", 2, 4),
    )  # fmt: skip


def estimated(*tables: pd.DataFrame, resamples=100) -> pd.DataFrame:
    return estimate(pd.concat(tables, ignore_index=True), resamples=resamples, level=0.95, seed=0)


@pytest.fixture(scope="module")
def language():
    return estimated(trials())


def point(estimates, measure, method, reference=None, contrast=None, setting="language", layer=None) -> float:
    names = {"measure": measure, "method": method, "reference": reference, "contrast": contrast, "setting": setting,
             "layer": layer}  # fmt: skip
    chosen = estimates
    for column, value in names.items():
        chosen = chosen[chosen[column].isna() if value is None else chosen[column] == value]
    (row,) = chosen.to_dict("records")
    return row["point"]


def test_band_means_and_differences(language):
    flexible = np.mean([1 - rank("flexible", layer) / 100 for layer in range(5, 11)])  # 0.8
    assert point(language, "rz", "flexible") == pytest.approx(flexible)
    assert point(language, "rz", "flexible", "control", "difference") == pytest.approx(flexible - 0.4)
    assert point(language, "rz", "flexible", layer=8) == 1.0


def test_the_two_by_two_and_shares_of_the_plain_contrast(language):
    flexible, report, control, supplied = 0.8, 1.0, 0.4, 0.5
    assert point(language, "rz", "interaction") == pytest.approx((flexible - supplied) - (report - control))
    assert point(language, "rz_share", "supplied") == pytest.approx((supplied - control) / (flexible - control))
    assert point(language, "rz_share", "automatic") == pytest.approx(0.0)


def test_peaks_are_shares_of_depth_in_the_papers_count(language):
    """Flexible lies above control by 0.2 up to layer 7 and by 0.6 from layer 8, the paper's 7 of 10."""
    assert point(language, "rz_peak", "flexible") == pytest.approx(0.7)
    assert point(language, "peak", "lz", "rz", "difference") == 0.0
    assert point(language, "profile_correlation", "lz", "rz") == pytest.approx(1.0)


def test_the_rise_of_log_rank_is_between_the_layers_nearest_to_its_depths(language):
    """Half of ten blocks is the paper's layer 5, ours 6; 0.66 is nearest to its 7, ours 8."""
    assert point(language, "lz_rise", "flexible") == pytest.approx(math.log10(41))
    assert point(language, "lz_rise", "control") == 0.0
    assert point(language, "lz_rise", "flexible", "control", "difference") == pytest.approx(math.log10(41))


def test_what_maxima_over_the_band_leave_of_the_largest_contrast():
    """Control reaches rank 0 once, at the band's first layer, so that its maximum hides what it lacks elsewhere."""
    found = estimated(trials(rank_of=lambda arm, layer: 0 if (arm, layer) == ("control", 5) else rank(arm, layer)))
    assert point(found, "rz_largest", "flexible", "control", "difference") == pytest.approx(0.6)
    assert point(found, "rz_max", "flexible", "control", "difference") == pytest.approx(0.0)
    assert point(found, "rz_max_share", "flexible", "control") == pytest.approx(0.0)


def test_saturation_where_it_is_highest():
    """Of ten blocks, five of 64 are one; flexible is at rank 0 at three of the band's six layers."""
    found = estimated(trials())
    assert point(found, "saturated", "flexible") == pytest.approx(0.5)
    assert point(found, "saturated_peak", "flexible") == 1.0
    assert point(found, "saturated_peak", "control") == 0.0


def test_how_coarse_the_percentile_rank_is(language):
    """Known answer 19, for a vocabulary of 101."""
    assert point(language, "rz_step", "any_token") == pytest.approx(24 / 100)
    assert point(language, "rz_of_rank_1000", "any_token") == pytest.approx(1 - 1000 / 100)


def test_accuracy_against_chance_and_the_whole_vocabulary(language):
    assert point(language, "accuracy", "flexible", "chance", "difference") == pytest.approx(0.875 - 0.25)
    assert point(language, "accuracy", "control", "chance", "difference") == pytest.approx(0.75 - 0.5)
    assert point(language, "accuracy", "report", "open_vocabulary", "difference") == pytest.approx(0.75)
    assert point(language, "accuracy", "all_arms") == pytest.approx(np.mean(list(RIGHT.values())))
    assert point(language, "accuracy", "all_arms", "chance", "difference") == pytest.approx(0.825 - 0.3)
    assert point(language, "accuracy", "second_highest_arm") == 1.0


def test_what_the_legend_the_cue_and_the_length_add():
    def unmatched(arm, layer):
        return rank(arm, layer) - (20 if arm == "flexible" and layer < 8 else 0)

    shorter = {**RIGHT, "flexible": 0.75}
    span = ARMS[:4]
    found = estimated(
        trials(),
        trials("language_unmatched", ("report", "flexible", "control"), unmatched),
        trials("language_no_cue", ("automatic",), lambda arm, layer: 99),
        trials("language_length", span, right=shorter),
    )
    added = "language_unmatched_minus_language"
    assert point(found, "rz", "flexible", "control", "difference", added) == pytest.approx(0.1)
    assert point(found, "rz_inflation", "flexible", "control", setting=added) == pytest.approx(0.1 / 0.4)
    cue = "language_minus_language_no_cue"
    assert point(found, "lz_median", "automatic", setting=cue) == pytest.approx(2 - math.log10(61))
    assert point(found, "rz", "automatic", setting=cue) == pytest.approx(0.39)
    length = "language_length_minus_language"
    assert point(found, "accuracy", "flexible", setting=length) == pytest.approx(-0.125)
    assert {row["method"] for row in found[found["setting"] == length].to_dict("records")} == set(span)


def test_intervals_resample_passages():
    """Eight instances of four passages that answer alike: the interval is that of four (known answer 33)."""
    right = {**RIGHT, "flexible": 0.5}
    found = estimated(trials(right=right), resamples=2000)
    own = found[(found["measure"] == "accuracy") & (found["method"] == "flexible") & found["contrast"].isna()].iloc[0]
    drawn = resampling_weights(4, 2000, 0)[1:, :2].sum(axis=1) / 4
    assert (own["lo"], own["hi"]) == tuple(np.quantile(drawn, [0.025, 0.975]))
    assert own["clusters"] == 4


def test_medians_count_trials_as_often_as_their_documents_are_drawn():
    table = pd.DataFrame({
        "checkpoint": "x", "layer": 0, "method": "a", "document": ["p", "p", "q", "r"], "value": [1.0, 9.0, 2.0, 4.0],
    })  # fmt: skip
    sample = Sample.of(table, resamples=50, level=0.95, seed=3)
    draws = medians(sample, table, "value")["a"]
    for weights, median in zip(sample.weights, draws, strict=True):
        p, q, r = (int(weight) for weight in weights)
        assert median == np.median([1.0, 9.0] * p + [2.0] * q + [4.0] * r)


def test_rows_match_the_schema(language, root):
    validator = Draft202012Validator(yaml.safe_load((root / "workflow/schemas/estimates.schema.yaml").read_text()))
    for record in language.astype(object).where(language.notna(), None).to_dict("records"):
        validator.validate(record)


def test_an_arm_that_some_instances_lack_is_refused():
    table = trials()
    with pytest.raises(LensproofError, match="not whole"):
        estimated(table[(table["method"] != "report") | (table["instance"] != "i3")])
    with pytest.raises(LensproofError, match="fit the lens on it"):
        estimated(table[~table["in_band"]])
