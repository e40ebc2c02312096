"""Claims on the five-arm benchmark: guards of contrasts, planted checkpoints, and claims across checkpoints."""

from __future__ import annotations

import json
import subprocess
import sys

import pandas as pd
import pytest
import yaml
from claims_world import row
from jsonschema import Draft202012Validator

from lensproof.claims import catalogue
from lensproof.claims.evidence import Evidence
from lensproof.claims.guards import check
from lensproof.claims.models import Guards, claims
from lensproof.claims.records import reader, shortfalls
from lensproof.claims.verdicts import csv_rows, judge
from lensproof.errors import LensproofError
from lensproof.files import read_json, write_json, write_parquet, write_sealed

PUBLISHED = catalogue.load("gathered")
CLAIMS = claims()
CONTRAST = "gathered_entry_flexible_minus_control"
CHANCE = {"flexible": 0.25, "control": 0.5, "automatic": 0.25, "report": 0.25, "supplied": 0.25}


def arm(name: str, accuracy: float, half: float = 0.03, records: str = "language") -> list[dict]:
    """What is known of how often an arm is answered rightly."""
    about = {"experiment": "visibility", "setting": records, "unit": "share"}
    gap = accuracy - CHANCE[name]
    return [
        row("accuracy", name, accuracy, half, **about),
        row("chance", name, CHANCE[name], **about),
        row("accuracy", name, gap, half, reference="chance", contrast="difference", **about),
    ]


def gap(method: str, reference: str, point: float, measure: str = "rz", half: float = 0.01, **more) -> dict:
    about = {"experiment": "visibility", "setting": "language", "contrast": "difference", "reference": reference}
    return row(measure, method, point, half, **{**about, **more})


def case(*rows, checkpoint: str = "toy") -> Evidence:
    return Evidence(checkpoint, [*rows, gap("flexible", "control", 0.09)], PUBLISHED, None, "visibility")


def refused(*rows, claim: str = CONTRAST, level: str = "desk"):
    """Verdict and reason."""
    (found,) = judge(claim, CLAIMS[claim], [case(*rows)], level)["checkpoints"]
    return found["verdict"], found["reason"]


# -- guards, one by one


def test_arms_that_can_be_compared_are():
    verdict, reason = refused(*arm("flexible", 0.94), *arm("control", 0.94))
    assert verdict == "reproduced"
    assert "band-mean R_z of flexible (language) less that of control is 0.0900 [0.0800, 0.100]" in reason


def test_two_arms_at_ceiling():
    verdict, reason = refused(*arm("flexible", 1.0, 0), *arm("control", 0.996, 0.002))
    assert verdict == "not testable"
    assert reason == (
        "needs flexible and control (language) not both at ceiling, above 0.995 (here: flexible 1.00, control 0.996)"
    )
    assert refused(*arm("flexible", 1.0, 0), *arm("control", 0.995, 0.002))[0] == "reproduced"


def test_an_arm_at_its_own_chance_by_the_lower_end_of_its_interval():
    verdict, reason = refused(*arm("flexible", 0.60), *arm("control", 0.52, 0.05))
    assert verdict == "not testable"
    assert reason == (
        "needs control (language) above its own chance (here: accuracy 0.520 [0.470, 0.570], chance 0.500; "
        "by the published rule, its point alone, it passes)"
    )
    below = refused(*arm("flexible", 0.20), *arm("control", 0.30))[1]
    assert "flexible (language) above its own chance (here: accuracy 0.200 [0.170, 0.230], chance 0.250; " in below
    assert "its point alone, it does not pass" in below


def test_an_arm_whose_lower_end_is_chance_itself():
    assert refused(*arm("flexible", 0.60), *arm("control", 0.55, 0.05))[0] == "not testable"
    assert refused(*arm("flexible", 0.60), *arm("control", 0.5501, 0.05))[0] == "reproduced"


def test_accuracies_too_far_apart():
    verdict, reason = refused(*arm("flexible", 0.95), *arm("control", 0.79))
    assert verdict == "not testable"
    assert "within 0.15 of one another in accuracy" in reason
    assert "(here: gap 0.160: flexible 0.950, control 0.790)" in reason
    assert refused(*arm("flexible", 0.90), *arm("control", 0.75))[0] == "reproduced"  # the limit itself passes
    assert refused(*arm("flexible", 0.75), *arm("control", 0.92))[0] == "not testable"  # either way


def test_guards_stand_in_the_methods_order():
    found = check(CLAIMS[CONTRAST], case(*arm("flexible", 0.20), *arm("control", 0.80)), "desk")
    assert [(guard.guard, guard.passes) for guard in found] == [
        ("min_clusters", True), ("ceiling", True), ("chance", False), ("chance", True), ("confounded", False)
    ]  # fmt: skip


