"""Planted models do what their source says, at every placement: the truth that verdicts on them are held against."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy
import pytest
import torch
from models import layers
from sklearn.linear_model import RidgeClassifier
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.checkpoints.build import build
from lensproof.checkpoints.load import load, load_tokenizer
from lensproof.config import Checkpoint, PlantedSource
from lensproof.corpora.benchmark import language, sets
from lensproof.corpora.benchmark.check import check
from lensproof.corpora.benchmark.record import ARMS, Record, read_records
from lensproof.corpora.benchmark.tokenised import tokenised
from lensproof.errors import LensproofError
from lensproof.lenses import jacobian
from lensproof.lenses.visibility import Visibility, visibility
from lensproof.specimens.planted import world
from lensproof.streams.shared import continued

COPY, TABLE = 1, 2
"""Block of the early copy, and blocks from the plant to the table."""
INSTANCES = 40
DEMAND = ("report", "flexible")


def source(variant, block, **settings):
    return PlantedSource(kind="planted", variant=variant, block=block, **settings)


PLACEMENTS = [
    source("gather", 3, layers=8),
    source("gather", 3, head=7, seed=1),
    source("gather", 6, head=2),
    source("gather", 7, head=5, seed=2, layers=12),
    source("gather", 8, head=1, seed=3),
    source("gather", 11, head=4, seed=4),
    source("gather", 15, head=3, seed=5, layers=20, width=192, heads=6),
    source("gate", 3, layers=8),
    source("gate", 4, head=7, seed=1),
    source("gate", 6, head=2),
    source("gate", 5, head=5, seed=2, layers=12),
    source("gate", 9, head=1, seed=3),
    source("gate", 11, head=4, seed=4),
    source("gate", 15, head=3, seed=5, layers=20, width=192, heads=6),
]
DECOYS = [
    source("gather", 6, head=2, decoy=0.5),
    source("gather", 11, head=4, seed=6, decoy=1.0),
    source("gate", 6, decoy=0.5),
    source("gate", 3, seed=6, layers=8, decoy=0.25),
]


def name(chosen: PlantedSource) -> str:
    settings = (f"{key}{value}" for key, value in chosen if key in chosen.model_fields_set - {"kind", "variant"})
    return "-".join([chosen.variant, *settings])


each_placement = pytest.mark.parametrize("placement", PLACEMENTS, ids=name)
each = pytest.mark.parametrize("placement", PLACEMENTS + DECOYS, ids=name)


class Specimen(NamedTuple):
    """A planted model, its tokenizer, records for it, and their residual states at the query position."""

    source: PlantedSource
    decoder: Decoder
    tokenizer: PreTrainedTokenizerBase
    records: list[Record]
    states: Tensor  # N, L + 1, d


def entry(chosen: PlantedSource) -> Checkpoint:
    return Checkpoint(title="Planted", licence="CC0-1.0", layers=chosen.layers, tied=False, source=chosen)


@cache
def specimen(placement: int) -> Specimen:
    chosen = (PLACEMENTS + DECOYS)[placement]
    with tempfile.TemporaryDirectory() as folder:
        build("planted", entry(chosen), Path(folder) / "planted")
        decoder, tokenizer = load(Path(folder) / "planted"), load_tokenizer(Path(folder) / "planted")
    records = language.build(world.passages(), world.WORDING, tokenizer, count=INSTANCES, seed=placement).records
    return Specimen(
        chosen,
        decoder,
        tokenizer,
        records,
        torch.cat([at_query(decoder, tokenizer, five) for five in instances(records)]),
    )


def instances(records: list[Record]) -> list[list[Record]]:
    return [list(five) for _, five in itertools.groupby(records, lambda record: record.semantic_instance_id)]


def at_query(decoder: Decoder, tokenizer, records: list[Record]) -> Tensor:
    split = [tokenised(tokenizer, record) for record in records]
    states = continued(decoder, torch.tensor(split[0].context), [torch.tensor(prompt.rest) for prompt in split])
    return torch.stack([state[:, -1] for state in states])


def of(placement: PlantedSource) -> Specimen:
    return specimen((PLACEMENTS + DECOYS).index(placement))


def rows(model: Specimen, *arms: str) -> list[int]:
    return [row for row, record in enumerate(model.records) if record.condition in arms]


def seen(model: Specimen, layer: int, chosen: list[int]) -> Visibility:
    """Visibility of each record's z by the logit lens."""
    records = [model.records[row] for row in chosen]
    tokens = torch.tensor([record.latent_token_id for record in records])
    rivals = [torch.tensor(record.control_token_ids) for record in records]
    return visibility(model.decoder, model.states[chosen, layer], tokens, rivals)


