"""Five-arm adapters: what they are trained on, their training and its end, the choice, and the merged model."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
import time
from collections import Counter

import benchmark_world
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file

from lensproof.checkpoints import registry
from lensproof.checkpoints.build import build
from lensproof.checkpoints.load import load, load_tokenizer
from lensproof.config import Checkpoint, RandomSource
from lensproof.corpora.benchmark import passages, sets
from lensproof.corpora.benchmark.passages import Passage
from lensproof.errors import LensproofError
from lensproof.files import read_json, read_provenance, read_safetensors
from lensproof.specimens.adapters import lora, selection, training
from lensproof.specimens.adapters.answers import accuracies, answer_logits, of_like_length
from lensproof.specimens.adapters.produce import FILE, produce
from lensproof.specimens.adapters.prompts import HELD_BACK, SHARES, divide, material, prompt, sentences
from lensproof.specimens.adapters.selection import CEILING, EVERY, FLOOR, NEAR, OFTEN, PATIENCE, Validation
from lensproof.specimens.adapters.training import SAVED, Settings, batch, rate_at, train
from lensproof.specimens.planted import world
from lensproof.specimens.tiny import random_model

SMALL = Settings(steps=EVERY + 4, rank=2, instances=3, validation=4, rate=0.01)


def spoken():
    """24 passages for training, and four that are not."""
    return [
        dataclasses.replace(one, training=number < passages.TRAINING)
        for number, one in enumerate(benchmark_world.passages(28))
    ]


def entry(source, layers=2, tied=True):
    return Checkpoint(title="A toy", licence="CC0-1.0", layers=layers, tied=tied, source=source)


def checkpoint(folder, architecture="llama", **sizes):
    """A tiny random model that knows the words of the benchmark's made-up world."""
    tokenizer = benchmark_world.tokenizer()
    sizes = {"vocabulary": len(tokenizer), "layers": 2, **sizes}
    source, made = RandomSource(kind="random", architecture=architecture, **sizes), folder / "source"
    random_model(source).save_pretrained(made)
    tokenizer.save_pretrained(made)
    build("toy", entry({"kind": "path", "path": str(made)}, sizes["layers"]), folder / "toy")
    return folder / "toy"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return checkpoint(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def gemma(tmp_path_factory):
    """Its window is shorter than a context."""
    return checkpoint(tmp_path_factory.mktemp("gemma"), "gemma3_text")


@pytest.fixture(scope="module")
def given():
    return material(benchmark_world.tokenizer(), spoken(), instances=3, validation=4, seed=0)


def fresh(folder, settings=SMALL):
    return lora.wrap(load(folder).model, settings.rank, settings.seed, "toy")


def stirred(wrapped, seed=1):
    """The adapter's weights drawn at random, so that it changes the model."""
    generator = torch.Generator().manual_seed(seed)
    lora.put(wrapped, {n: 0.3 * torch.randn(t.shape, generator=generator) for n, t in lora.tensors(wrapped).items()})
    return wrapped


def prompts(instances):
    return [one for group in instances for one in group]


def trained_on(given):
    return [one for instances in given.training.values() for one in prompts(instances)]


def whole(one):
    """A prompt's ids as a batch of one."""
    return torch.tensor([one.context + one.rest])


# What it is trained on


def test_passages_that_are_not_for_training_play_no_part(given):
    everything = spoken()
    training = [one for one in everything if one.training]
    assert len(training) == passages.TRAINING < len(everything)
    tokenizer = benchmark_world.tokenizer()
    assert material(tokenizer, training, instances=3, validation=4, seed=0) == given
    known = {one.id for one in training}
    # A passage of one sentence is called after the one that it is of.
    trained = {one.passage.partition(".")[0] for one in trained_on(given)}
    assert trained - {""} <= set(given.trained_on) < known
    validated = {one.passage for instances in given.validation.values() for one in prompts(instances)}
    assert validated - {""} <= set(given.validated_on) < known
    assert not set(given.trained_on) & set(given.validated_on)


def test_as_many_passages_with_a_question_as_without_are_held_back():
    train, validate = divide(spoken())
    assert len(train) + len(validate) == passages.TRAINING == HELD_BACK * len(validate)
    for part in (train, validate):
        assert sum(one.question("French") for one in part) == len(part) / 2


def test_our_own_passages_are_divided_alike():
    train, validate = divide(passages.load(passages.OWN))
    assert [one.id for one in validate] == ["08", "16", "24", "07", "15", "23"]
    assert {one.id for one in train} | {one.id for one in validate} == {f"{number:02d}" for number in range(1, 25)}


def test_too_few_training_passages_are_refused():
    tests = [dataclasses.replace(one, training=False) for one in spoken()]
    with pytest.raises(LensproofError, match="0 training passages have a question and 0 have none, 4 of each"):
        material(benchmark_world.tokenizer(), tests, instances=1, validation=1, seed=0)


def test_every_arm_and_both_families_are_trained_on(given):
    assert set(given.training) == set(SHARES)
    arms = {name: Counter(one.arm for one in prompts(instances)) for name, instances in given.training.items()}
    assert set(arms["language"]) == {"automatic", "report", "flexible", "control", "supplied"}
    assert set(arms["tracking_1swap"]) == {"automatic", "report", "flexible", "control"}
    assert arms["language"]["flexible"] == len(given.training["language"]) == 3 * SHARES["language"]
    for group in given.training["language"]:
        assert len({one.id.rpartition("-")[0] for one in group}) == 1
        assert all(one.context == group[0].context for one in group)


def test_no_training_story_is_one_of_a_run(given):
    """Stories are made of no passages: their draws alone keep them apart from the records of a run."""
    tokenizer = benchmark_world.tokenizer()
    run = sets.build("tracking_1swap", tokenizer, count=200, seed=0).records
    theirs = {tuple(prompt(tokenizer, record).context) for record in run}
    ours = {tuple(one.context) for one in trained_on(given) if one.family == "tracking"}
    validated = {tuple(group[0].context) for group in given.validation["tracking_1swap"]}
    assert not ours & theirs
    assert not validated & theirs
    assert not validated & ours


def test_batches_are_drawn_by_weight_and_depend_on_the_step_alone(given):
    settings = Settings(batch=8000)
    found = batch(given, settings, 3, selection.WEIGHTS)
    assert found == batch(given, settings, 3, selection.WEIGHTS)
    assert found[:50] != batch(given, settings, 4, selection.WEIGHTS)[:50]
    assert len(found) == 4000
    assert all(len({one.arm for one in group}) == len(group) == 2 for group in found)
    language = Counter(one.arm for group in found for one in group if one.family == "language")
    assert 0.87 < language.total() / 8000 < 0.93
    assert 1.8 < language["flexible"] / language["control"] < 2.2
    assert 0.9 < language["report"] / language["control"] < 1.1
    without = prompts(batch(given, settings, 3, {"flexible": 1, "control": 1}))
    assert {one.arm for one in without if one.family == "language"} == {"flexible", "control"}
    assert {one.arm for one in without if one.family == "tracking"} == {"automatic", "report", "flexible", "control"}


# What a model answers


@pytest.mark.parametrize("architecture", ["base", "gemma"])
def test_padding_and_shared_contexts_change_no_answer_and_no_gradient(architecture, given, request):
    wrapped = stirred(fresh(request.getfixturevalue(architecture)))
    weights = [part for part in wrapped.parameters() if part.requires_grad]
    instances = [given.validation["language"][0], given.validation["tracking"][0], given.validation["language"][1][:2]]
    group = prompts(instances)
    assert len({len(one.context) for one in group}) > 1
    assert len({len(one.rest) for one in group}) > 1
    shared = answer_logits(wrapped, instances)
    alone = torch.cat([wrapped(whole(one)).logits[:, -1] for one in group])
    torch.testing.assert_close(shared, alone, rtol=1e-4, atol=1e-4)
    gradients = [torch.autograd.grad(found.logsumexp(-1).sum(), weights) for found in (shared, alone)]
    for ours, theirs in zip(*gradients, strict=True):
        assert theirs.norm() > 0
        assert (ours - theirs).norm() < 1e-4 * theirs.norm()
    right = Counter(
        one.arm
        for one, logits in zip(group, alone, strict=True)
        if max(one.candidates, key=lambda token: logits[token]) == one.answer
    )
    total = Counter(one.arm for one in group)
    assert accuracies(wrapped, instances) == {arm: right[arm] / total[arm] for arm in total}


def test_groups_that_run_at_once_hold_every_instance_once(given):
    instances = [*given.training["tracking_1swap"], *given.training["language"]]
    found = list(of_like_length(instances))
    assert sorted(prompts(prompts(found))) == sorted(prompts(instances))
    lengths = [len(group[0].context) for group in prompts(found)]
    assert lengths == sorted(lengths)


# Training


def test_a_fresh_adapter_changes_nothing_and_the_first_loss_is_that_of_the_answers(base, given, tmp_path):
    plain = load(base).model
    chosen = prompts(batch(given, SMALL, 0, selection.WEIGHTS))
    expected = [
        -plain(whole(one)).logits[0, -1].log_softmax(-1)[one.answer].item() for one in chosen
    ]  # fmt: skip
    found = train(fresh(base), given, dataclasses.replace(SMALL, steps=1), tmp_path / "t.safetensors", {})
    assert found.losses == [pytest.approx(sum(expected) / len(expected), rel=1e-5)]
    assert [validation.step for validation in found.curve] == [0, 1]
    assert found.curve[0].accuracy == accuracies(plain, given.validation["language"])


def test_the_loss_falls_and_only_the_adapter_is_trained(base, given, tmp_path):
    wrapped = fresh(base)
    before = {name: part.clone() for name, part in wrapped.named_parameters() if "lora" not in name}
    found = train(wrapped, given, SMALL, tmp_path / "training.safetensors", {})
    assert sum(found.losses[-4:]) < 0.85 * sum(found.losses[:4])
    after = dict(wrapped.named_parameters())
    assert all(torch.equal(after[name], part) for name, part in before.items())


@pytest.mark.parametrize("killed_at", [SAVED - 3, SAVED, EVERY - 3, EVERY + 2])
def test_a_killed_training_goes_on_to_the_same_adapter(base, given, tmp_path, monkeypatch, killed_at):
    monkeypatch.setattr(selection, "FLOOR", 0.0)  # so that there is a checkpoint to keep, and arms over the ceiling
    monkeypatch.setattr(selection, "CEILING", 0.3)
    monkeypatch.setattr(selection, "finished", lambda curve: False)
    through = train(fresh(base), given, SMALL, tmp_path / "through.safetensors", {"x": 1})
    steps = iter(range(killed_at))
    step = training._take_step
    with monkeypatch.context() as patch:
        patch.setattr(training, "_take_step", lambda *rest: (next(steps), step(*rest))[1])
        with pytest.raises(StopIteration):
            train(fresh(base), given, SMALL, tmp_path / "killed.safetensors", {"x": 1})
    assert (tmp_path / "killed.safetensors").exists() == (killed_at >= SAVED)
    resumed = train(fresh(base), given, SMALL, tmp_path / "killed.safetensors", {"x": 1})
    assert (resumed.losses, resumed.curve, resumed.step) == (through.losses, through.curve, SMALL.steps)
    assert through.kept
    whole, again = (read_safetensors(tmp_path / f"{name}.safetensors") for name in ("through", "killed"))
    assert whole.keys() == again.keys()
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_training_stops_at_the_checkpoint_that_is_looked_for(base, given, tmp_path, monkeypatch):
    monkeypatch.setattr(selection, "FLOOR", 0.0)
    monkeypatch.setattr(selection, "CEILING", 1.0)
    path = tmp_path / "training.safetensors"
    found = train(fresh(base), given, SMALL, path, {})
    assert (found.step, len(found.losses), found.curve[-1].step) == (EVERY, EVERY, EVERY)
    assert all(torch.equal(found.kept[name], part) for name, part in found.adapter.items())
    before = path.read_bytes()
    assert train(fresh(base), given, SMALL, path, {}).step == EVERY
    assert path.read_bytes() == before


def test_a_training_of_something_else_is_not_gone_on_with(base, given, tmp_path):
    path = tmp_path / "training.safetensors"
    train(fresh(base), given, dataclasses.replace(SMALL, steps=1), path, {"rate": 0.01})
    with pytest.raises(LensproofError, match=r"a training with rate 0\.01, not 0\.02"):
        train(fresh(base), given, SMALL, path, {"rate": 0.02})


def test_a_loss_that_is_not_finite_says_so(base, given, tmp_path):
    wrapped = fresh(base)
    lora.put(wrapped, {name: torch.full_like(part, torch.nan) for name, part in lora.tensors(wrapped).items()})
    with pytest.raises(LensproofError, match="the loss is not finite"):
        train(wrapped, given, SMALL, tmp_path / "training.safetensors", {})


# The choice


def curve(*rows):
    """Validations from rows of step, flexible, report, control and supplied."""
    return [Validation(row[0], dict(zip(("flexible", *selection.OTHERS), row[1:], strict=True))) for row in rows]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(0, 0.25, 0.5, 0.5, 0.3), (20, 0.89, 0.95, 0.95, 0.95)], None),  # flexible is below the floor
        ([(20, 0.90, 0.985, 0.95, 0.95), (30, 0.95, 0.95, 0.95, 0.95)], 0),  # both ends are inside; the first is kept
        ([(20, 0.91, 1.0, 1.0, 1.0), (30, 0.95, 0.97, 1.0, 1.0), (40, 0.96, 0.97, 1.0, 1.0)], 1),  # fewer outside
        ([(20, 0.95, 1.0, 0.95, 0.95), (30, 0.95, 0.99, 0.95, 0.95)], 1),  # as many, by less
        ([(20, 0.95, 0.80, 0.95, 0.95), (30, 0.95, 1.0, 1.0, 1.0)], 1),  # an arm that is not learnt is worst
        ([(20, 1.0, 0.95, 0.95, 0.95), (30, 0.97, 1.0, 1.0, 1.0)], 1),  # flexible comes first
        ([(20, 1.0, 0.95, 0.95, 0.95), (30, 0.99, 1.0, 1.0, 1.0), (40, 0.99, 1.0, 1.0, 1.0)], 1),  # never inside
        ([(0, 0.95, 0.95, 0.95, 0.95)], None),  # without an adapter
    ],
)
def test_the_first_checkpoint_inside_the_band_is_kept(rows, expected):
    assert selection.kept(curve(*rows)) == expected


