"""Every claim of ``claims.yaml``, turned round: estimates that its rule accepts, and each of them changed."""

from __future__ import annotations

import pytest
from claims_world import HALF, Asked, Made, accuracy, asks, fitted_on, leaves, paper_evidence, row, spoilt

from lensproof.claims import catalogue
from lensproof.claims.evidence import Evidence, Quantity
from lensproof.claims.models import Claim, claims
from lensproof.claims.rules import AnyOf, HalfWidthAtMost, Identity
from lensproof.claims.verdicts import judge

PUBLISHED = catalogue.load("lexframe")
CLAIMS = claims()
DEPTH = 36
LAYERS = {"mid": 18, "15L/16": 34}
"""The layers that claims name by their place, in a model of 36 blocks."""


def checkpoint_of(claim: Claim) -> str:
    """One of the paper's models that the claim speaks of."""
    guards = claim.guards
    if guards.checkpoints:
        return guards.checkpoints[0]
    return "olmo3-7b" if guards.tied_embeddings is False else "smollm3-3b"


def world(claim: Claim, level: str) -> dict[Quantity, Asked]:
    """Estimates, each where every part of the rule wants it."""
    wanted: dict[Quantity, Asked] = {}
    for leaf in leaves(claim.rule):
        for quantity, asked in asks(leaf, PUBLISHED, checkpoint_of(claim), level).items():
            wanted[quantity] = wanted.get(quantity, Asked()).meets(asked)
    assert all(asked.low <= asked.high for asked in wanted.values()), "the rule asks for what cannot be"
    return wanted


def intervals(wanted: dict[Quantity, Asked]) -> dict[Quantity, Made]:
    """Estimates as they are wanted."""
    return {name: Made(asked.point, min(HALF, asked.width / 10), asked.token) for name, asked in wanted.items()}


def verdict(claim: Claim, found: dict[Quantity, Made], level: str, accurate: float = 0.4) -> str:
    rows = [accuracy(accurate, DEPTH), *fitted_on(PUBLISHED["setup"]["jacobian_lens_prompts"])]
    for quantity, (point, half, token) in found.items():
        names = {"reference": quantity.reference, "contrast": quantity.contrast, "setting": quantity.setting}
        layer = LAYERS[quantity.layer] if isinstance(quantity.layer, str) else quantity.layer
        names |= {"layer": layer, "experiment": quantity.experiment or claim.experiment, "token": token}
        rows.append(row(quantity.measure, quantity.method, point, half, **names))
    checkpoint = checkpoint_of(claim)
    tied = PUBLISHED["checkpoints"][checkpoint]["tied_embeddings"]
    case = Evidence(checkpoint, rows, PUBLISHED, tied, claim.experiment)
    return judge("claim", claim, [case], level)["checkpoints"][0]["verdict"]


@pytest.mark.parametrize("name", CLAIMS)
def test_what_a_rule_asks_for_reproduces_the_claim(name):
    for level in CLAIMS[name].levels:
        assert verdict(CLAIMS[name], intervals(world(CLAIMS[name], level)), level) == "reproduced"


@pytest.mark.parametrize("name", CLAIMS)
def test_each_decisive_estimate_turns_the_verdict(name):
    """Of a rule whose parts must all hold, any one part; of one with alternatives, all of them."""
    claim = CLAIMS[name]
    level = claim.levels[-1]
    good = intervals(world(claim, level))
    spoils = []
    for leaf in leaves(claim.rule):
        quantity, asked = next(iter(asks(leaf, PUBLISHED, checkpoint_of(claim), level).items()))
        spoils.append({quantity: spoilt(leaf, asked)})
    if isinstance(claim.rule, AnyOf):
        spoils = [{quantity: interval for spoil in spoils for quantity, interval in spoil.items()}]
    assert spoils
    for spoil in spoils:
        assert verdict(claim, good | spoil, level) == "contradicted", spoil


@pytest.mark.parametrize("name", CLAIMS)
def test_wide_intervals_do_not_decide(name):
    """Except where the rule is about the width, or about rounding."""
    claim = CLAIMS[name]
    level = claim.levels[-1]
    decided_by_width = {
        quantity
        for leaf in leaves(claim.rule)
        if isinstance(leaf, Identity | HalfWidthAtMost)
        for quantity in asks(leaf, PUBLISHED, checkpoint_of(claim), level)
    }
    good = intervals(world(claim, level))
    wide = {quantity: made._replace(half=1e3) for quantity, made in good.items()}
    undecided = {quantity: made for quantity, made in wide.items() if quantity not in decided_by_width}
    if undecided:
        assert verdict(claim, good | undecided, level) == "inconclusive"
    else:
        assert verdict(claim, wide, level) == "contradicted"