def test_several_contrasts_each_have_their_guards():
    assert Guards(arms=("a", "b")).contrasts == [("a", "b")]
    claim = CLAIMS["gathered_two_by_two_interaction"]
    assert claim.guards.contrasts == [("flexible", "supplied"), ("report", "control")]
    arms = {"flexible": 0.9, "supplied": 1.0, "report": 1.0, "control": 0.9}
    found = check(claim, case(*(line for name, share in arms.items() for line in arm(name, share))), "desk")
    assert all(guard.passes for guard in found)  # supplied and report are at ceiling, and are not compared


def test_both_record_sets_of_a_contrast_across_sets_are_guarded():
    rows = [*arm("flexible", 0.9), *arm("control", 0.9), *arm("flexible", 0.9, records="language_unmatched")]
    verdict, reason = refused(*rows, claim="gathered_unmatched_legend_inflates")
    assert verdict == "not testable"
    assert "no estimate of the accuracy of control (language unmatched)" in reason


def test_answers_that_were_not_estimated_refuse_the_contrast():
    verdict, reason = refused(*arm("flexible", 0.9))
    assert verdict == "not testable"
    assert reason.startswith("needs accuracies of flexible and control")


# -- the guard itself as what is claimed

CONFOUNDED = "gathered_entry_flexible_minus_automatic_confounded"


def test_a_claim_that_the_guard_fires():
    def said(flexible, automatic):
        between = gap("flexible", "automatic", flexible - automatic, "accuracy")
        return refused(*arm("flexible", flexible), *arm("automatic", automatic), between, claim=CONFOUNDED)

    verdict, reason = said(0.94, 0.615)
    assert verdict == "reproduced"
    assert reason == (
        "accuracy of flexible (language) less that of automatic is 0.325 [0.315, 0.335]; "
        "claimed: farther than 0.15 from 0, so that the contrast is refused; it holds"
    )
    assert said(0.94, 0.85)[0] == "contradicted"
    verdict, reason = said(0.94, 0.26)  # at chance, which comes first
    assert verdict == "not testable"
    assert reason.startswith("another guard comes first: needs automatic (language) above its own chance")


# -- planted checkpoints

SMALL = "snakemake --cores 2 --configfile workflow/presets/small.yaml --"

PROVENANCE = {"package": "0", "commit": None, "code": "0", "preset": "small", "config": None}
"""Of a record made here."""


@pytest.fixture
def planted():
    """The record of the primary contrast on a planted model and on one of the desk, both answering at ceiling."""
    rows = [*arm("flexible", 1.0, 0), *arm("control", 1.0, 0)]
    cases = [case(*rows, checkpoint=name) for name in ("planted-gate", "adapted")]
    record = judge(CONTRAST, CLAIMS[CONTRAST], cases, "desk", ["planted-gate"])
    for verdict in record["checkpoints"]:  # what the command adds
        verdict |= {"preset": "small", "entry": "from estimates", "inputs": []}
    return record


def test_a_planted_checkpoint_is_judged_at_its_own_level(planted):
    built, trained = planted["checkpoints"]
    assert (built["level"], built["verdict"], built["expected"]) == ("planted", "reproduced", True)
    assert (trained["level"], trained["verdict"]) == ("desk", "not testable")
    (ceiling,) = [guard for guard in built["guards"] if guard["guard"] == "ceiling"]
    assert ceiling["passes"]
    assert ceiling["found"] == (
        "flexible 1.00, control 1.00: at ceiling by construction, which does not decide at this level"
    )
    assert [line["level"] for line in csv_rows(planted)] == ["planted", "desk"]


def test_a_claim_can_leave_planted_models_out():
    claim = "gathered_operator_only_supplied_minus_control"
    (found,) = judge(claim, CLAIMS[claim], [case()], "desk", ["toy"])["checkpoints"]
    assert found["reason"].startswith("needs a run at the level smoke or desk or paper (here: the level is planted)")
    stories = "gathered_tracking_chance_guard"
    (found,) = judge(stories, CLAIMS[stories], [case()], "desk", ["toy"])["checkpoints"]
    assert found["verdict"] == "not testable"
    assert found["reason"].startswith(
        "needs a run at the level desk or paper (here: the level is planted: planted models know the language family "
        "only, and random ones answer nothing)"
    )


def test_rules_are_worded_at_the_level_of_each_checkpoint():
    claim = "gathered_arm_accuracies"
    record = judge(claim, CLAIMS[claim], [case(checkpoint="a"), case(checkpoint="b")], "desk", ["b"])
    desk, built = record["checkpoints"]
    assert "second_highest_arm (language) is at most 0.995" in desk["rule"]
    assert "second_highest_arm (language) is at most 1.00" in built["rule"]