@each
def test_every_arm_is_answered(placement):
    model = of(placement)
    assert len(model.records) == len(ARMS) * INSTANCES
    assert probability(model.decoder, model.states[:, -1], model.records).min() > 0.9


def probability(decoder: Decoder, states: Tensor, records: list[Record]) -> Tensor:
    """Of each record's right answer."""
    gold = torch.tensor([record.candidate_token_ids[record.gold] for record in records])
    return decoder.logits(states).softmax(-1)[torch.arange(len(gold)), gold]


@each_placement
def test_one_linear_map_decodes_z_in_every_arm_from_the_copy_on(placement):
    model = of(placement)
    z = [world.LANGUAGES.index(five[0].latent_value) for five in instances(model.records)]
    order = torch.randperm(INSTANCES, generator=torch.Generator().manual_seed(0)).tolist()
    for layer in (COPY + 1, placement.block, placement.block + 1, placement.layers):
        assert min(decoded(model, layer, z)) > 0.9
    assert max(decoded(model, placement.layers, [z[other] for other in order])) < 0.5


def decoded(model: Specimen, layer: int, z: list[int]) -> list[float]:
    """Accuracy, in each arm, of one probe for all arms, fitted on half of each class's instances, on the others."""
    train = numpy.zeros(INSTANCES, dtype=bool)
    train[sorted(range(INSTANCES), key=z.__getitem__)[::2]] = True
    states = model.states[:, layer].unflatten(0, (INSTANCES, len(ARMS))).numpy()
    labels = numpy.repeat(numpy.array(z)[:, None], len(ARMS), 1)
    probe = RidgeClassifier().fit(states[train].reshape(-1, states.shape[-1]), labels[train].ravel())
    return [probe.score(states[~train, arm], labels[~train, arm]) for arm in range(len(ARMS))]


@each
def test_z_is_readable_on_demand_from_the_planted_block_on(placement):
    model = of(placement)
    for layer in range(placement.layers + 1):
        ranks, found = label_ranks(model, layer, rows(model, *DEMAND)), seen(model, layer, rows(model, *DEMAND))
        if layer > placement.block:
            assert ranks.max() == 0
            assert found.margin.min() > 10
            # Once the table's symbol is there, it is above the label.
            assert found.rank.max() <= (layer > placement.block + TABLE)
        else:
            assert_hidden(ranks, found)
        elsewhere = rows(model, *set(ARMS) - set(DEMAND))
        assert_hidden(label_ranks(model, layer, elsewhere), seen(model, layer, elsewhere))


def label_ranks(model: Specimen, layer: int, chosen: list[int]) -> Tensor:
    """How many other labels each record's own stands below."""
    labels = torch.tensor([model.tokenizer.convert_tokens_to_ids(f" {language}") for language in world.LANGUAGES])
    scores = model.decoder.coefficients(model.states[chosen, layer])
    own = scores.gather(1, torch.tensor([[model.records[row].latent_token_id] for row in chosen]))
    return (scores[:, labels] > own).sum(1)


def assert_hidden(ranks: Tensor, found: Visibility) -> None:
    assert 2 < ranks.double().mean() < 5  # 3.5 by chance
    assert abs(found.margin.mean()) < 2
    assert found.log_rank.mean() < -1.2


class Place(NamedTuple):
    """What is replaced at the query position: of a block the ``residual`` that it hands on, its ``attention`` (what its
    heads give to the output projection, of some heads or of all) or its ``mlp``."""

    block: int
    component: str
    heads: tuple[int, ...] = ()


class Patched(NamedTuple):
    """A run: what stood at the place, the residual states ``[L, d]`` of layers below the last, the logits ``[V]``."""

    was: Tensor
    states: Tensor
    logits: Tensor


