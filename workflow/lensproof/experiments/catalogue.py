"""What each experiment reads, without anything heavy: the Snakefile looks here.

An experiment is a module of this folder with ``observe(run) -> DataFrame``, its section of the configuration
(``experiments.<name>``; on benchmark records ``gathered.experiments.<name>``) and a module of the same name in
``lensproof.statistics``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lensproof.config import NO_CUE, family
from lensproof.corpora.benchmark.record import ARMS


@dataclass(frozen=True)
class Experiment:
    """Files that an experiment reads.

    Attributes:
        inputs: names of files in ``results/artifacts/<checkpoint>/``, all safetensors.
        files: other files, by name; in braces ``checkpoint``, ``sequence_length`` or a key of its section.
        calibrations: whether it reads typical attention of other texts too, as many as its section says, the run's own
            among them.
        float32: whether its model is loaded in float32 whatever the run's precision, as directions ask for.
    """

    inputs: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    calibrations: bool = False
    float32: bool = True


DERIVED = {"exits": "readings", "intervals": "readings", "costs": "costs"}
"""Estimates without an experiment of their own -> the observations that they are made from."""
BESIDE = {"directions": ("coherence",)}
"""Estimates that are made from the observations of other experiments too."""

EXPERIMENTS = {
    "directions": Experiment(inputs=("typical_attention", "jacobian_lens", "ridge_probe")),
    "coherence": Experiment(),
    "planes": Experiment(),
    "substitution": Experiment(inputs=("typical_attention", "jacobian_lens")),
    "subspaces": Experiment(),
    "composition": Experiment(inputs=("typical_attention",)),
    "decomposition": Experiment(inputs=("typical_attention", "jacobian_lens"), float32=False),
    "steering": Experiment(inputs=("typical_attention", "jacobian_lens")),
    "attribution": Experiment(inputs=("typical_attention", "jacobian_lens")),
    "stand_ins": Experiment(inputs=("typical_attention",), calibrations=True),
    "training": Experiment(inputs=("typical_attention",), float32=False),
    "long_context": Experiment(
        files={
            "long_sequences": "results/sequences/{checkpoint}/{corpus}/{long}.parquet",
            "typical_long": "results/artifacts/{checkpoint}/{corpus}/typical_attention_{long}.safetensors",
            "typical_short": "results/artifacts/{checkpoint}/{corpus}/typical_attention_{sequence_length}.safetensors",
        },
        float32=False,
    ),
    "translators": Experiment(
        inputs=("tuned_lens",), files={"trained_on": "results/sequences/{checkpoint}/{corpus}.parquet"}
    ),
    "sensitivity": Experiment(),
    "examples": Experiment(inputs=("typical_attention", "jacobian_lens"), float32=False),
}


@dataclass(frozen=True)
class OnRecords:
    """What an experiment on benchmark records reads, besides the states at the query position.

    Attributes:
        inputs: names of files in ``results/artifacts/<checkpoint>/``, all safetensors.
        takes: which states of a set one job takes: those of a ``shard``, so that there are as many jobs; ``all``, or
            the ``first`` shard only.
    """

    inputs: tuple[str, ...] = ()
    takes: Literal["shard", "all", "first"] = "shard"


ON_RECORDS = {
    "visibility": OnRecords(inputs=("jacobian_lens",)),
    "availability": OnRecords(takes="all"),
    "worked_example": OnRecords(inputs=("jacobian_lens",), takes="first"),
}
OF_FAMILY = {"language": ARMS, "tracking": tuple(arm for arm in ARMS if arm != "supplied")}
"""Family -> the arms that its records have."""
OF_VARIANT = {
    "_unmatched": ("report", "flexible", "control"),
    "_length": ("automatic", "report", "flexible", "control"),
    NO_CUE: ("automatic",),
}
"""End of a set's name -> the arms that are run, where the set says something of these alone."""


def arms_of(records: str) -> tuple[str, ...]:
    """The arms of a record set that are run."""
    own = OF_FAMILY[family(records)]
    variant = records.removeprefix(family(records))
    return tuple(arm for arm in own if arm in OF_VARIANT.get(variant, own))