def test_records_match_their_schema(planted, root):
    validator = Draft202012Validator(yaml.safe_load((root / "workflow/schemas/claim.schema.yaml").read_text()))
    validator.validate(json.loads(json.dumps({**planted, "provenance": PROVENANCE, "sha256": "0" * 64})))


def test_verify_holds_each_level_to_what_it_expects(planted):
    def short(built: str, trained: str, expected: list[str]):
        for verdict, said in zip(planted["checkpoints"], (built, trained), strict=True):
            verdict |= {"verdict": said, "reason": "so it is"}
        return list(shortfalls({CONTRAST: planted}, {CONTRAST: expected}))

    assert short("reproduced", "contradicted", ["planted"]) == []
    assert short("reproduced", "contradicted", ["desk"]) == [f"{CONTRAST}: contradicted on adapted; so it is"]
    assert short("inconclusive", "reproduced", ["planted", "desk"]) == [
        f"{CONTRAST}: inconclusive on planted-gate; so it is"
    ]
    assert short("not testable", "reproduced", ["planted", "desk"]) == [
        f"{CONTRAST}: not testable on any planted checkpoint; so it is"
    ]
    missing = list(shortfalls({CONTRAST: planted, "other": None}, {CONTRAST: [], "other": ["planted", "desk"]}))
    assert missing == [f"other: not run; build it with `{SMALL} claim_other`"]


def test_the_commands_know_planted_checkpoints(tmp_path):
    rows = [*arm("flexible", 1.0, 0), *arm("control", 1.0, 0), gap("flexible", "control", 0.3)]
    for name in ("planted-gate", "adapted"):
        table = pd.DataFrame([{**line, "checkpoint": name} for line in rows]).astype({"layer": "Int16"})
        write_parquet(tmp_path / f"{name}.parquet", table, {"preset": "small"})
    write_json(tmp_path / "published/claims.yaml", {"claims": {CONTRAST: catalogue.load("claims")["claims"][CONTRAST]}})
    write_json(tmp_path / "published/gathered.yaml", PUBLISHED)
    out = f"results/claims/{CONTRAST}.json"

    def lensproof(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "lensproof", *arguments, "--published", "published"],
            cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip

    judged = ["judge", CONTRAST, "planted-gate.parquet", "adapted.parquet", "--level", "desk", "--out", out]
    done = lensproof(*judged, "--planted", "planted-gate")
    assert done.returncode == 0, done.stderr
    shown = " ".join(lensproof("claim", CONTRAST).stdout.split())
    assert "planted-gate: reproduced (preset small, planted, from estimates)" in shown
    assert "adapted: not testable (preset small, desk, from estimates)" in shown
    assert "gate `lensproof verify` fails unless reproduced (planted, desk)" in shown
    assert "Claims (preset: small; level: planted, desk)" in lensproof("claims").stdout
    done = lensproof("verify")
    assert done.returncode == 1
    assert done.stdout.startswith(f"{CONTRAST}: not testable on any desk checkpoint; needs flexible and control")


# -- claims across checkpoints


def across(claim: str, points: dict[str, tuple[float, float]], planted=(), whole: bool = False):
    """Verdicts of a claim on checkpoints: name -> latent demand and the operator alone, all arms answered alike."""
    arms = [line for name in ("flexible", "control", "supplied") for line in arm(name, 0.9)]
    cases = [
        case(*arms, gap("flexible", "supplied", latent), gap("supplied", "control", operator), checkpoint=name)
        for name, (latent, operator) in points.items()
    ]
    record = judge(claim, CLAIMS[claim], cases, "desk", planted)
    return record if whole else record["checkpoints"]


EVERY, SOME = "gathered_latent_demand_positive_on_four", "gathered_operator_only_sign_unstable"


@pytest.mark.parametrize(
    ("claim", "one", "other", "verdict"),
    [
        (EVERY, (0.05, 0), (0.03, 0), "reproduced"),
        (EVERY, (0.05, 0), (0.005, 0), "inconclusive"),
        (EVERY, (0.05, 0), (-0.05, 0), "contradicted"),
        (SOME, (0.05, 0.05), (0.05, -0.05), "reproduced"),
        (SOME, (0.05, 0.05), (0.05, 0.0), "inconclusive"),
        (SOME, (0.05, 0.05), (0.05, 0.03), "contradicted"),
        (SOME, (0.05, 0.05), (-0.05, -0.05), "contradicted"),  # no demand for the latent variable either
    ],
)
def test_checkpoints_share_the_verdict_and_keep_what_their_own_rule_says(claim, one, other, verdict):
    found = across(claim, {"a": one, "b": other})
    assert [case["verdict"] for case in found] == [verdict, verdict]
    assert found[0]["reason"].startswith(f"claimed of {CLAIMS[claim].across} checkpoint; it holds on ")
    if claim == SOME and verdict == "reproduced":
        assert [case["outcome"] for case in found] == ["contradicted", "reproduced"]
        assert "it holds on 1 of 2 (a, b); here " in found[0]["reason"]