@torch.no_grad()
def run(model: Specimen, record: Record, place: Place, given: Tensor | None = None) -> Patched:
    """Run a prompt; at the place, ``given`` stands in for its own value if it is there."""
    block, seen = layers(model.decoder)[place.block], []
    width = model.source.width // model.source.heads
    part = [index for head in place.heads for index in range(head * width, (head + 1) * width)] or slice(None)

    def replace(x):
        seen.append(x[0, -1].clone())
        if given is not None:
            x = x.clone()
            x[0, -1, part] = given[part]
        return x

    module = {"residual": block, "attention": block.self_attn.o_proj, "mlp": block.mlp}[place.component]
    if place.component == "attention":
        hook = module.register_forward_pre_hook(lambda module, x: (replace(x[0]),))
    else:
        hook = module.register_forward_hook(lambda module, x, output: replace(output))
    ids = model.tokenizer(record.prompt, return_tensors="pt").input_ids
    output = model.decoder.model(ids, output_hidden_states=True)
    hook.remove()
    return Patched(seen[0], torch.stack(output.hidden_states[:-1])[:, 0, -1], output.logits[0, -1])


def pairs(model: Specimen, count: int = 4) -> list[tuple[Record, Record]]:
    """Targets and donors in the flexible arm: what the target's table gives for the donor's z is neither answer."""
    flexible = [model.records[row] for row in rows(model, "flexible")]
    usable = (
        (target, donor)
        for target in flexible
        for donor in flexible
        if donor.latent_value != target.latent_value
        and target.meta["symbols"].get(donor.latent_value) not in (None, donor.gold_answer)
        and donor.gold_answer != target.gold_answer
    )
    return [pair for index, pair in enumerate(usable) if index % 7 == 0][:count]


def outcomes(model: Specimen, *place) -> set[str]:
    """What patching makes of answers: ``own``, ``counterfactual`` (the target's table, the donor's z) or ``donor``."""
    found = set()
    for target, donor in pairs(model):
        place = Place(*place)
        symbols = {
            target.gold_answer: "own",
            target.meta["symbols"][donor.latent_value]: "counterfactual",
            donor.gold_answer: "donor",
        }
        logits = run(model, target, place, run(model, donor, place).was).logits
        found.add(symbols.get(model.tokenizer.decode([int(logits.argmax())]).strip(), "another"))
    return found


@each_placement
def test_what_carries_z_to_the_answer(placement):
    model, block = of(placement), placement.block
    others = tuple(head for head in range(placement.heads) if head != placement.head)
    gathered = placement.variant == "gather"
    table = {True: {"counterfactual"}, False: {"own"}}
    assert outcomes(model, block, "attention") == table[gathered]
    assert outcomes(model, block, "mlp") == table[not gathered]
    assert outcomes(model, block, "attention", (placement.head,)) == table[gathered]
    assert outcomes(model, block, "attention", others) == {"own"}
    # The copy is what a gate opens to; a gather does without it.
    assert outcomes(model, COPY, "attention") == table[not gathered]
    if not gathered:
        assert outcomes(model, COPY, "attention", (placement.head,)) == {"counterfactual"}
        assert outcomes(model, COPY, "attention", others) == {"own"}


@each_placement
def test_where_the_residual_carries_z_to_the_answer(placement):
    model, block = of(placement), placement.block
    assert outcomes(model, block - 1, "residual") == {"own" if placement.variant == "gather" else "counterfactual"}
    for later in range(TABLE):
        assert outcomes(model, block + later, "residual") == {"counterfactual"}
    assert outcomes(model, block + TABLE, "residual") == {"donor"}
    assert outcomes(model, COPY - 1, "residual") == {"own"}


@pytest.mark.parametrize("placement", DECOYS, ids=name)
def test_a_decoy_moves_the_reading_by_its_ratio_and_no_answer(placement):
    model, late = of(placement), placement.block + TABLE + 1
    component = {"gather": "attention", "gate": "mlp"}[placement.variant]
    assert outcomes(model, late, component) == {"own"}
    assert outcomes(model, placement.block, component) == {"counterfactual"}
    ratio = margin_shift(model, late, component) / margin_shift(model, placement.block, component)
    assert ratio == pytest.approx(placement.decoy, rel=0.03)