@pytest.mark.parametrize("name", CLAIMS)
def test_what_is_not_estimated_is_not_testable(name):
    claim = CLAIMS[name]
    level = claim.levels[-1]
    good = intervals(world(claim, level))
    for quantity in good:
        rest = {other: interval for other, interval in good.items() if other != quantity}
        expected = "reproduced" if isinstance(claim.rule, AnyOf) else "not testable"
        assert verdict(claim, rest, level) == expected
    assert verdict(claim, {}, level) == "not testable"


@pytest.mark.parametrize("name", [name for name, claim in CLAIMS.items() if claim.guards.model_accuracy])
def test_a_model_that_predicts_nothing_decides_nothing(name):
    claim = CLAIMS[name]
    assert verdict(claim, intervals(world(claim, claim.levels[-1])), claim.levels[-1], 0.01) == "not testable"


# -- the paper's own values

SILENT = {
    "lexframe_table4_intervals", "lexframe_tied_logit_lens_reads_input_back",
    "lexframe_untied_logit_lens_reads_no_input_back", "lexframe_order1_above_fixed_directions",
    "lexframe_lenses_below_fixed_direction_ceiling", "lexframe_lens_through_norm_below_ceiling",
    "lexframe_lenses_near_native_only_late", "lexframe_order1_direction_gap_in_low_layers",
    "lexframe_order2_direction_nearer", "lexframe_readouts_outside_leading_subspaces",
    "lexframe_leading_subspaces_hold_less_than_chance",
    "lexframe_fixed_maps_do_not_decompose", "lexframe_transported_state_decomposes",
    "lexframe_native_difference_is_the_ablation", "lexframe_smollm3_plateau", "lexframe_olmo3_no_plateau",
    "lexframe_plateau_appears_late_in_training", "lexframe_long_context_error_grows",
    "lexframe_long_context_keeps_the_order", "lexframe_long_context_top1",
}  # fmt: skip
"""Claims that the paper states in words or pictures: not all that their rules ask for is published as a number."""


@pytest.mark.parametrize("name", CLAIMS)
def test_the_papers_own_values_hold(name):
    """At the level of the paper no rule may reject the numbers of the paper that states the claim."""
    claim, found = CLAIMS[name], []
    for checkpoint in PUBLISHED["checkpoints"]:
        case = paper_evidence(PUBLISHED, checkpoint, claim.experiment)
        result = judge(name, claim, [case], "paper")["checkpoints"][0]
        found.append(result["verdict"])
        assert result["verdict"] in ("reproduced", "not testable"), result["reason"]
        if all(guard["passes"] for guard in result["guards"]) and not isinstance(claim.rule, AnyOf):
            assert {part["verdict"] for part in result["parts"]} <= {"reproduced", "not testable"}
    assert ("reproduced" in found) == (name not in SILENT)


def test_every_desk_claim_is_qualitative():
    """No number of the paper decides a claim on another model."""
    for name, claim in CLAIMS.items():
        if "desk" in claim.levels:
            kinds = {leaf.kind for leaf in leaves(claim.rule)}
            assert "within" not in kinds, name
            assert not claim.guards.checkpoints, name


def test_no_verdict_is_set_by_the_sizes_of_a_run():
    """A comparison of budgets, or the width of an interval, speaks of the paper at the paper's sizes only."""
    setup = PUBLISHED["setup"]
    for name, claim in CLAIMS.items():
        guards, measured = claim.guards, leaves(claim.rule)
        if claim.experiment == "costs":
            assert claim.levels == ["paper"], name
            assert guards.jacobian_prompts == setup["jacobian_lens_prompts"], name
        elif any(isinstance(leaf, HalfWidthAtMost) for leaf in measured):
            assert guards.min_clusters >= setup["test_sequences"] / 2, name


@pytest.mark.parametrize(("prompts", "verdict_found"), [(8, "not testable"), (99, "not testable"), (100, "reproduced")])
def test_the_cost_of_a_fit_is_compared_at_the_papers_number_of_prompts(prompts, verdict_found):
    name = "lexframe_jacobian_fit_costs_more"
    ratio = row("time_ratio", "jacobian_lens", 20.0, 1.0, experiment="costs", setting="wall")
    case = Evidence("smollm3-3b", [ratio, *fitted_on(prompts)], PUBLISHED, experiment="costs")
    found = judge(name, CLAIMS[name], [case], "paper")["checkpoints"][0]
    assert found["verdict"] == verdict_found
    if prompts < 100:
        assert f"at least 100 prompts (here: {prompts})" in found["reason"]
    at_desk = judge(name, CLAIMS[name], [case], "desk")["checkpoints"][0]
    assert at_desk["verdict"] == "not testable"