def test_training_ends_with_all_inside_or_when_nothing_better_comes():
    inside, ceiling = (0.95, 0.95, 0.95, 0.95), (0.95, 1.0, 1.0, 1.0)
    assert selection.finished(curve((20, *inside)))
    assert not selection.finished(curve((20, *ceiling)))
    assert not selection.finished(curve((20, *ceiling), (20 + PATIENCE - 1, *ceiling)))
    assert selection.finished(curve((20, *ceiling), (20 + PATIENCE, *ceiling)))
    assert not selection.finished(curve((20, 0.5, *inside[1:]), (500, 0.5, *inside[1:])))
    unlearnt = (0.95, 0.95, 0.5, 0.95)
    assert not selection.finished(curve((20, *unlearnt), (20 + PATIENCE, *unlearnt)))


def test_arms_over_the_ceiling_are_drawn_seldom_until_they_are_below():
    assert selection.weights([]) == selection.WEIGHTS
    over = Validation(20, {"automatic": CEILING, "report": 1.0, "flexible": 0.3, "control": 0.99, "supplied": FLOOR})
    seldom = {"report": selection.KNOWN, "control": selection.KNOWN}
    assert selection.weights([over]) == {**selection.WEIGHTS, **seldom}
    below = Validation(40, {**over.accuracy, "report": 0.9})
    assert selection.weights([over, below])["report"] == selection.WEIGHTS["report"] > selection.KNOWN


