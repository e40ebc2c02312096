"""What a claim is: the shape of ``paper/published/claims.yaml``, checked before anything is judged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from lensproof.claims import catalogue
from lensproof.claims.arms import Pair
from lensproof.claims.catalogue import PUBLISHED, RUNS, Level
from lensproof.claims.evidence import Experiment, Quantity, Strict
from lensproof.claims.published import values
from lensproof.claims.rules import Rule, Threshold, published_paths
from lensproof.errors import LensproofError

FEWEST = 2
"""Checkpoints that a claim across checkpoints needs."""


class Guards(Strict):
    """What must hold for the rule to mean anything; where one fails, the verdict is *not testable*."""

    min_clusters: Threshold | None = Field(default=None, description="documents behind the intervals")
    model_accuracy: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="least share of next tokens that the model itself gets right"
    )
    tied_embeddings: bool | None = Field(
        default=None, description="the claim speaks of models whose input and output embeddings are, or are not, one"
    )
    jacobian_prompts: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="prompts that the Jacobian lens whose cost is measured was fitted on, at least"
    )
    checkpoints: list[str] | None = Field(
        default=None, min_length=1, description="the claim speaks of these checkpoints of the paper only"
    )
    arms: Pair | list[Pair] = Field(
        default=[],
        description="contrasts of two arms, or one: not both at ceiling, each above its own chance, and not too far "
        "apart in accuracy, in this order",
    )
    above_chance: list[str] = Field(default=[], description="arms that must be above their own chance")
    records: list[str] = Field(
        default=["language"], min_length=1, description="record sets on which `arms` and `above_chance` are asked"
    )

    @property
    def contrasts(self) -> list[Pair]:
        """The contrasts that ``arms`` names."""
        one = bool(self.arms) and isinstance(self.arms[0], str)
        return [self.arms] if one else list(self.arms)


class Claim(Strict):
    """One claim of a paper with the rule that decides it, fixed before the run."""

    paper: Literal["lexframe", "gathered"]
    group: str = Field(description="claims that belong together in a table")
    location: str = Field(description="where the paper states it")
    statement: str = Field(description="the claim in words, without the paper's numbers")
    experiment: Experiment = Field(description="whose estimates decide it")
    published: list[str] = Field(default=[], description="dotted paths of the values that the paper states")
    levels: list[Level] = Field(default=list(RUNS), description="levels at which it can be tested")
    elsewhere: str | None = Field(default=None, description="why it cannot be tested at the others")
    rule: Rule
    across: Literal["every", "some"] | None = Field(
        default=None,
        description="the rule holds on every checkpoint, or on some, of those of one level on which it can be tested, "
        f"at least {FEWEST}; none: each checkpoint is judged by itself",
    )
    beside: list[Quantity] = Field(default=[], description="estimates that are shown too and decide nothing")
    guards: Guards = Guards()
    expected: list[Level] = Field(description="levels at which `lensproof verify` fails unless it is reproduced")

    def words(self, level: Level) -> str:
        """The rule in words, at a level."""
        return f"on {self.across} checkpoint: {self.rule.words(level)}" if self.across else self.rule.words(level)

    @model_validator(mode="after")
    def _expected_where_tested(self) -> Claim:
        for level in self.expected:
            if level not in self.levels:
                raise ValueError(f"expected names {level}, at which the claim is not tested (levels: {self.levels})")
        return self


class Claims(Strict):
    """The file: claim id -> claim."""

    claims: dict[Annotated[str, Field(pattern=r"^[a-z0-9]+(_[a-z0-9]+)*$")], Claim]

    @model_validator(mode="after")
    def _prefixed(self) -> Claims:
        for name, claim in self.claims.items():
            if not name.startswith(f"{claim.paper}_"):
                raise ValueError(f"{name}: a claim's id starts with its paper, {claim.paper}_")
        return self


def claims(directory: Path = PUBLISHED) -> dict[str, Claim]:
    """Every claim, checked, with the published values that it names.

    Raises:
        LensproofError: one line that names the claim and the key, and says what it must be.
    """
    try:
        checked = Claims.model_validate(catalogue.load("claims", directory)).claims
    except ValidationError as error:
        raise LensproofError(f"claims.yaml: {_explain(error)}") from None
    published = {paper: catalogue.load(paper, directory) for paper in {claim.paper for claim in checked.values()}}
    for name, claim in checked.items():
        stated = published[claim.paper]
        for path in [*claim.published, *published_paths(claim.rule)]:
            values(stated, path)
        for checkpoint in set(claim.guards.checkpoints or ()) - set(stated["checkpoints"]):
            raise LensproofError(f"claims.yaml: {name} speaks of {checkpoint}, which the paper does not have")
    return checked


def _explain(error: ValidationError) -> str:
    # Of the ways in which a value fails to be any of several kinds, the one that came furthest says most.
    first = min(error.errors(), key=lambda item: (item["type"] != "extra_forbidden", -len(item["loc"])))
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"unknown key {key}: remove it or correct its name"
    if first["type"] == "missing":
        return f"{key} is missing"
    return f"{key}: {first['msg'].removeprefix('Value error, ')}".removeprefix(": ")


def schema() -> dict[str, Any]:
    """The JSON schema of ``claims.yaml``."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Claims.model_json_schema()}