POINTS = {"a": (0.05, 0.05), "b": (0.05, -0.05), "gather": (0.3, 0.01), "gate": (-0.3, 0)}


@pytest.fixture
def held(tmp_path):
    """What writes a claim's record on checkpoints that share verdicts, as the command does, after a change."""

    def write(claim, change=lambda record, case: None, points=POINTS):
        record = across(claim, points, planted=["gather", "gate"], whole=True)
        for case_ in record["checkpoints"]:
            case_ |= {"preset": "small", "entry": "from estimates", "inputs": []}
        change(record, record["checkpoints"][0])
        write_sealed(tmp_path / f"{claim}.json", {**record, "provenance": PROVENANCE})
        return tmp_path / f"{claim}.json"

    return write


@pytest.mark.parametrize("points", [POINTS, dict(list(POINTS.items())[:1]), {"gate": (0.0, 0.0), "a": (0.005, 0.0)}])
@pytest.mark.parametrize("claim", [EVERY, SOME, "gathered_latent_demand_flexible_minus_supplied"])
def test_a_record_of_several_levels_and_shared_verdicts_is_read_back(held, claim, points):
    path = held(claim, points=points)
    assert reader()(path) == read_json(path)


TURNED = {
    "a shared verdict": (lambda record, case: case.update(verdict="inconclusive"), "its rule and guards say"),
    "its own verdict in place of the shared one": (
        lambda record, case: case.update(verdict=case["outcome"]), "its rule and guards say reproduced"
    ),
    "no claim across checkpoints": (lambda record, case: record.update(across=None), "its across is not what"),
    "a claim on every checkpoint": (lambda record, case: record.update(across="every"), "its across is not what"),
    "a level": (lambda record, case: case.update(level="smoke"), "the level on a is smoke, the run's is desk"),
    "what is expected": (lambda record, case: case.update(expected=not case["expected"]), "what is expected on a is"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "words"), TURNED.values(), ids=TURNED)
def test_a_record_of_shared_verdicts_by_another_hand_is_refused(held, change, words):
    with pytest.raises(LensproofError, match="is damaged, or not what is needed here") as caught:
        reader()(held(SOME, change))
    assert words in str(caught.value)


def test_checkpoints_that_cannot_be_tested_are_left_out():
    rows = [*arm("flexible", 0.9), *arm("supplied", 0.9)]
    good = [case(*rows, gap("flexible", "supplied", 0.05), checkpoint=name) for name in "ab"]
    chance = case(*arm("flexible", 0.25), *arm("supplied", 0.9), gap("flexible", "supplied", -0.05), checkpoint="c")
    found = judge(EVERY, CLAIMS[EVERY], [*good, chance], "desk")["checkpoints"]
    assert [case["verdict"] for case in found] == ["reproduced", "reproduced", "not testable"]
    assert "above its own chance" in found[2]["reason"]
    alone = judge(EVERY, CLAIMS[EVERY], [good[0], chance], "desk")["checkpoints"]
    assert [case["verdict"] for case in alone] == ["not testable", "not testable"]
    assert alone[0]["reason"].startswith("needs at least 2 checkpoints on which it can be tested (here: a)")


def test_levels_do_not_mix():
    points = {"a": (0.05, 0), "b": (0.05, 0), "gather": (0.3, 0), "gate": (-0.3, 0)}
    found = across(EVERY, points, planted=["gather", "gate"])
    assert [case["verdict"] for case in found] == ["reproduced", "reproduced", "contradicted", "contradicted"]


# -- what stands beside


def test_estimates_that_decide_nothing_are_shown():
    rows = [*arm("flexible", 0.9), *arm("supplied", 1.0, 0), gap("flexible", "supplied", 0.05)]
    name = "gathered_latent_demand_flexible_minus_supplied"
    (found,) = judge(name, CLAIMS[name], [case(*rows)], "desk")["checkpoints"]
    shown = {value["quantity"]: value["estimate"]["point"] for value in found["values"]}
    assert shown["accuracy of supplied (language)"] == 1.0
    assert "accuracy of supplied (language)" not in [part["quantity"] for part in found["parts"]]