def test_the_learning_rate_rises_is_held_twice_and_falls():
    rates = [rate_at(step, Settings(steps=300, rate=1.0)) for step in range(300)]
    assert rates[:20] == pytest.approx([(step + 1) / 20 for step in range(20)])
    assert rates[20:100] == [1.0] * 80
    assert rates[100:240] == pytest.approx([0.4] * 140)
    assert rates[240:] == pytest.approx([0.4 * (300 - step) / 60 for step in range(240, 300)])


def test_sentences_stand_alone_and_the_next_one_continues_them():
    text = {"Danish": "En to? Tre fire. Fem seks!", "Finnish": "Yksi. Kaksi. Kolme."}
    whole = Passage("01", text, {"Danish": "Syv.", "Finnish": "Neljä."}, training=True)
    found = sentences([whole, dataclasses.replace(whole, id="02", text={**text, "Finnish": "Yksi. Kaksi."})])
    assert [one.id for one in found] == ["01.0", "01.1", "01.2"]  # those of 02 are not aligned
    assert [one.text["Danish"] for one in found] == ["En to?", "Tre fire.", "Fem seks!"]
    assert [one.continuation["Finnish"] for one in found] == ["Kaksi.", "Kolme.", "Neljä."]
    assert all(one.training for one in found)


def test_validations_come_oftener_when_the_flexible_arm_is_near():
    far, near = curve((EVERY, NEAR - 0.01, 1, 1, 1)), curve((EVERY, NEAR, 1, 1, 1))
    assert not selection.due(far, EVERY + OFTEN, 100)
    assert selection.due(near, EVERY + OFTEN, 100)
    assert selection.due(far, 2 * EVERY, 100)
    assert selection.due(far, 97, 97)