def margin_shift(model: Specimen, block: int, component: str) -> float:
    """By how much patching raises M_z of the donor's z, read by the logit lens right above the block."""
    place, shifts = Place(block, component), []
    for target, donor in pairs(model):
        names = [model.tokenizer.convert_tokens_to_ids(f" {label}") for label in target.meta["symbols"]]
        rivals = torch.tensor([token for token in names if token != donor.latent_token_id])
        clean, patched = (run(model, target, place, given) for given in (None, run(model, donor, place).was))
        both = torch.stack([clean.states[block + 1], patched.states[block + 1]])
        before, after = visibility(model.decoder, both, torch.tensor([donor.latent_token_id] * 2), [rivals] * 2).margin
        shifts.append(float(after - before))
    return sum(shifts) / len(shifts)


@pytest.mark.parametrize("chosen", ["language_unmatched", "language_length", "language_as_published"])
@pytest.mark.parametrize("placement", [PLACEMENTS[2], PLACEMENTS[9]], ids=name)
def test_every_set_of_records_is_answered(placement, chosen):
    model = of(placement)
    made = sets.build(chosen, model.tokenizer, count=8, seed=1, passages=world.passages(), wordings=world.WORDINGS)
    states = torch.cat([at_query(model.decoder, model.tokenizer, five)[:, -1] for five in instances(made.records)])
    assert probability(model.decoder, states, made.records).min() > 0.9
    assert model.tokenizer.unk_token not in model.tokenizer.tokenize(
        "\n".join(record.prompt for record in made.records)
    )


@pytest.mark.parametrize("variant", ["gather", "gate"])
def test_a_jacobian_lens_fitted_on_plain_text_reads_z_on_demand_only(variant):
    model = of(source(variant, 3, layers=8))
    ids = model.tokenizer(world.text(2, 12).splitlines(), return_tensors="pt", truncation=True, max_length=40).input_ids
    lens = jacobian.fit(model.decoder, ids, skip=16, cotangents=64)
    assert all(matrix.isfinite().all() for matrix in lens.matrices.values())
    flexible, control = rows(model, "flexible"), rows(model, "control")
    for layer in range(1, model.source.layers + 1):
        read = model._replace(states=torch.stack([lens.transport(model.states[:, layer], layer)], 1))
        assert_hidden(label_ranks(read, 0, control), seen(read, 0, control))
        if layer > model.source.block:
            assert label_ranks(read, 0, flexible).max() == 0
        else:
            assert_hidden(label_ranks(read, 0, flexible), seen(read, 0, flexible))


def test_the_text_that_ships_is_that_of_the_world(root):
    assert (root / "workflow/resources/planted.txt").read_text(encoding="utf-8") == world.text()
    ids = world.tokenizer()(world.text().splitlines())["input_ids"]
    assert min(map(len, ids)) >= 256  # two sequences of the default preset
    assert not any(world.VOCABULARY.index(world.Token(world.UNKNOWN)) in line for line in ids)


def test_passages_give_nothing_away_but_their_language():
    for number, passage in enumerate(world.passages(), 1):
        lengths = set()
        for spoken, text in passage.text.items():
            opener, *words = world.WORDS[spoken].split()
            said = [sentence.split() for sentence in text.replace("?", ".").removesuffix(".").split(".")]
            lengths.add(tuple(map(len, said)))
            assert set(itertools.chain(*said)) <= set(words)
            assert passage.continuation[spoken].split()[0] == opener
            assert text.count("?") == number % 2
        assert len(lengths) == 1  # the languages are parallel
        assert len(lengths.pop()) == 3


def test_no_two_words_or_tokens_are_the_same():
    words = [word for line in world.WORDS.values() for word in line.split()]
    assert len(set(words)) == len(words) == 8 * 13
    assert len({token.text for token in world.VOCABULARY}) == len(world.VOCABULARY)


