"""Rules, guards and verdicts: each kind in all its verdicts; records and commands."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml
from claims_world import paper_evidence, row
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter
from synthetic import observations, paper_like

from lensproof.claims import catalogue, pages
from lensproof.claims.entry import chain, entry
from lensproof.claims.evidence import Evidence, Quantity, layer_words, number
from lensproof.claims.guards import check
from lensproof.claims.models import claims, schema
from lensproof.claims.published import values
from lensproof.claims.records import reader
from lensproof.claims.rules import Rule
from lensproof.claims.verdicts import COLUMNS, evidence, judge, published_words
from lensproof.cli import cli
from lensproof.errors import LensproofError
from lensproof.files import provenance_path, read_json, write_json, write_parquet, write_sealed
from lensproof.provenance import record
from lensproof.statistics.readings import estimate

PUBLISHED = catalogue.load("lexframe")
CLAIMS = claims()
LEVELS = ("smoke", "desk", "paper")


def case(*rows, checkpoint="toy", tied=None, experiment="readings") -> Evidence:
    """The evidence that ``rows`` are."""
    own = row("accuracy", "model", 0.4, 0.01, layer=8)
    return Evidence(checkpoint, [*rows, own], PUBLISHED, tied, experiment)


def decide(rule: dict, *rows, level="desk", **about):
    """What a rule, as data, says of rows."""
    return TypeAdapter(Rule).validate_python(rule).decide(case(*rows, **about), level)


# -- kinds of rule, in all their verdicts

DIFFERENCE = {"measure": "kl", "method": "lexframe_1", "reference": "lexframe_0", "contrast": "difference"}
DROP = {**DIFFERENCE, "contrast": "relative_drop"}
OWN = {"measure": "kl", "method": "lexframe_1"}
SIGN = {"kind": "sign", "quantity": DIFFERENCE, "sign": "negative"}
PATH = "lexframe.table1.lexframe_1.kl"  # 0.16 for smollm3-3b


def difference(point, half, **more):
    return row(point=point, half=half, reference="lexframe_0", contrast="difference", **more)


def drop(point, half):
    return row(point=point, half=half, reference="lexframe_0", contrast="relative_drop")


@pytest.mark.parametrize(
    ("rule", "estimate", "verdict"),
    [
        (SIGN, difference(-0.5, 0.4), "reproduced"),
        (SIGN, difference(0.5, 0.4), "contradicted"),
        (SIGN, difference(-0.5, 0.6), "inconclusive"),
        (SIGN, difference(-0.5, 0.5), "inconclusive"),  # an interval that touches 0 excludes nothing
        ({**SIGN, "sign": "positive"}, difference(0.5, 0.4), "reproduced"),
        ({**SIGN, "sign": "positive"}, difference(-0.5, 0.4), "contradicted"),
        ({"kind": "at_least", "quantity": OWN, "value": 0.8}, row(point=0.875, half=0.0625), "reproduced"),
        ({"kind": "at_least", "quantity": OWN, "value": 0.8}, row(point=0.85, half=0.06), "inconclusive"),
        ({"kind": "at_least", "quantity": OWN, "value": 0.8}, row(point=0.7, half=0.05), "contradicted"),
        ({"kind": "at_most", "quantity": OWN, "value": 0.5}, row(point=0.375, half=0.125), "reproduced"),
        ({"kind": "at_most", "quantity": OWN, "value": 0.5}, row(point=0.45, half=0.1), "inconclusive"),
        ({"kind": "at_most", "quantity": OWN, "value": 0.5}, row(point=0.7, half=0.1), "contradicted"),
        ({"kind": "ratio_at_least", "quantity": DROP, "value": 0.5}, drop(0.8, 0.1), "reproduced"),
        ({"kind": "ratio_at_least", "quantity": DROP, "value": 0.5}, drop(0.3, 0.1), "contradicted"),
        ({"kind": "ratio_at_least", "quantity": DROP, "value": 0.5}, drop(0.55, 0.1), "inconclusive"),
        ({"kind": "ratio_at_least", "quantity": DROP, "value": 0.5}, drop(0.8, math.nan), "inconclusive"),
        ({"kind": "ratio_at_least", "quantity": DROP, "value": 0.5}, drop(math.nan, math.nan), "not testable"),
        ({"kind": "equivalence", "quantity": DIFFERENCE, "margin": 0.03}, difference(0.01, 0.02), "reproduced"),
        ({"kind": "equivalence", "quantity": DIFFERENCE, "margin": 0.03}, difference(0.01, 0.03), "inconclusive"),
        ({"kind": "equivalence", "quantity": DIFFERENCE, "margin": 0.03}, difference(0.0, 0.04), "inconclusive"),
        ({"kind": "equivalence", "quantity": DIFFERENCE, "margin": 0.03}, difference(-0.1, 0.05), "contradicted"),
        ({"kind": "beyond", "quantity": OWN, "margin": 0.01}, row(point=0.03, half=0.01), "reproduced"),
        ({"kind": "beyond", "quantity": OWN, "margin": 0.01}, row(point=-0.03, half=0.01), "reproduced"),
        ({"kind": "beyond", "quantity": OWN, "margin": 0.01}, row(point=0.01, half=0.005), "inconclusive"),
        ({"kind": "beyond", "quantity": OWN, "margin": 0.01}, row(point=0.0, half=0.02), "inconclusive"),
        ({"kind": "beyond", "quantity": OWN, "margin": 0.01}, row(point=0.001, half=0.005), "contradicted"),
        ({"kind": "says", "quantity": OWN, "token": "Times"}, row(point=0.2, token=" Times"), "reproduced"),
        ({"kind": "says", "quantity": OWN, "token": "Times"}, row(point=0.2, token=" Time"), "contradicted"),
        ({"kind": "says", "quantity": OWN, "token": "Times"}, row(point=0.2), "not testable"),
        ({"kind": "identity", "quantity": OWN, "value": 0, "tolerance": 1e-5}, row(point=9e-6), "reproduced"),
        ({"kind": "identity", "quantity": OWN, "value": 0, "tolerance": 1e-5}, row(half=2e-5), "contradicted"),
    ],
)
def test_a_rule_decides_on_the_whole_interval(rule, estimate, verdict):
    outcome = decide(rule, estimate)
    assert outcome.verdict == verdict
    assert "\n" not in outcome.decisive.reason


@pytest.mark.parametrize(
    ("point", "half", "verdict"),
    [
        (0.17, 0.005, "reproduced"),
        (0.17, 0.02, "inconclusive"),
        (0.25, 0.01, "contradicted"),
        (0.05, 0.01, "contradicted"),
    ],
)
def test_within_compares_with_the_paper_on_the_papers_checkpoint(point, half, verdict):
    rule = {"kind": "within", "quantity": OWN, "published": PATH, "absolute": 0.004, "relative": 0.1}  # 0.16 +- 0.02
    assert decide(rule, row(point=point, half=half), checkpoint="smollm3-3b").verdict == verdict
    elsewhere = decide(rule, row(point=point, half=half), checkpoint="smollm2-135m")
    assert elsewhere.verdict == "not testable"
    assert "no value for smollm2-135m" in elsewhere.decisive.reason


def test_half_width_is_held_against_the_published_share():
    rule = {"kind": "half_width_at_most", "quantity": OWN, "published": "lexframe.intervals.kl_max_share_of_value"}
    assert decide(rule, row(point=1.0, half=0.11)).verdict == "reproduced"
    assert decide(rule, row(point=1.0, half=0.13)).verdict == "contradicted"


def test_a_half_width_in_the_quantitys_own_unit():
    path = "lexframe.intervals.side_max_nats"  # 0.03
    rule = {"kind": "half_width_at_most", "quantity": OWN, "published": path, "share": False}
    assert decide(rule, row(point=0.01, half=0.02)).verdict == "reproduced"
    assert decide(rule, row(point=10.0, half=0.04)).verdict == "contradicted"


def pairs(first, second, half=0.1):
    """Differences order 1 - order 0 and order 2 - order 1."""
    return (
        difference(first, half),
        row(method="lexframe_2", point=second, half=half, reference="lexframe_1", contrast="difference"),
    )


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [(-1, -1, "reproduced"), (-1, 1, "contradicted"), (-1, 0.05, "inconclusive"), (0.05, 1, "contradicted")],
)
def test_order_needs_every_paired_difference(first, second, verdict):
    rule = {"kind": "order", "measure": "kl", "rising": ["lexframe_2", "lexframe_1", "lexframe_0"]}
    assert decide(rule, *pairs(first, second)).verdict == verdict


def test_order_uses_the_same_differences_in_either_direction():
    rule = {"kind": "order", "measure": "kl", "rising": ["lexframe_0", "lexframe_1", "lexframe_2"]}
    assert decide(rule, *pairs(1, 1)).verdict == "reproduced"
    assert decide(rule, *pairs(-1, -1)).verdict == "contradicted"


def test_exceeds_compares_each_with_each_in_each_setting():
    rule = {"kind": "exceeds", "measure": "pearson", "methods": ["a", "b"], "references": ["c"], "settings": ["x", "y"]}
    about = {"contrast": "difference", "reference": "c", "half": 0.1}
    rows = [row("pearson", name, point=0.2, setting=setting, **about) for name in "ab" for setting in "xy"]
    outcome = decide(rule, *rows)
    assert outcome.verdict == "reproduced"
    assert len(outcome.parts) == 4
    worse = row("pearson", "b", point=-0.2, setting="y", **about)
    assert decide(rule, *rows[:3], worse).verdict == "contradicted"
    assert decide(rule, *rows[:3]).verdict == "not testable"


def test_a_table_is_held_against_each_of_its_published_values():
    columns = [{"key": "kl", "measure": "kl", "relative": 0.1}, {"key": "top1", "measure": "top1", "absolute": 0.05}]
    rule = {"kind": "within_table", "table": "lexframe.table1", "methods": ["lexframe_1"], "columns": columns}
    about = {"checkpoint": "smollm3-3b"}  # 0.16 nats and 0.86
    assert decide(rule, row(point=0.17), row("top1", point=0.88), **about).verdict == "reproduced"
    assert decide(rule, row(point=0.17), row("top1", point=0.80), **about).verdict == "contradicted"
    assert decide(rule, row(point=0.20), row("top1", point=0.88), **about).verdict == "contradicted"


@pytest.mark.parametrize(
    ("first", "second", "all_of", "any_of"),
    [
        (-1, -1, "reproduced", "reproduced"),
        (-1, 1, "contradicted", "reproduced"),
        (-1, 0, "inconclusive", "reproduced"),
        (0, 1, "contradicted", "inconclusive"),
        (1, 1, "contradicted", "contradicted"),
    ],
)
def test_all_of_and_any_of(first, second, all_of, any_of):
    other = {**DIFFERENCE, "method": "lexframe_2", "reference": "lexframe_1"}
    rules = [SIGN, {**SIGN, "quantity": other}]
    assert decide({"kind": "all_of", "rules": rules}, *pairs(first, second)).verdict == all_of
    assert decide({"kind": "any_of", "rules": rules}, *pairs(first, second)).verdict == any_of


def test_a_missing_estimate_is_not_testable_and_says_so():
    outcome = decide(SIGN, row())
    assert outcome.verdict == "not testable"
    assert "no estimate of the layer-mean KL of lexframe_1 less that of lexframe_0" in outcome.decisive.reason
    both = {"kind": "all_of", "rules": [SIGN, {"kind": "at_least", "quantity": OWN, "value": 1}]}
    assert decide(both, row(point=2)).verdict == "not testable"
    assert decide(both, row(point=0)).verdict == "contradicted"  # what contradicts does so whatever is missing


def test_the_decisive_part_is_the_one_nearest_to_its_threshold():
    rules = [SIGN, {**SIGN, "quantity": {**DIFFERENCE, "method": "lexframe_2", "reference": "lexframe_1"}}]
    outcome = decide({"kind": "all_of", "rules": rules}, *pairs(-3, -0.2))
    assert outcome.decisive.quantity.method == "lexframe_2"
    assert len(outcome.parts) == 2


def test_an_undefined_ratio_shows_its_numerator():
    undefined = row(point=math.nan, half=math.nan, reference="lexframe_0", contrast="relative_drop", numerator=0.0004)
    reason = decide({"kind": "ratio_at_least", "quantity": DROP, "value": 0.5}, undefined).decisive.reason
    assert "not defined (numerator 0.0004" in reason


def test_thresholds_by_level():
    rule = {"kind": "at_least", "quantity": OWN, "value": {"smoke": 0.0, "desk": 0.5, "paper": 0.9}}
    verdicts = [decide(rule, row(point=0.7, half=0.1), level=level).verdict for level in LEVELS]
    assert verdicts == ["reproduced", "reproduced", "contradicted"]
    assert decide(rule, row(point=0.7, half=0.1), level="planted").verdict == "reproduced"  # as at desk, if not named
    rule["value"]["planted"] = 0.9
    assert decide(rule, row(point=0.7, half=0.1), level="planted").verdict == "contradicted"


def test_layers_counted_from_the_last():
    found = case(row(point=1.0, layer=7), row(point=2.0, layer=8), row(point=3.0, layer=0))
    quantity = {"measure": "kl", "method": "lexframe_1"}
    assert [found.find(Quantity(**quantity, layer=layer)).point for layer in ("L-1", "L", 0)] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("layer", "observed", "stands_for_it"),
    [
        ("mid", (0, 3, 4, 6), 4),
        ("mid", (0, 3, 6), 3),  # every third of eight; 6 is farther
        ("mid", (3, 5), 3),  # as near: the lower
        ("3L/4", (0, 3, 6), 6),
        ("L/8", (0, 3, 6), 0),
        ("L-1", (0, 3, 6), None),  # counted, not a share: exact there and nowhere else
        ("mid", (0, 7), None),  # too far
    ],
)
def test_a_share_of_depth_is_the_nearest_observed_layer(layer, observed, stands_for_it):
    rule = {"kind": "at_least", "quantity": {**OWN, "layer": layer}, "value": 0.5}
    outcome = decide(rule, *(row(point=1.0, layer=where) for where in observed))
    if stands_for_it is None:
        assert outcome.verdict == "not testable"
    else:
        assert outcome.decisive.estimate.layer == stands_for_it
        assert f"(here layer {stands_for_it}) is 1.00" in outcome.decisive.reason


def test_a_layer_by_its_place_needs_the_depth():
    rule = {"kind": "at_least", "quantity": {**OWN, "layer": "mid"}, "value": 0.5}
    alone = Evidence("toy", [row(point=1.0, layer=4)], PUBLISHED)
    outcome = TypeAdapter(Rule).validate_python(rule).decide(alone, "desk")
    assert outcome.verdict == "not testable"
    assert "give the estimates of readings too" in outcome.decisive.reason


def test_settings_and_experiments_are_told_apart():
    rows = (
        row("pearson", point=0.1, setting="layer", experiment="attribution"),
        row("pearson", point=0.2, setting="mlp", experiment="attribution"),
        row("pearson", point=0.3, setting="mlp", experiment="stand_ins"),
    )
    found = case(*rows, experiment="attribution")
    quantity = {"measure": "pearson", "method": "lexframe_1"}
    assert found.find(Quantity(**quantity, setting="layer")).point == 0.1
    assert found.find(Quantity(**quantity, setting="mlp")).point == 0.2
    assert found.find(Quantity(**quantity, setting="mlp", experiment="stand_ins")).point == 0.3
    assert "(mlp) in stand_ins" in Quantity(**quantity, setting="mlp", experiment="stand_ins").words()


def test_the_values_beside_a_contrast():
    gap = Quantity(measure="pearson", method="a", reference="b", contrast="difference", setting="mlp_minus_attention")
    assert [(plain.method, plain.setting, plain.contrast) for plain in gap.beside()] == [
        ("b", "mlp", None), ("a", "mlp", None), ("b", "attention", None), ("a", "attention", None)
    ]  # fmt: skip
    lower = Quantity(measure="top1", method="a", contrast="layer_mean_minus_layer", layer=0)
    assert [plain.layer for plain in lower.beside()] == [None, 0]
    assert Quantity(measure="kl", method="a").beside() == []


def test_numbers_have_three_digits_that_matter():
    assert [number(value) for value in (0, 29.061, 5.657, -0.8162, 0.0104, 2e-7)] == [
        "0", "29.1", "5.66", "-0.816", "0.0104", "2.0e-07"
    ]  # fmt: skip


# -- what an estimate is over


def by_layer(points, half=0.01, **about):
    """A quantity at layers 0, 2, 4, 6 and 8 of eight, and its mean over those in between."""
    mean = sum(points[1:4]) / 3
    rows = [row(point=point, half=half, layer=2 * place, layers=1, **about) for place, point in enumerate(points)]
    return [*rows, row(point=mean, half=half, layers=3, **about)]


def test_the_layers_behind_an_estimate():
    found = case(
        *by_layer([9, 1, 2, 3, 9]), *by_layer([9, 2, 2, 2, 9], method="lexframe_0"), difference(-1, 0.1, layers=3)
    )
    assert found.layers(Quantity(**OWN)) == [2, 4, 6]
    assert found.layers(Quantity(**OWN, layer=8)) == [8]
    assert found.layers(Quantity(**DIFFERENCE)) == [2, 4, 6]  # those of what is compared
    assert {layer: at.point for layer, at in found.behind(Quantity(**OWN)).items()} == {2: 1, 4: 2, 6: 3}
    assert found.behind(Quantity(**DIFFERENCE)) == found.behind(Quantity(**OWN, layer=8)) == {}
    uneven = case(row(point=1.0, layers=7), row(point=1.0, layer=2, layers=1))
    assert uneven.layers(Quantity(**OWN)) == []  # seven layers, of which one is known: nothing is made up


@pytest.mark.parametrize(
    ("points", "verdict", "words"),
    [
        ([0, 0.9, 0.8, 0.7, 0], "reproduced", None),
        ([0, 0.9, 0.9, 0.1, 0], "reproduced", "by layer 0.100 to 0.900, contradicted at 1 of 3"),
        ([0, 0.1, 0.2, 1.0, 0], "contradicted", "by layer 0.100 to 1.00, reproduced at 1 of 3"),
        ([1, 0.1, 0.2, 0.3, 1], "contradicted", None),  # neither the embedding nor the last layer is in the mean
        ([0, 0.0, 0.5, 1.0, 0], "inconclusive", "by layer 0 to 1.00, reproduced at 1 of 3 and contradicted at 1 of 3"),
        ([0, 0.5, 0.5, 0.5, 0], "inconclusive", None),
    ],
)
def test_a_mean_says_where_single_layers_decide_against_it(points, verdict, words):
    rule = {"kind": "at_least", "quantity": OWN, "value": 0.5}
    decisive = decide(rule, *by_layer(points)).decisive
    assert (decisive.verdict, decisive.apart or None) == (verdict, words)
    assert decisive.reason.endswith(words or decisive.reason[-5:])
    assert decisive.layers == (2, 4, 6)
    opposite = decide({**rule, "kind": "at_most"}, *by_layer(points)).decisive
    assert bool(opposite.apart) == bool(words)


@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "half_width_at_most", "quantity": OWN, "published": "lexframe.intervals.kl_max_share_of_value"},
        {"kind": "identity", "quantity": OWN, "value": 0, "tolerance": 1.0},
    ],
)
def test_width_and_rounding_are_asked_of_the_mean_alone(rule):
    assert not decide(rule, *by_layer([0, -9, 0, 9, 0])).decisive.apart


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([], ""),
        ([15], "15"),
        ([6, 12], "6, 12"),
        (range(1, 30), "1 to 29"),
        ([3, 6, 9, 12], "3 to 12 by 3"),
        ([1, 2, 4], "1, 2, 4"),
    ],
)
def test_layers_in_words(layers, words):
    assert layer_words(list(layers)) == words


# -- guards


def test_guards_say_what_they_ask_and_found():
    claim = CLAIMS["lexframe_tied_logit_lens_worse"]
    guards = {guard.guard: guard.passes for guard in check(claim, case(tied=True), "desk")}
    assert guards == {"min_clusters": True, "model_accuracy": True, "tied_embeddings": True}
    assert not all(guard.passes for guard in check(claim, case(tied=False), "desk"))
    with pytest.raises(LensproofError, match="--tied or --untied"):
        check(claim, case(), "desk")


def test_a_model_that_predicts_nothing_makes_a_claim_not_testable():
    claim = CLAIMS["lexframe_order1_top1"]
    rows = [row("top1", point=0.9, half=0.01), row("accuracy", "model", 0.02, 0.01, layer=8)]
    verdict = judge("lexframe_order1_top1", claim, [Evidence("toy", rows, PUBLISHED)], "smoke")["checkpoints"][0]
    assert verdict["verdict"] == "not testable"
    assert verdict["outcome"] == "reproduced"  # what the rule alone would have said stays on record
    assert "next tokens right (here: 0.0200 [0.0100, 0.0300])" in verdict["reason"]


def test_few_documents_make_a_claim_not_testable():
    rows = [row("top1", point=0.9, half=0.01, clusters=3)]
    claim = CLAIMS["lexframe_order1_top1"]
    found = Evidence("toy", [*rows, row("accuracy", "model", 0.4, 0.01, layer=8, clusters=3)], PUBLISHED)
    verdict = judge("lexframe_order1_top1", claim, [found], "desk")["checkpoints"][0]
    assert verdict["verdict"] == "not testable"
    assert "needs at least 5 documents (here: 3)" in verdict["reason"]


def test_guards_read_the_readings_whatever_the_experiment():
    claim = CLAIMS["lexframe_native_basis_writes_nearly_always"]
    own = row("success", "native_basis", 0.99, 0.001, experiment="composition", clusters=6)
    found = case(own, experiment="composition")
    assert {guard.guard: guard.found for guard in check(claim, found, "desk")} == {
        "min_clusters": "6", "model_accuracy": "0.400 [0.390, 0.410]"
    }  # fmt: skip
    alone = Evidence("toy", [own], PUBLISHED, experiment="composition")
    assert [guard.passes for guard in check(claim, alone, "desk")] == [True, False]


def test_a_claim_on_untied_embeddings_and_one_on_one_model():
    untied = CLAIMS["lexframe_untied_input_basis_writes_nothing"]
    assert [check(untied, case(tied=tied), "paper")[-1].passes for tied in (False, True)] == [True, False]
    plateau = CLAIMS["lexframe_smollm3_plateau"]
    about = {
        checkpoint: check(plateau, case(checkpoint=checkpoint), "paper")[-1] for checkpoint in ("smollm3-3b", "toy")
    }
    assert about["smollm3-3b"].passes
    assert (about["toy"].passes, about["toy"].asks) == (False, "the paper's smollm3-3b")


def test_numbers_of_the_paper_are_tested_at_the_papers_level_only():
    name = "lexframe_table1_values"
    verdict = judge(name, CLAIMS[name], [paper_evidence(PUBLISHED, "smollm3-3b", "readings")], "desk")["checkpoints"][0]
    assert verdict["verdict"] == "not testable"
    assert verdict["reason"] == "needs a run at the level paper (here: the level is desk)"


def test_untied_embeddings_make_the_claim_on_tied_ones_not_testable():
    name = "lexframe_tied_logit_lens_worse"
    verdict = judge(name, CLAIMS[name], [paper_evidence(PUBLISHED, "olmo3-7b", "readings")], "paper")["checkpoints"][0]
    assert (verdict["verdict"], verdict["outcome"]) == ("not testable", "contradicted")


# -- the catalogue and its schema


def test_the_catalogue_names_what_each_claim_needs():
    assert set(catalogue.experiments()) == set(catalogue.inputs()) == set(CLAIMS)
    needed, own = catalogue.inputs(), catalogue.experiments()
    assert needed["lexframe_order1_top1"] == ["lexframe/readings"]
    assert needed["lexframe_table3_values"] == ["lexframe/composition", "lexframe/readings"]
    assert needed["lexframe_other_intervals"][:3] == [
        "lexframe/readings", "lexframe/substitution", "lexframe/composition"
    ]  # fmt: skip
    assert needed["lexframe_cost_values"] == ["lexframe/costs"]
    alike = catalogue.alike(needed)
    assert sorted(name for group in alike.values() for name in group) == sorted(CLAIMS)
    assert all(tuple(needed[name]) == experiments for experiments, group in alike.items() for name in group)
    for name, claim in CLAIMS.items():
        assert needed[name][0] == own[name] == f"{claim.paper}/{claim.experiment}"


def test_guards_on_arms_ask_the_experiment_that_has_their_accuracies(tmp_path):
    published_folder(tmp_path, experiment="availability", guards={"arms": ["flexible", "control"]})
    assert catalogue.inputs(tmp_path) == {"lexframe_c": ["lexframe/availability", "lexframe/visibility"]}


def test_every_table_figure_and_statement_has_a_claim():
    """Figures 2 and 3 are drawings and claim nothing."""
    places = " ".join(claim.location.lower() for claim in CLAIMS.values() if claim.paper == "lexframe")
    tables, figures = (set(re.findall(rf"{kind}s? (\d)", places)) for kind in ("table", "figure"))
    assert tables == set("123456789")
    assert figures | {"7"} == set("1456789")  # "figures 1 and 7"


def test_the_catalogue_is_light():
    code = (
        "import sys; from lensproof.claims import catalogue; catalogue.experiments(); "
        "print([name for name in ('pandas', 'numpy', 'pydantic', 'torch', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_schema_of_claims_is_the_one_of_the_models(root):
    stored = yaml.safe_load((root / "workflow/schemas/claims.schema.yaml").read_text())
    assert stored == schema()
    Draft202012Validator(stored).validate(catalogue.load("claims"))


def test_expected_and_gated_claims():
    """What the project must be able to say at its default level."""
    at_desk = {name for name, claim in CLAIMS.items() if "desk" in claim.expected}
    assert at_desk >= {
        "lexframe_kl_falls_with_order",
        "lexframe_order0_beats_lenses",
        "lexframe_order1_halves_order0_kl",
        "lexframe_order1_top1",
        "lexframe_tied_logit_lens_worse",
    }


def test_published_values_by_path():
    assert values(PUBLISHED, PATH) == {"smollm3-3b": 0.16, "olmo3-7b": 0.15}
    assert set(values(PUBLISHED, "lexframe.intervals.kl_max_share_of_value").values()) == {0.12}
    first_to_last = "lexframe.training.logit_lens_kl_first_to_last"
    assert values(PUBLISHED, f"{first_to_last}.0") == {"smollm3-3b": 4.82, "olmo3-7b": 2.32}
    assert values(PUBLISHED, f"{first_to_last}.1") == {"smollm3-3b": 29.06, "olmo3-7b": 5.66}
    assert values(PUBLISHED, "lexframe.long_context.lexframe_2.1") == {"smollm3-3b": 0.15, "olmo3-7b": 0.08}
    for wrong in (
        first_to_last,
        f"{first_to_last}.2",
        "lexframe.long_context.lexframe_2",
        "lexframe.table1.lexframe_1",
    ):
        with pytest.raises(LensproofError, match="one number, or one for each of"):
            values(PUBLISHED, wrong)
    with pytest.raises(LensproofError, match=r"nothing is published at lexframe\.table1\.order_9\.kl"):
        values(PUBLISHED, "lexframe.table1.order_9.kl")
    with pytest.raises(LensproofError, match="one number, or one for each of smollm3-3b, olmo3-7b"):
        values(PUBLISHED, "lexframe.table1.columns")


def test_a_value_of_some_checkpoints_names_them():
    published = {"checkpoints": {"qwen-1": {}, "qwen-2": {}, "phi": {}}, "a": {"phi": 2}, "b": {"qwen": 1}, "c": 3}
    assert values(published, "gathered.a") == {"phi": 2.0}
    assert values(published, "gathered.c") == {"qwen-1": 3.0, "qwen-2": 3.0, "phi": 3.0}
    with pytest.raises(LensproofError, match=r"gathered\.b must hold"):  # of which of the two?
        values(published, "gathered.b")
    words = [{"path": f"gathered.{key}", "values": [
        {"checkpoint": name, "value": value} for name, value in values(published, f"gathered.{key}").items()
    ]} for key in "ac"]  # fmt: skip
    assert published_words(words) == "a 2 (phi); c 3"


GOOD = {
    "paper": "lexframe", "group": "g", "location": "here", "statement": "s", "experiment": "readings",
    "rule": {"kind": "at_least", "quantity": OWN, "value": 1}, "expected": ["desk"],
}  # fmt: skip


def published_folder(folder: Path, name="lexframe_c", **changes) -> Path:
    """A folder of published values with one claim."""
    write_json(folder / "claims.yaml", {"claims": {name: {**GOOD, **changes}}})
    shutil.copy(catalogue.PUBLISHED / "lexframe.yaml", folder)
    return folder


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"satement": "typo"}, "unknown key claims.lexframe_c.satement: remove it"),
        ({"paper": None}, "claims.lexframe_c.paper"),
        ({"name": "c"}, "starts with its paper, lexframe_"),
        ({"name": "Lexframe-C"}, "claims.Lexframe-C"),
        ({"rule": {"kind": "guess"}}, "claims.lexframe_c.rule.*'guess'"),
        ({"rule": {"kind": "at_least", "quantity": OWN}}, "claims.lexframe_c.rule.at_least.value is missing"),
        ({"rule": {**GOOD["rule"], "value": {"desk": 1}}}, "value.PerLevel.smoke is missing"),
        ({"rule": {"kind": "at_least", "quantity": {**OWN, "layer": "L+1"}, "value": 1}}, "layer"),
        ({"rule": {"kind": "ratio_at_least", "quantity": OWN, "value": 1}}, "relative_drop"),
        ({"expected": ["moon"]}, "claims.lexframe_c.expected.0"),
        ({"expected": ["desk"], "levels": ["paper"]}, "expected names desk"),
        ({"rule": {"kind": "at_least", "quantity": {**OWN, "measure": "guess"}, "value": 1}}, "quantity.measure"),
        ({"guards": {"checkpoints": ["gpt"]}}, "lexframe_c speaks of gpt, which the paper does not have"),
        ({"published": ["lexframe.table1.nothing"]}, "nothing is published at lexframe.table1.nothing"),
        (
            {"rule": {"kind": "within", "quantity": OWN, "published": "lexframe.nowhere", "absolute": 1}},
            "nothing is published at lexframe.nowhere",
        ),
    ],
)
def test_a_wrong_claim_is_one_clear_line(tmp_path, changes, message):
    with pytest.raises(LensproofError, match=message) as caught:
        claims(published_folder(tmp_path, **changes))
    assert "\n" not in str(caught.value)


def test_a_right_claim_passes(tmp_path):
    assert list(claims(published_folder(tmp_path))) == ["lexframe_c"]


def test_published_values_stand_in_one_place(root):
    """The papers' numbers are in the papers' files; the words of a claim hold none."""
    for name, claim in CLAIMS.items():
        assert not re.search(r"\d\.\d|\d%", claim.statement), name
    text = "".join((root / f"paper/published/{name}.yaml").read_text() for name in ("lexframe", "gathered", "claims"))
    assert "seeds" not in text
    assert "2610.22169v2" in text
    assert "2608.15022v1" in text


# -- entry level


@pytest.fixture
def traced(tmp_path, monkeypatch) -> Path:
    """Estimates that rest on an observation, which rests on weights."""
    monkeypatch.chdir(tmp_path)
    weights, shard, estimates = Path("weights.bin"), Path("shard.parquet"), Path("estimates.parquet")
    weights.write_bytes(b"w")
    write_parquet(shard, pd.DataFrame({"a": [1]}), record("readings", {"weights": weights}))
    write_parquet(estimates, pd.DataFrame({"a": [1]}), record("estimate", {"shard": shard}))
    return estimates


def test_entry_level_follows_what_is_here_and_unchanged(traced):
    assert [link.path for link in chain(traced)] == ["estimates.parquet", "shard.parquet", "weights.bin"]
    assert entry(chain(traced)) == "from scratch"
    Path("weights.bin").unlink()
    assert entry(chain(traced)) == "from observations"


def test_a_changed_observation_leaves_the_estimates_only(traced):
    write_parquet("shard.parquet", pd.DataFrame({"a": [2]}), {})
    assert entry(chain(traced)) == "from estimates"


# -- commands, end to end on made-up observations


def lensproof(*arguments, cwd=None, **environment) -> subprocess.CompletedProcess:
    line = [sys.executable, "-m", "lensproof", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, cwd=cwd, env=os.environ | environment)


SMALL = "snakemake --cores 2 --configfile workflow/presets/small.yaml --"
GATED = ("--published", "published")
"""As if the claims on readings were all."""
JUDGED = [name for name, experiments in catalogue.inputs().items() if experiments == ["lexframe/readings"]]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A folder in which two checkpoints were read and every claim on readings but one was judged."""
    folder = tmp_path_factory.mktemp("run")
    entries = catalogue.load("claims")["claims"]
    write_json(folder / "published/claims.yaml", {"claims": {name: entries[name] for name in JUDGED}})
    shutil.copy(catalogue.PUBLISHED / "lexframe.yaml", folder / "published")
    files = []
    for checkpoint, seed in (("tied-toy", 1), ("untied-toy", 2)):
        shard = folder / f"results/observations/lexframe/readings/{checkpoint}/shard_000.parquet"
        trials = observations(checkpoint=checkpoint, seed=seed)
        reads_input = (trials["method"] == "logit_lens") & (trials["layer"] == 0)
        write_parquet(shard, trials.assign(reads_input=reads_input), {})
        files.append(f"results/estimates/lexframe/readings/{checkpoint}.parquet")
        made = {"LENSPROOF_PRESET": "small"}  # as a run's jobs have it
        done = lensproof("estimate", "readings", shard.relative_to(folder), "--out", files[-1], cwd=folder, **made)
        assert done.returncode == 0, done.stderr
    flags = ["--level", "desk", "--tied", "tied-toy", "--untied", "untied-toy"]
    judged = [name for name in JUDGED if name != "lexframe_table1_intervals"]
    script = (
        "import sys; from lensproof.cli import cli\n"
        f"cli.main(['judge', {','.join(judged)!r}, *{files!r}, *{flags!r}, '--into', 'results/claims'], "
        "standalone_mode=False)\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=folder, check=True, capture_output=True)
    records = [f"results/claims/{name}.json" for name in judged]
    done = lensproof("collect-claims", *records, "--level", "desk", "--out", "results/claims.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_records_match_their_schema(run, root):
    validator = Draft202012Validator(yaml.safe_load((root / "workflow/schemas/claim.schema.yaml").read_text()))
    paths = sorted((run / "results/claims").glob("*.json"))
    assert len(paths) == len(JUDGED) - 1
    for path in paths:
        validator.validate(read_json(path))


def test_a_record_holds_what_a_reviewer_needs(run):
    found = read_json(run / "results/claims/lexframe_order1_halves_order0_kl.json")
    assert found["published"][0]["values"] == [
        {"checkpoint": "smollm3-3b", "value": 0.816}, {"checkpoint": "olmo3-7b", "value": 0.839}
    ]  # fmt: skip
    assert found["rule"]["data"]["value"] == 0.5
    assert "at least 0.500" in found["rule"]["words"]
    tied = found["checkpoints"][0]
    assert (tied["checkpoint"], tied["verdict"], tied["entry"]) == ("tied-toy", "reproduced", "from observations")
    assert tied["estimate"]["lo"] > 0.5
    assert (tied["estimate"]["n"], tied["estimate"]["clusters"]) == (480, 12)
    assert [value["quantity"] for value in tied["values"]] == [
        "layer-mean KL of lexframe_0", "layer-mean KL of lexframe_1"
    ]  # fmt: skip
    assert [item["command"] for item in tied["inputs"]] == [
        f"{SMALL} results/estimates/lexframe/readings/tied-toy.parquet",
        f"{SMALL} results/observations/lexframe/readings/tied-toy/shard_000.parquet",
    ]
    assert (tied["preset"], found["level"]) == ("small", "desk")
    assert tied["layers"] == list(range(1, tied["estimate"]["layers"] + 1))
    assert [part["by_layer"] for part in tied["parts"]] == [[]]  # a ratio of means has no value at a layer
    assert [item["layer"] for item in tied["values"][0]["by_layer"]] == tied["layers"]
    assert found["provenance"]["step"] == "judge"


def test_the_table_has_a_row_for_each_claim_and_checkpoint(run, root):
    table = pd.read_csv(run / "results/claims.csv").astype({"n": "Int64"})
    assert tuple(table.columns) == COLUMNS
    assert len(table) == 2 * (len(JUDGED) - 1) + len(CLAIMS) - len(JUDGED) + 1
    verdicts = table.set_index(["claim", "checkpoint"])["verdict"]
    assert verdicts["lexframe_tied_logit_lens_worse", "tied-toy"] == "reproduced"
    assert verdicts["lexframe_tied_logit_lens_worse", "untied-toy"] == "not testable"
    assert set(table["preset"].dropna()) == {"small"}
    assert set(table.loc[table["claim"] == "lexframe_order1_top1", "layers"].str.split().str[0]) == {"1"}
    absent = table[table["claim"] == "lexframe_table1_intervals"].iloc[0]
    assert (absent["verdict"], absent["reason"]) == (
        "not run", "build it with `snakemake --cores 2 claim_lexframe_table1_intervals`"
    )  # fmt: skip
    validator = Draft202012Validator(yaml.safe_load((root / "workflow/schemas/claims_table.schema.yaml").read_text()))
    for line in table.astype(object).where(table.notna(), None).to_dict("records"):
        validator.validate(line)


def test_claims_shows_each_on_one_line(run):
    done = lensproof("claims", cwd=run, COLUMNS="300")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= len(CLAIMS) + 6
    assert lines[0].strip() == "Claims (preset: small; level: desk)"
    assert re.search(r"\] \(\d+ layers", next(line for line in lines if "lexframe_order1_top1 " in line))
    for name in CLAIMS:
        assert sum(line.split(maxsplit=1)[:1] == [name] for line in lines) == 1
    assert "not run" in next(line for line in lines if "lexframe_table1_intervals" in line)
    own = lensproof("claims", "--paper", "lexframe", cwd=run, COLUMNS="300").stdout.splitlines()
    assert [line.split()[0] for line in own if "_" in line] == [name for name in CLAIMS if name.startswith("lexframe")]


@pytest.mark.parametrize("checkpoints", [1, 2, 9])
@pytest.mark.parametrize("columns", [None, 60, 120, 300])
def test_claims_keep_to_the_width(run, tmp_path, monkeypatch, capsys, columns, checkpoints):
    """Of the terminal, or 120 where there is none; what has no room is left out or folded, never cut off."""
    monkeypatch.chdir(copied(run, tmp_path))
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", str(columns))
    for path in Path("results/claims").glob("*.json"):
        found = read_json(path)
        case = found["checkpoints"][0]
        found["checkpoints"] = [{**case, "checkpoint": f"checkpoint-{at}"} for at in range(checkpoints)]
        write_sealed(path, found)
    cli.main(["claims"], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= (columns or 120)
    if (columns or 120) >= 65 + 27 * checkpoints:
        line = next(line for line in lines if line.split()[:1] == ["lexframe_kl_falls_with_order"])
        assert re.findall(r"reproduced +-0\.\d+", line) == [re.search(r"reproduced +-0\.\d+", line)[0]] * checkpoints
    together = "".join("".join(line.split()[:1]) for line in lines)
    assert checkpoints > 2 or all(name in together for name in CLAIMS)
    assert "…" not in "".join(lines)


def test_claim_shows_a_page(run):
    done = lensproof("claim", "lexframe_order0_beats_lenses", cwd=run)
    assert done.returncode == 0, done.stderr
    page = " ".join(done.stdout.split())
    for text in (
        CLAIMS["lexframe_order0_beats_lenses"].statement,
        "table1.lexframe_0.kl 0.87 (smollm3-3b), 0.93 (olmo3-7b)",
        "tied-toy: reproduced (preset small, desk, from observations)",
        "guard passed: at least 5 documents (here: 12)",
        f"{SMALL} results/estimates/lexframe/readings/untied-toy.parquet",
        "layers 1 to",
        "by layer",
    ):
        assert text in page


def one_line(done: subprocess.CompletedProcess, *words: str) -> None:
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr


def test_bad_input_is_one_line(run):
    one_line(lensproof("claim", "lexframe_order1_topp1", cwd=run), "did you mean lexframe_order1_top1")
    one_line(lensproof("claim", "lexframe_table1_intervals", cwd=run), "snakemake --cores 2 claim_lexframe_table1")
    one_line(lensproof("claims", "--paper", "nobody", cwd=run), "nobody")
    one_line(lensproof("verify", "--results", "elsewhere", cwd=run), "no claim has been judged under elsewhere")
    one_line(lensproof("claims", "--published", "elsewhere", cwd=run), "elsewhere/claims.yaml does not exist")
    estimates = "results/estimates/lexframe/readings/tied-toy.parquet"
    command = ["judge", "lexframe_tied_logit_lens_worse", estimates, "--level", "desk", "--out", "out.json"]
    one_line(lensproof(*command, cwd=run), "tied-toy", "--tied or --untied")
    shard = "results/observations/lexframe/readings/tied-toy/shard_000.parquet"
    one_line(lensproof("judge", "lexframe_order1_top1", shard, *command[3:], cwd=run), "has no column experiment")
    assert not (run / "out.json").exists()
    both = "lexframe_order1_top1,lexframe_order1_halves_order0_kl"
    two = ["judge", both, estimates, "--level", "desk", "--tied", "tied-toy"]
    for where in (["--out", "out.json"], [], ["--out", "out.json", "--into", "records"]):
        one_line(lensproof(*two, *where, cwd=run), "--out FILE", "--into FOLDER")
    assert not (run / "out.json").exists()
    assert not (run / "records").exists()


def turn(case: dict, verdict: str, reason: str) -> None:
    """Another verdict on a checkpoint, as its rule would say it."""
    case |= {"verdict": verdict, "outcome": verdict, "reason": reason}
    for part in case["parts"]:
        part |= {"verdict": verdict, "reason": reason}


def edited(change):
    """A record by another hand."""

    def edit(found):
        change(found, found["checkpoints"][0])
        return found

    return edit


SPOILED = {
    "empty": lambda found: {},
    "list": lambda found: [found],
    "null": lambda found: None,
    "another": lambda found: {**found, "claim": "lexframe_kl_falls_with_order"},
    "verdict": edited(lambda found, case: case.update(verdict="perfect")),
    "verdict of none": edited(lambda found, case: case.update(verdict="not run")),
    "verdict turned": edited(lambda found, case: case.update(verdict="contradicted")),
    "verdict and outcome turned": edited(
        lambda found, case: case.update(verdict="contradicted", outcome="contradicted")
    ),
    "guard turned": edited(lambda found, case: case["guards"][0].update(passes=False)),
    "no checkpoint": edited(lambda found, case: found.update(checkpoints=[])),
    "a checkpoint twice": edited(lambda found, case: found["checkpoints"].append(case)),
    "no reason": edited(lambda found, case: case.pop("reason")),
    "no provenance": edited(lambda found, case: found.pop("provenance")),
    "a key more": edited(lambda found, case: case.update(remark="fine")),
    "point in words": edited(lambda found, case: case["estimate"].update(point="high")),
    "interval turned": edited(lambda found, case: case["estimate"].update(lo=0.9, hi=0.1)),
    "estimate a number": edited(lambda found, case: case.update(estimate=0.9)),
    "layers in words": edited(lambda found, case: case.update(layers="all")),
    "level": edited(lambda found, case: found.update(level="moon")),
    "not expected": edited(lambda found, case: case.update(expected=not case["expected"])),
    "level of a checkpoint": edited(lambda found, case: case.update(level="smoke")),
    "across": edited(lambda found, case: found.update(across="every")),
    "rule": edited(lambda found, case: found["rule"]["data"].update(value=0.1)),
    "published": edited(lambda found, case: found["published"][0]["values"][0].update(value=0.5)),
}


def copied(run: Path, folder: Path) -> Path:
    """A run's records and table of claims, as results of a folder."""
    shutil.copytree(run / "results/claims", folder / "results/claims")
    shutil.copy(run / "results/claims.csv", folder / "results/claims.csv")
    return folder


READERS = {
    "claims": ["claims"],
    "claim": ["claim", "lexframe_order1_top1"],
    "verify": ["verify"],
    "collect-claims": [
        "collect-claims",
        "results/claims/lexframe_order1_top1.json",
        "--level",
        "desk",
        "--out",
        "n.csv",
    ],
}


def refused_by_readers(run: Path) -> str:
    """The line with which every command that reads records refuses, which is one."""
    lines = set()
    for command in READERS.values():
        with pytest.raises(LensproofError) as caught:
            cli.main([*command, "--published", str(run / "published")], standalone_mode=False)
        lines.add(str(caught.value))
    assert not Path("n.csv").exists()
    (line,) = lines
    assert "\n" not in line
    return line


@pytest.mark.parametrize("sealed", [True, False], ids=["with a digest made anew", "with the digest it had"])
@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_a_record_by_another_hand_is_refused(run, tmp_path, monkeypatch, spoil, sealed):
    """By every command that reads records, naming the file and how to have it again."""
    monkeypatch.chdir(copied(run, tmp_path))
    path = Path("results/claims/lexframe_order1_top1.json")
    found = spoil(read_json(path))
    (write_sealed if sealed and isinstance(found, dict) else write_json)(path, found)
    line = refused_by_readers(run)
    if found != {} or sealed:
        assert line.startswith((f"{path} is damaged (", f"{path} is damaged or was changed by hand ("))
        assert line.endswith(f"remove it and build it again with `snakemake --cores 2 {path}`")


def places(value, path=()):
    """Where a number, a text, true, false or nothing stands in a record."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, key))
    else:
        yield path


def put(value, path, new):
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


def another(value):
    """What a hand could write in its place, of the same kind."""
    if isinstance(value, bool):
        return not value
    return f"{value}." if isinstance(value, str) else 7 if value is None else value + 1


def test_no_word_or_number_of_a_record_can_be_changed(run, tmp_path, monkeypatch):
    """Not even one that a verdict could stand with: a point inside its interval, a seed, the words of a reason."""
    monkeypatch.chdir(copied(run, tmp_path))
    path = Path("results/claims/lexframe_order1_top1.json")
    whole, read = path.read_text(), reader(run / "published")
    everywhere = list(places(json.loads(whole)))
    assert len(everywhere) > 100
    for place in everywhere:
        found = json.loads(whole)
        value = found
        for key in place:
            value = value[key]
        put(found, place, another(value))
        write_json(path, found)
        with pytest.raises(LensproofError, match="is damaged or was changed by hand"):
            read(path)


def test_a_record_without_a_digest_is_to_be_judged_again(run, tmp_path, monkeypatch):
    monkeypatch.chdir(copied(run, tmp_path))
    path = Path("results/claims/lexframe_order1_top1.json")
    found = read_json(path)
    del found["sha256"]
    write_json(path, found)
    assert refused_by_readers(run).endswith(f"remove it and judge it again with `snakemake --cores 2 {path}`")


@pytest.mark.parametrize("text", ["1e400", "-1e400", "NaN", "Infinity"])
@pytest.mark.parametrize("place", ["point", "lo", "n"])
def test_a_number_without_end_in_a_record(run, tmp_path, monkeypatch, text, place):
    monkeypatch.chdir(copied(run, tmp_path))
    path = Path("results/claims/lexframe_order1_top1.json")
    found = read_json(path)
    found["checkpoints"][0]["estimate"][place] = "HERE"
    path.write_text(json.dumps(found).replace('"HERE"', text))
    assert refused_by_readers(run).startswith(f"{path} is damaged or was changed by hand (")


@pytest.mark.parametrize("key", ["package", "commit", "code", "preset", "config"])
@pytest.mark.parametrize("how", ["lacking", "a number"])
def test_a_record_whose_provenance_is_none(run, tmp_path, monkeypatch, key, how):
    monkeypatch.chdir(copied(run, tmp_path))
    path = Path("results/claims/lexframe_order1_top1.json")
    found = read_json(path)
    found["provenance"].update({key: 3})
    if how == "lacking":
        del found["provenance"][key]
    write_sealed(path, found)
    assert refused_by_readers(run).startswith(f"{path} is damaged (provenance")


@pytest.mark.parametrize("kind", ["unknown", "another's", "another level", "twice"])
def test_records_that_are_not_of_the_table(run, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(copied(run, tmp_path))
    given, level = [Path("results/claims/lexframe_order1_top1.json")], "desk"
    if kind in ("unknown", "another's"):
        name = "lexframe_no_such_claim" if kind == "unknown" else "lexframe_kl_falls_with_order"
        given = [given[0].rename(f"results/claims/{name}.json")]
    elif kind == "another level":
        level = "paper"
    else:
        Path("copy").mkdir()
        given.append(Path(shutil.copy(given[0], "copy")))
    with pytest.raises(LensproofError) as caught:
        cli.main(["collect-claims", *map(str, given), "--level", level, "--out", "new.csv"], standalone_mode=False)
    assert str(given[0]) in str(caught.value)
    assert not Path("new.csv").exists()


def changed(column, value):
    return lambda table: table.assign(**{column: [value, *table[column].iloc[1:]]})


TABLES = {
    "a row less": lambda table: table[table["claim"] != "lexframe_table1_intervals"],
    "a row twice": lambda table: pd.concat([table, table.iloc[[0]]]),
    "no row": lambda table: table.iloc[:0],
    "a claim of no paper": changed("claim", "lexframe_no_such_claim"),
    "a verdict of none": changed("verdict", "perfect"),
    "no verdict": changed("verdict", None),
    "no level": changed("level", None),
    "an estimate in words": changed("estimate", "high"),
    "an estimate without end": changed("estimate", "inf"),
    "an end without end": changed("lo", "-1e400"),
    "a count without end": changed("n", "inf"),
    "an interval turned": lambda table: changed("hi", 0.0)(changed("lo", 1.0)(table)),
    "a column less": lambda table: table.drop(columns="verdict"),
}


@pytest.mark.parametrize("spoil", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("command", [["table", "lexframe", "text"], ["targets", "lexframe"]], ids=["table", "targets"])
def test_a_table_of_claims_by_another_hand_is_refused(run, tmp_path, monkeypatch, command, spoil):
    monkeypatch.chdir(copied(run, tmp_path))
    cli.main([*command, "results/claims.csv", "--out", "whole.csv"], standalone_mode=False)
    spoil(pd.read_csv("results/claims.csv", dtype=object)).to_csv("results/claims.csv", index=False)
    with pytest.raises(LensproofError) as caught:
        cli.main([*command, "results/claims.csv", "--out", "new.csv"], standalone_mode=False)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith("results/claims.csv ")
    assert line.endswith("remove it and build it again with `snakemake --cores 2 results/claims.csv`")
    assert not Path("new.csv").exists()


@pytest.mark.parametrize("change", [changed("estimate", "0.5"), changed("reason", "so"), changed("preset", "desk")])
@pytest.mark.parametrize("command", [["table", "lexframe", "text"], ["targets", "lexframe"]], ids=["table", "targets"])
def test_a_cell_of_the_table_of_claims_changed_by_hand(run, tmp_path, monkeypatch, command, change):
    """Which no rule of it could tell; without the provenance beside it nobody can."""
    monkeypatch.chdir(copied(run, tmp_path))
    path = Path("results/claims.csv")
    shutil.copy(run / "results/claims.provenance.json", provenance_path(path))
    cli.main([*command, str(path), "--out", "whole.csv"], standalone_mode=False)
    change(pd.read_csv(path, dtype=object)).to_csv(path, index=False)
    with pytest.raises(LensproofError, match=r"results/claims.csv is damaged or was changed by hand \(its sha256"):
        cli.main([*command, str(path), "--out", "new.csv"], standalone_mode=False)
    assert not Path("new.csv").exists()
    provenance_path(path).unlink()
    cli.main([*command, str(path), "--out", "new.csv"], standalone_mode=False)


def test_a_broken_catalogue_is_one_line_wherever_it_is_read(run, tmp_path):
    folder = published_folder(tmp_path, paper=None)
    for command in (["claims"], ["claim", "lexframe_c"], ["verify"]):
        one_line(lensproof(*command, "--published", folder, cwd=run), "claims.lexframe_c.paper")


def test_verify_names_each_claim_that_falls_short(run, tmp_path):
    done = lensproof("verify", *GATED, cwd=run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("preset small, level desk: all ")
    copy = tmp_path / "results"
    for path in (run / "results/claims").glob("*.json"):
        write_sealed(copy / "claims" / path.name, read_json(path))
    turned = copy / "claims/lexframe_order1_top1.json"
    found = read_json(turned)
    turn(found["checkpoints"][1], "inconclusive", "the interval does not decide")
    write_sealed(turned, found)
    (copy / "claims/lexframe_kl_falls_with_order.json").unlink()
    done = lensproof("verify", *GATED, "--results", copy, cwd=run)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"lexframe_kl_falls_with_order: not run; build it with `{SMALL} claim_lexframe_kl_falls_with_order`",
        "lexframe_order1_top1: inconclusive on untied-toy; the interval does not decide",
    ]


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ([], "level desk expects no claim"),
        (["lexframe_order1_top1"], "level desk: the one claim expected to hold does"),
        (["lexframe_order1_top1", "lexframe_kl_falls_with_order"], "level desk: all 2 claims expected to hold do"),
    ],
    ids=["none", "one", "two"],
)
def test_verify_says_how_many_claims_hold(run, tmp_path, monkeypatch, capsys, expected, words):
    monkeypatch.chdir(copied(run, tmp_path))
    entries = read_json(run / "published/claims.yaml")["claims"]
    for name, claim in entries.items():
        path = Path(f"results/claims/{name}.json")
        claim["expected"] = ["desk"] if name in expected else []
        if path.exists():
            found = read_json(path)
            for case in found["checkpoints"]:
                case["expected"] = name in expected
            write_sealed(path, found)
    write_json("published/claims.yaml", {"claims": entries})
    shutil.copy(catalogue.PUBLISHED / "lexframe.yaml", "published")
    cli.main(["verify", *GATED], standalone_mode=False)
    assert capsys.readouterr().out == f"preset small, {words}\n"


def test_verify_refuses_verdicts_of_several_levels(run, tmp_path, monkeypatch):
    monkeypatch.chdir(copied(run, tmp_path))
    path = Path("results/claims/lexframe_order1_top1.json")
    found = read_json(path)
    at = {"level": "smoke", "expected": "smoke" in CLAIMS[found["claim"]].expected}
    write_sealed(path, {**found, "level": "smoke", "checkpoints": [{**case, **at} for case in found["checkpoints"]]})
    with pytest.raises(LensproofError, match=r"several levels \(desk, smoke\): run `snakemake --cores 2 claims`"):
        cli.main(["verify", "--published", str(run / "published")], standalone_mode=False)


def of_preset(preset, *names, checkpoints=slice(None)):
    for name in names:
        path = Path(f"results/claims/{name}.json")
        found = read_json(path)
        for case in found["checkpoints"][checkpoints]:
            case["preset"] = preset
        write_sealed(path, found)


@pytest.mark.parametrize("checkpoints", [slice(None), slice(1)], ids=["all", "one"])
@pytest.mark.parametrize("names", [["lexframe_order1_top1"], ["lexframe_kl_falls_with_order", "lexframe_order1_top1"]])
def test_records_of_several_presets(run, tmp_path, monkeypatch, capsys, names, checkpoints):
    monkeypatch.chdir(copied(run, tmp_path))
    cli.main(["claims", "--published", str(run / "published")], standalone_mode=False)
    assert "several presets" not in capsys.readouterr().out
    of_preset("desk", *names, checkpoints=checkpoints)
    with pytest.raises(LensproofError) as caught:
        cli.main(["verify", "--published", str(run / "published")], standalone_mode=False)
    line = str(caught.value)
    assert "\n" not in line
    files = rf"results/claims/\w+.json of small, results/claims/{names[0]}.json of desk"
    assert re.search(rf"several presets \({files}\)", line)
    assert line.endswith("`snakemake --cores 2 claims`")
    cli.main(["claims", "--published", str(run / "published")], standalone_mode=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"compared with each other: desk: {', '.join(names)} small: all else" in shown


def test_what_no_preset_was_recorded_for_is_of_none(run, tmp_path, monkeypatch):
    monkeypatch.chdir(copied(run, tmp_path))
    of_preset(None, "lexframe_order1_top1")
    cli.main(["verify", "--published", str(run / "published")], standalone_mode=False)


@pytest.mark.parametrize("kind", ["one less", "one more", "another"])
def test_a_record_on_other_checkpoints_than_the_rest(run, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(copied(run, tmp_path))
    path = Path("results/claims/lexframe_order1_top1.json")
    found = read_json(path)
    cases = found["checkpoints"]
    if kind == "one more":
        cases.append({**cases[0], "checkpoint": "more"})
    elif kind == "another":
        cases[0]["checkpoint"] = "more"
    else:
        del cases[0]
    write_sealed(path, found)
    with pytest.raises(LensproofError) as caught:
        cli.main(["verify", "--published", str(run / "published")], standalone_mode=False)
    line = str(caught.value)
    assert line.startswith(f"{path} is on ")
    assert "the other claims of its paper on tied-toy, untied-toy" in line
    assert line.endswith(f"judge it again with `snakemake --cores 2 {path}`")


def test_checkpoints_may_stand_in_any_order(run, tmp_path, monkeypatch):
    monkeypatch.chdir(copied(run, tmp_path))
    path = Path("results/claims/lexframe_order1_top1.json")
    found = read_json(path)
    write_sealed(path, {**found, "checkpoints": found["checkpoints"][::-1]})
    cli.main(["verify", "--published", str(run / "published")], standalone_mode=False)


def test_layers_are_named_by_their_number():
    """One layer is a layer, several are layers, none is nothing."""

    def shown(estimate, layers):
        return pages.evidence_cells(estimate, layers, [])[0].splitlines()[1:]

    about = {"point": 0.5, "lo": 0.4, "hi": 0.6, "n": 9, "clusters": 3, "layers": 1, "layer": None}
    assert shown(about, []) == []
    assert shown(about, [12]) == shown({**about, "layer": 12}, []) == ["layer 12"]
    assert shown({**about, "layers": 2}, [3, 15]) == ["layers 3, 15"]
    assert shown({**about, "layers": 29}, list(range(1, 30))) == ["layers 1 to 29"]
    assert shown({**about, "layers": 29}, []) == ["over 29 layers"]
    assert shown(None, []) == []


def test_a_claim_testable_nowhere_falls_short(run, tmp_path):
    found = read_json(run / "results/claims/lexframe_order1_top1.json")
    for verdict in found["checkpoints"]:
        turn(verdict, "not testable", "too few documents")
    for path in (run / "results/claims").glob("*.json"):
        write_sealed(tmp_path / "claims" / path.name, read_json(path))
    write_sealed(tmp_path / "claims/lexframe_order1_top1.json", found)
    done = lensproof("verify", *GATED, "--results", tmp_path, cwd=run)
    assert done.returncode == 1
    assert done.stdout.strip() == "lexframe_order1_top1: not testable on any desk checkpoint; too few documents"


def test_a_verdict_depends_on_the_model(tmp_path):
    """From trials to verdict: where order 1 is no closer than order 0, the claim on it is contradicted."""

    def useless_order1(method, layer, layers):
        return paper_like("lexframe_0" if method == "lexframe_1" else method, layer, layers)

    estimates = estimate(observations(useless_order1), resamples=200, level=0.95, seed=0)
    name = "lexframe_order1_halves_order0_kl"
    verdict = judge(name, CLAIMS[name], evidence(estimates, PUBLISHED), "desk")["checkpoints"][0]
    assert verdict["verdict"] == "contradicted"


def test_no_torch_to_read_claims(run):
    script = (
        "import sys; from lensproof.cli import cli\n"
        "for line in (['claims'], ['claim', 'lexframe_order1_top1'], ['verify', '--published', 'published']):\n"
        "    cli.main(line, standalone_mode=False)\n"
        "print(json.dumps([name for name in ('torch', 'transformers', 'pandas') if name in sys.modules]))\n"
    )
    done = subprocess.run([sys.executable, "-c", "import json; " + script], cwd=run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) in ([], ["pandas"])