# The adapter's file


def test_an_adapter_that_is_too_large_is_refused_and_told_what_fits(base, monkeypatch):
    monkeypatch.setattr(lora, "LARGEST", 20_000)
    with pytest.raises(LensproofError, match=r"an adapter of rank 16 takes .* rank (\d+) would fit") as error:
        fresh(base, Settings(rank=16))
    fits = int(str(error.value).split("rank ")[-1].split()[0])
    fresh(base, Settings(rank=fits))
    with pytest.raises(LensproofError, match="would fit"):
        fresh(base, Settings(rank=fits + 1))


def test_weights_that_float16_cannot_hold_are_refused():
    with pytest.raises(LensproofError, match="a has an entry that float16 cannot hold"):
        lora.half({"a": torch.tensor([7e4])})


def shipped(folder, base, **changes):
    """A random adapter of the model in ``base``, as a folder."""
    wrapped = stirred(fresh(base))
    lora.write(
        folder, wrapped, lora.half(lora.tensors(wrapped)), {"weights": read_json(base / "checkpoint.json")["sha256"]}
    )
    if changes:
        (folder / lora.CONFIG).write_text(json.dumps({**read_json(folder / lora.CONFIG), **changes}))
    return folder


def adapted(folder):
    return entry({"kind": "adapted", "of": "toy", "adapter": str(folder)})


