"""Whether a rule means anything for one checkpoint. Each guard says what it asks for and what it found."""

from __future__ import annotations

from collections.abc import Iterator

from lensproof.claims import arms, catalogue
from lensproof.claims.arms import Checked
from lensproof.claims.catalogue import Level
from lensproof.claims.evidence import MODEL, Evidence, Missing, Quantity, number
from lensproof.claims.models import Claim, Guards
from lensproof.claims.rules import at_level
from lensproof.errors import LensproofError


def check(claim: Claim, evidence: Evidence, level: Level) -> list[Checked]:
    """Every guard of a claim."""
    checked = list(dict.fromkeys(_guards(claim.guards, evidence, level)))  # contrasts share arms
    if level not in claim.levels or not set(claim.levels).issuperset(catalogue.RUNS):
        asks = f"a run at the level {' or '.join(claim.levels)}"
        passes = level in claim.levels
        why = f": {claim.elsewhere}" if claim.elsewhere and not passes else ""
        checked.insert(0, Checked("level", asks, f"the level is {level}{why}", passes))
    return checked


def _guards(guards: Guards, evidence: Evidence, level: Level) -> Iterator[Checked]:
    if guards.min_clusters is not None:
        least, found = round(at_level(guards.min_clusters, level)), evidence.clusters
        yield Checked("min_clusters", f"at least {least} documents", f"{found}", found >= least)
    if guards.model_accuracy is not None:
        yield _accuracy(guards.model_accuracy, evidence)
    for pair in guards.contrasts:
        for records in guards.records:
            yield from arms.of_contrast(evidence, pair, records, level)
    for arm in guards.above_chance:
        yield from _above_chance(arm, guards, evidence)
    if guards.tied_embeddings is not None:
        if evidence.tied is None:
            raise LensproofError(f"say whether {evidence.checkpoint} ties its embeddings: --tied or --untied")
        words = {True: "tied", False: "not tied"}
        passes = evidence.tied == guards.tied_embeddings
        asks = "tied embeddings" if guards.tied_embeddings else "embeddings that are not tied"
        yield Checked("tied_embeddings", asks, words[evidence.tied], passes)
    if guards.jacobian_prompts is not None:
        yield _prompts(guards.jacobian_prompts, evidence)
    if guards.checkpoints is not None:
        asks = f"the paper's {' or '.join(guards.checkpoints)}"
        yield Checked("checkpoints", asks, evidence.checkpoint, evidence.checkpoint in guards.checkpoints)


def _above_chance(arm: str, guards: Guards, evidence: Evidence) -> Iterator[Checked]:
    for records in guards.records:
        try:
            yield arms.above_chance(evidence, arm, records)
        except Missing as missing:
            yield Checked("chance", f"accuracy of {arm}", str(missing), False)


def _prompts(least: int, evidence: Evidence) -> Checked:
    """How many prompts a fit took: its time in all over that of one."""
    asks = f"a Jacobian lens fitted on at least {least} prompts"
    time = Quantity(measure="seconds", method="jacobian_lens", experiment="costs")
    try:
        whole, one = (evidence.find(time.model_copy(update={"measure": f"seconds{of}"})) for of in ("", "_per_item"))
    except Missing as missing:
        return Checked("jacobian_prompts", asks, str(missing), False)
    found = round(whole.point / one.point)
    return Checked("jacobian_prompts", asks, f"{found}", found >= least)


def _accuracy(least: float, evidence: Evidence) -> Checked:
    """A model that predicts nothing has no semantics to read: its numbers say nothing of language models.

    Its accuracy stands in the estimates of the readings, whatever experiment the claim is judged on.
    """
    asks = f"a model that gets at least {number(least)} of next tokens right"
    try:
        estimate = evidence.find(Quantity(measure="accuracy", method=MODEL, experiment="readings"))
    except Missing as missing:
        return Checked("model_accuracy", asks, str(missing), False)
    return Checked("model_accuracy", asks, f"{estimate.words()}", estimate.lo >= least)