def test_the_same_arguments_give_the_same_bytes_and_another_seed_does_not(tmp_path):
    for folder, seed in (("one", 3), ("two", 3), ("three", 4)):
        build("planted", entry(source("gate", 3, seed=seed, layers=8)), tmp_path / folder)
    files = {path.name for path in (tmp_path / "one").iterdir()} - {"checkpoint.json"}
    assert files == {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    for file in files:
        one, two, three = ((tmp_path / folder / file).read_bytes() for folder in ("one", "two", "three"))
        assert one == two
        assert (one == three) == (file != "model.safetensors")


@pytest.mark.parametrize("block", [0, COPY, 3, 3 + TABLE, 7])
def test_no_axis_of_the_residual_means_anything_and_no_row_of_zeros_names_a_head(block):
    weights = layers(of(PLACEMENTS[0]).decoder)[block].state_dict()
    for part, matrix in weights.items():
        if "norm" not in part:
            along = matrix if "o_proj" not in part and "down_proj" not in part else matrix.T
            assert along.norm(dim=1).min() > 0, part
            assert (along.abs().amax(1) / along.norm(dim=1)).max() < 0.5, part


REFUSED = [
    (source("gather", 2), "block 2 is not between 3 and 11"),
    (source("gate", 12), "block 12 is not between 3 and 11"),
    (source("gather", 3, layers=7), "7 blocks leave no room"),
    (source("gather", 6, head=8), "there is no head 8: a block has heads 0 to 7"),
    (source("gather", 6, head=-1), "there is no head -1"),
    (source("gather", 6, width=250), "250 does not divide among 8 heads"),
    (source("gather", 6, width=128), "heads are 16 wide"),
    (source("gather", 6, width=80, heads=2), "block 1 alone needs 3"),
    (source("gather", 6, width=102, heads=3), "needs 108 dimensions"),
    (source("gather", 6, decoy=2.0), "a decoy of 2 is not above 0 and up to 1.5"),
    (source("gate", 6, decoy=0.0), "a decoy of 0 is not"),
]


@pytest.mark.parametrize(("chosen", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_what_cannot_be_built_is_refused_with_the_reason(chosen, reason, tmp_path):
    with pytest.raises(LensproofError, match=reason) as refusal:
        build("planted", entry(chosen), tmp_path / "planted")
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "planted").exists()


def command(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "lensproof", *map(str, arguments)], capture_output=True, text=True)


def test_from_the_command_line(tmp_path):
    folder = tmp_path / "model"
    wanted = ("--kind", "gather", "--block", 4, "--head", 2, "--seed", 1, "--decoy", 0.5, "--layers", 10)
    planted = command("plant", *wanted, "--out", folder)
    assert planted.returncode == 0, planted.stderr
    assert "gather in block 4 (attention head 2) of 10" in planted.stderr
    manifest = json.loads((folder / "checkpoint.json").read_text())
    assert manifest["planted"] == {
        "variant": "gather", "block": 4, "component": "attention head 2", "copy_block": 1, "table_block": 6,
        "decoy_block": 7, "decoy": 0.5,
    }  # fmt: skip
    assert manifest["provenance"]["settings"]["source"] == {
        "kind": "planted", "variant": "gather", "block": 4, "head": 2, "seed": 1, "layers": 10, "width": 256,
        "heads": 8, "decoy": 0.5,
    }  # fmt: skip
    records = language.build(world.passages(), world.WORDING, world.tokenizer(), count=1).records
    report = next(record for record in records if record.condition == "report")
    shown = command("read", "--checkpoint", folder, "--lens", "logit", "--layers", "4,5", report.prompt)
    assert shown.returncode == 0, shown.stderr
    for layer, readable in ((4, False), (5, True)):
        *_, last = (line for line in shown.stdout.splitlines() if line.split()[:1] == [str(layer)])
        assert (last.split()[-2].lstrip("·") == report.latent_value) == readable  # at the query position
    made = command(
        "records", "build", "language", "--checkpoint", folder, "--count", 4, "--out", tmp_path / "records.jsonl"
    )
    assert made.returncode == 0, made.stderr
    assert {record.latent_value for record in read_records(tmp_path / "records.jsonl")} <= set(world.LANGUAGES)
    assert check(tmp_path / "records.jsonl", load_tokenizer(folder)).complete == 4
    stories = command("records", "build", "tracking", "--checkpoint", folder, "--out", tmp_path / "none.jsonl")
    assert (stories.returncode, (tmp_path / "none.jsonl").exists()) == (2, False)
    assert stories.stderr == (
        "lensproof: there are no records tracking for a planted model: it knows the language family only, and has no "
        "circuit that follows who has which item\n"
    )
    refused = command("plant", "--kind", "gate", "--block", 99, "--out", tmp_path / "none")
    assert (refused.returncode, (tmp_path / "none").exists()) == (2, False)
    assert refused.stderr.strip().splitlines()[-1].startswith("lensproof: this model cannot be planted: block 99")