@pytest.mark.parametrize("architecture", ["base", "gemma"])
def test_the_merged_model_is_pefts_unmerged_one(architecture, tmp_path, request):
    folder = request.getfixturevalue(architecture)
    adapter = shipped(tmp_path / "adapter", folder)
    manifest = build("merged", adapted(adapter), tmp_path / "merged", base=folder)
    ids = torch.randint(2, 300, (2, 40), generator=torch.Generator().manual_seed(0))
    plain, theirs = load(folder).model, PeftModel.from_pretrained(load(folder).model, adapter)
    ours = load(tmp_path / "merged").model
    expected = theirs(ids).logits
    torch.testing.assert_close(ours(ids).logits, expected, rtol=1e-4, atol=1e-4)
    assert (plain(ids).logits - expected).abs().max() > 0.1
    made = manifest["adapted"]
    assert made["base"] == read_json(folder / "checkpoint.json")["sha256"] != manifest["sha256"]
    assert made["configuration"]["r"] == SMALL.rank
    assert len(made["adapter"]) == 64
    assert load_tokenizer(tmp_path / "merged").get_vocab() == load_tokenizer(folder).get_vocab()


def test_adapters_of_other_models_are_refused(base, gemma, tmp_path):
    deeper, wider = checkpoint(tmp_path / "deeper", layers=3), checkpoint(tmp_path / "wider", width=64)
    adapters = {name: anonymous(shipped(tmp_path / name, of)) for name, of in (("llama", base), ("deep", deeper))}
    for target, name, words in (
        (deeper, "llama", r"layers\.2\S+ is missing in it and \(2, 96\) in this model"),
        (base, "deep", r"layers\.2\S+ is \(2, 96\) in it and missing in this model"),
        (wider, "llama", r"layers\.0\S+ is \(2, 96\) in it and \(2, 192\) in this model"),
    ):
        with pytest.raises(LensproofError, match=f"is an adapter for another model: .*{words}"):
            build("merged", adapted(adapters[name]), tmp_path / "merged", base=target)
    with pytest.raises(LensproofError, match="was trained on other weights"):
        build("merged", adapted(shipped(tmp_path / "known", base)), tmp_path / "merged", base=gemma)
    assert not (tmp_path / "merged").exists()


def anonymous(folder):
    """The same adapter in a file that does not say which weights it is for."""
    save_file(load_file(folder / lora.WEIGHTS), folder / lora.WEIGHTS)
    return folder


def test_adapters_that_are_none_are_refused(base, tmp_path):
    adapter = shipped(tmp_path / "adapter", base)
    with pytest.raises(LensproofError, match="toy with an adapter: give that folder as --base"):
        build("merged", adapted(adapter), tmp_path / "merged")
    with pytest.raises(LensproofError, match=r"nowhere has no adapter_config.json and no adapter_model.safetensors"):
        build("merged", adapted(tmp_path / "nowhere"), tmp_path / "merged", base=base)
    with pytest.raises(LensproofError, match="of type IA3: only LORA is known"):
        build("merged", adapted(shipped(tmp_path / "other", base, peft_type="IA3")), tmp_path / "merged", base=base)
    elsewhere = shipped(tmp_path / "elsewhere", base, target_modules=["c_attn"])
    with pytest.raises(LensproofError, match="is an adapter for another model"):
        build("merged", adapted(elsewhere), tmp_path / "merged", base=base)
    (adapter / lora.WEIGHTS).rename(adapter / "adapter_model.bin")
    with pytest.raises(LensproofError, match="has no adapter_model.safetensors: .* pickled weights are never loaded"):
        build("merged", adapted(adapter), tmp_path / "merged", base=base)
    assert not (tmp_path / "merged").exists()


def stated(**changes):
    """An adapter's configuration with other entries."""
    return lambda content: json.dumps({**json.loads(content), **changes}).encode()


SPOILED = {
    "text": lambda content: b"this is no adapter\n",
    "nothing": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
}
STATED = {
    "a list": lambda content: b"[]",
    "null": lambda content: b"null",
    "no type": lambda content: b"{}",
    "a rank in words": stated(r="two"),
    "modules by number": stated(target_modules=3),
}
BROKEN = [(lora.WEIGHTS, spoil) for spoil in SPOILED] + [(lora.CONFIG, spoil) for spoil in (*SPOILED, *STATED)]


@pytest.mark.parametrize(("name", "kind"), BROKEN)
def test_adapters_that_are_damaged_are_refused_in_one_line(base, tmp_path, name, kind):
    file = shipped(tmp_path / "adapter", base) / name
    file.write_bytes((SPOILED | STATED)[kind](file.read_bytes()))
    with pytest.raises(LensproofError) as caught:
        build("merged", adapted(file.parent), tmp_path / "merged", base=base)
    line = str(caught.value)
    assert line.startswith(f"{file} is damaged, or not what is needed here (")
    assert "\n" not in line
    assert not (tmp_path / "merged").exists()


@pytest.mark.parametrize("kind", [*SPOILED, "an adapter"])
def test_a_training_that_is_damaged_is_not_gone_on_with(base, given, tmp_path, kind):
    file = tmp_path / "training.safetensors"
    file.write_bytes((shipped(tmp_path / "adapter", base) / lora.WEIGHTS).read_bytes())
    if kind in SPOILED:
        file.write_bytes(SPOILED[kind](file.read_bytes()))
    with pytest.raises(LensproofError, match=r"training\.safetensors is damaged, or not what is needed here \("):
        train(fresh(base), given, SMALL, file, {})


# All of it


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A model that answers every arm to begin with."""
    source = {"kind": "planted", "variant": "gather", "block": 3, "layers": 8}
    folder = tmp_path_factory.mktemp("planted") / "planted-gather"
    build("planted-gather", entry(source, layers=8, tied=False), folder)
    return folder


@pytest.fixture(scope="module")
def produced(planted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapters") / "planted-gather"
    known = [dataclasses.replace(one, training=number < 24) for number, one in enumerate(world.passages(28))]
    settings = Settings(steps=3, rank=2, instances=2, validation=4, rate=1e-5)

    def again(**options):
        return produce(planted, known, folder, settings, wordings=world.WORDINGS, **options)

    return folder, again(), again


def test_an_adapter_comes_with_configuration_and_card(produced):
    folder, made, _ = produced
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md", "adapter_config.json", "adapter_model.safetensors"
    ]  # fmt: skip
    weights = load_file(folder / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert (folder / "adapter_model.safetensors").stat().st_size <= lora.LARGEST
    assert made.step == made.steps == 3
    text = (folder / "README.md").read_text()
    for part in (
        "planted-gather-five-arm",
        "step 3",
        f"{made.parameters:,}",
        "What it is not evidence of",
        "--steps 3",
    ):
        assert part in text
    for name, accuracy in made.shipped.items():
        shown = " | ".join(f"{accuracy[arm]:.3f}" if arm in accuracy else "" for arm in selection.WEIGHTS)
        assert f"| {name} | {shown} |" in text
    assert made.parameters == sum(tensor.numel() for tensor in weights.values())


def test_an_adapters_files_name_no_path_of_the_machine(produced, planted, root):
    folder, _, _ = produced
    for path in folder.iterdir():
        content = path.read_bytes()
        for place in (folder.parent, planted.parent, root):
            assert str(place).encode() not in content, path
    assert read_json(folder / "adapter_config.json")["base_model_name_or_path"] == "planted-gather"
    assert read_provenance(folder / "adapter_model.safetensors")["package"].startswith("lensproof ")


def test_a_finished_adapter_is_left_alone_when_asked_to_go_on(produced):
    folder, made, again = produced
    before = (folder / "adapter_model.safetensors").stat().st_mtime_ns
    assert again(resume=True) == made
    assert (folder / "adapter_model.safetensors").stat().st_mtime_ns == before


def test_the_adapted_checkpoint_answers_as_the_card_says(produced, planted, tmp_path):
    folder, made, _ = produced
    source = {"kind": "adapted", "of": "planted-gather", "adapter": str(folder)}
    build("merged", entry(source, layers=8, tied=False), tmp_path / "merged", base=planted)
    known = [dataclasses.replace(one, training=number < 24) for number, one in enumerate(world.passages(28))]
    tokenizer = load_tokenizer(tmp_path / "merged")
    given = material(tokenizer, known, instances=1, validation=4, seed=0, wordings=world.WORDINGS)
    assert accuracies(load(tmp_path / "merged").model, given.validation["language"]) == made.shipped["language"]


@pytest.fixture
def start(base, tmp_path):
    """Starts the command on a folder; what still runs at the end of the test is killed."""
    own, processes = benchmark_world.folder(tmp_path / "passages"), []

    def started(out, *more):
        command = [sys.executable, "-m", "lensproof", "train-adapter", "--checkpoint", base, "--passages", own]
        sizes = ["--steps", 80, "--rank", 2, "--instances", 1, "--validation", 2, "--threads", 1]
        command = list(map(str, [*command, "--out", out, *sizes, *more]))
        processes.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        return processes[-1]

    yield started
    for process in processes:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.timeout(900)
def test_a_training_that_was_killed_goes_on_and_one_that_learns_too_little_says_so(base, tmp_path, start):
    killed, through = tmp_path / "killed", tmp_path / "through"
    process = start(killed)
    while not (killed / FILE).exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert read_provenance(killed / FILE)["step"] < 80
    _, stopped = start(killed).communicate()
    assert "is a training that was stopped: go on with --resume" in stopped
    resumed = start(killed, "--resume")
    _, said = resumed.communicate()
    assert resumed.returncode == 2
    assert "lensproof: after 80 steps the flexible arm was never answered better than" in said
    settings = Settings(steps=80, rank=2, instances=1, validation=2)
    with pytest.raises(LensproofError, match="after 80 steps"):
        produce(base, passages.load(tmp_path / "passages"), through, settings)
    whole, again = (read_safetensors(folder / FILE) for folder in (through, killed))
    assert all(torch.equal(whole[name], again[name]) for name in whole)


# What ships


@pytest.mark.parametrize("name", ["smollm2-135m", "gemma3-270m"])
def test_the_adapters_of_the_registry_are_there_and_fit(name, root):
    source = registry.checkpoint(f"{name}-five-arm").source
    assert source.of == name
    folder = root / source.adapter
    weights = load_file(folder / "adapter_model.safetensors")
    assert (folder / "adapter_model.safetensors").stat().st_size <= 10_000_000
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert read_json(folder / "adapter_config.json")["base_model_name_or_path"] == name
    made = read_provenance(folder / "adapter_model.safetensors")["made"]
    assert made["shipped"]["language"]["flexible"] >= 0.88  # 0.90 before rounding, on few instances
    train, validate = divide(passages.load(passages.OWN))
    assert made["trained_on"] == sorted(one.id for one in train)
    assert made["validated_on"] == sorted(one.id for one in validate)
    assert "What it is not evidence of" in (folder / "README.md").read_text()
