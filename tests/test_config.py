"""The configuration: presets are valid, and every kind of mistake is one line that names the key."""

from __future__ import annotations

import copy

import pytest
import yaml

from lensproof.config import Experiments, asked_for, chosen_layers, schema, validated
from lensproof.errors import LensproofError


@pytest.fixture
def config(root):
    return yaml.safe_load((root / "config.yaml").read_text())


def test_the_default_is_valid(config):
    checked = validated(config)
    assert checked.sequences("gemma3-270m") == 8
    assert checked.sequences("smollm2-135m") == 16


def test_the_schema_on_disk_is_the_one_that_checks(root):
    assert yaml.safe_load((root / "workflow/schemas/config.schema.yaml").read_text()) == schema()


def change(config, key, value):
    config = copy.deepcopy(config)
    *path, last = key.split(".")
    place = config
    for part in path:
        place = place[part]
    place[last] = value
    return config


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("readngs", {}, "unknown key readngs"),
        ("readings.layer", [1], "unknown key readings.layer"),
        ("readings.layers", [3, 31], "readings.layers names layer 31, but smollm2-135m has layers 0 to 30"),
        ("readings.layers", "most", "readings.layers"),
        ("readings.layers", [], "readings.layers: layers must be `all` or `{every: n}`, or rising and distinct"),
        ("readings.layers", [2, 2], "readings.layers: layers must be `all` or `{every: n}`, or rising and distinct"),
        (
            "readings.layers",
            {"every": 18},
            "readings.layers names no layer between the embedding and",
        ),
        ("experiments.steering.layers", {"every": 40}, "experiments.steering.layers names no layer between"),
        ("experiments.steering.layers", [2, 1], "layers must be `all` or `{every: n}`, or rising and distinct"),
        ("experiments.examples.layers", [2, 2], "experiments.examples.layers"),
        ("experiments.planes.layers", [], "or rising and distinct"),
        ("experiments.coherence.shard", 8, "coherence: shard is 8, but one shard must hold all 16 sequences"),
        ("experiments.decomposition.shard", 1, "decomposition: shard is 1, but one shard must hold all 16"),
        ("readings.layers", [0], "readings.layers names no layer between the embedding and the last"),
        ("seed", -1, "seed"),
        ("checkpoints", ["smollm2-135m", "smollm2-135m"], "checkpoints names one twice"),
        ("level", "paper", "level is paper, but smollm2-135m is not one of the paper's checkpoints"),
        ("readings.orders", [2, 1], "readings.orders: orders must be rising"),
        ("calibration.sequences", "many", "calibration.sequences"),
        ("calibration.sequences", 1, "calibration.sequences"),
        (
            "calibration.sequences",
            15,
            "hold less than 2 sequences of .*long .1024 tokens. .* at least 16",
        ),
        ("bootstrap.level", 95, "bootstrap.level"),
        ("checkpoints", ["gpt-5"], "checkpoints names 'gpt-5', which is not in the registry"),
        ("corpus", "pile", "corpus names 'pile'"),
        ("jacobian_lens.skip", 127, "jacobian_lens.skip .127. leaves no position"),
        ("experiments.coherence.labels", 8, "coherence.labels and directions.labels differ"),
        ("experiments.planes.sequences", 2, "experiments.planes.sequences"),
        ("gathered.checkpoints", ["gpt-5"], "gathered.checkpoints names 'gpt-5'"),
        ("gathered.checkpoints", ["planted-gate", "planted-gate"], "gathered: checkpoints names one twice"),
        ("gathered.instances.language", 500, "gathered.instances.language is 500, but benchmark.instances only 400"),
        ("gathered.instances", {"language": 10}, "instances does not say how many of tracking"),
        (
            "gathered.experiments.visibility.sets",
            ["language", "language"],
            "experiments.visibility.sets names one twice",
        ),
        ("gathered.experiments.visibility.sets", ["languages"], "gathered.experiments.visibility.sets"),
        (
            "gathered.experiments.visibility.profiled",
            ["tracking_unmatched"],
            "profiled names tracking_unmatched",
        ),
        ("gathered.experiments.availability.sets", ["tracking"], "names no language set, which planted-gather needs"),
        ("gathered.experiments.availability.splits", 1, "gathered.experiments.availability.splits"),
        ("gathered.experiments.worked_example.depths", [0.7, 0.6], "depths must be rising"),
        ("benchmark.sets", ["language", "language_unmatched"], "sets names language_length, which benchmark.sets does"),
        ("registry.checkpoints.planted-gate.corpus", "pile", "registry.checkpoints.planted-gate.corpus names 'pile'"),
        ("readings.sequences", "many", "readings.sequences: should be a whole number or a mapping .it is 'many'"),
        ("readings.sequences", {"default": 0}, "readings.sequences.default: should be greater than or equal to 1"),
        ("readings.sequences", {"gemma3-270m": 4}, "readings: sequences must name `default`"),
        (
            "experiments.steering.sequences",
            {"default": "x"},
            "steering.sequences.default: should be a whole number",
        ),
        ("experiments.translators.tokens", {"gemma3-270m": 4}, "translators: tokens must name `default`"),
        ("experiments.translators.tokens", {"default": 4, "nope": 4}, "translators.tokens names 'nope'"),
        ("experiments.steering.layers", {"every": 0}, "experiments.steering.layers.every: should be greater"),
        ("experiments.steering.layers", "most", "experiments.steering.layers: should be 'all' or a mapping or a list"),
        ("registry.checkpoints.gemma3-270m.source", {"kind": "wheal"}, "gemma3-270m.source: tag 'wheal'"),
        ("registry.checkpoints.gemma3-270m.source", {}, "gemma3-270m.source: it must name its kind"),
        (
            "registry.checkpoints.gemma3-270m-initial.layers",
            17,
            "270m-initial.layers is not that of gemma3-270m",
        ),
        ("registry.checkpoints.gemma3-270m-initial.tied", False, "gemma3-270m-initial.tied is not that of gemma3-270m"),
        ("registry.checkpoints.gemma3-270m.source", {"kind": "random", "architecture": "llama"}, "that of its source"),
        ("experiments.examples.prefixes", ["The", ""], "experiments.examples.prefixes.1: a prefix needs some text"),
        ("experiments.examples.prefixes", [" \t"], "experiments.examples.prefixes.0: a prefix needs some text"),
        ("experiments.training.series", {"nope": ["gemma3-270m"]}, "training.series names 'nope'"),
        ("experiments.training.series", {}, "training.series.smollm2-135m needs two checkpoints or more"),
        ("experiments.training.series.gemma3-270m", ["gemma3-270m"], "series.gemma3-270m needs two checkpoints"),
        ("experiments.directions.orders", [0, 2], "directions.orders: orders must have 1 among them, whose angles"),
        ("sequence_length", 100000, "1024 tokens. must be a multiple of sequence_length .100000.: .* checkpoints take"),
        ("registry.corpora.lee.split", {"calibration": 0.9, "lens": 0.2, "test": 0.1}, "add up to 1.2"),
        ("registry.checkpoints.smollm2-135m.source.sha256", "abc", "registry.checkpoints.smollm2-135m.source"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key(config, key, value, message):
    with pytest.raises(LensproofError, match=message) as error:
        validated(change(config, key, value))
    assert "\n" not in str(error.value)


SHARDED = [
    "readings",
    *(
        f"experiments.{name}"
        for name, field in Experiments.model_fields.items()
        if {"sequences", "shard"} <= set(field.annotation.model_fields) and name != "planes"  # one sequence
    ),
]
TOO_MANY = [
    *(
        (f"{section}.sequences", number)
        for section in SHARDED
        for number in (2001, 10**6, {"default": 1, "gemma3-270m": 10**9})
    ),
    ("jacobian_lens.prompts", 2001),
    ("jacobian_lens.prompts", 10**9),
    *(("gathered.instances", {"language": 4, "tracking": number}) for number in (2001, 10**9)),
    *(("gathered.lens.prompts", number) for number in (2001, 10**9)),
]


@pytest.mark.parametrize(("key", "number"), TOO_MANY, ids=str)
def test_more_shards_than_have_a_name_are_refused(config, key, number):
    """Not by the workflow, with a line for each."""
    section, _, last = key.rpartition(".")
    with pytest.raises(LensproofError, match=rf"^config: {section}: {last} is \d+, more than 1000 shards of 2: lower"):
        validated(change(change(config, f"{section}.shard", 2), key, number))


def test_as_many_shards_as_have_a_name(config):
    assert validated(change(config, "readings.sequences", 2000)).sequences("gemma3-270m") == 2000


@pytest.mark.parametrize("number", [0, 101, 10**6])
def test_a_number_of_calibration_texts_that_cannot_be(config, number):
    with pytest.raises(LensproofError, match=r"experiments\.stand_ins\.calibrations: should be"):
        validated(change(config, "experiments.stand_ins.calibrations", number))


@pytest.mark.parametrize("experiment", Experiments.model_fields)
def test_layers_out_of_order_are_refused_in_every_experiment(config, experiment):
    with pytest.raises(LensproofError, match="rising and distinct"):
        validated(change(config, f"experiments.{experiment}.layers", [2, 1]))


def test_planted_models_know_the_language_family_only(config):
    checked = validated(config)
    sets = config["gathered"]["experiments"]["visibility"]["sets"]
    assert checked.record_sets("visibility", "smollm2-135m") == sets
    assert checked.record_sets("visibility", "planted-gate") == [name for name in sets if name.startswith("language")]
    assert checked.planted("planted-gate")
    assert not checked.planted("smollm2-135m")


def test_lenses_of_planted_models_are_fitted_on_text_of_their_own(config):
    checked = validated(config)
    assert (checked.corpus_of("planted-gate"), checked.corpus_of("gemma3-270m")) == ("planted", "lee")
    needs = asked_for(checked)
    lens = {"gathered.lens.prompts": ("lens", config["gathered"]["lens"]["prompts"])}
    assert needs["results/sequences/planted-gate/planted.parquet"] == lens
    assert "gathered.lens.prompts" not in needs["results/sequences/gemma3-270m/lee.parquet"]  # it has a whole lens


SIZED = [name for name, field in Experiments.model_fields.items() if "orders" in field.annotation.model_fields]


@pytest.mark.parametrize("section", ["readings", *(f"experiments.{name}" for name in SIZED)])
@pytest.mark.parametrize("orders", [[2, 1], [1, 1], [], [-1], "1", [1.5]])
def test_orders_that_are_none_are_refused_wherever_there_are_some(config, section, orders):
    with pytest.raises(LensproofError, match=rf"config: {section}\.orders"):
        validated(change(config, f"{section}.orders", orders))


@pytest.mark.parametrize("section", ["readings", *(f"experiments.{name}" for name in SIZED)])
def test_fewer_orders_will_do(config, section):
    validated(change(config, f"{section}.orders", [1]))


def leaves(node, path=()):
    """Key of every value in the configuration that is no mapping."""
    for key, value in node.items():
        yield from leaves(value, (*path, key)) if isinstance(value, dict) else [".".join((*path, key))]


def test_no_message_speaks_of_pydantic(config):
    """Every key of the configuration, given what it cannot be."""
    checked = 0
    for key in leaves(config):
        for wrong in (None, -1, "", {"x": {}}, [[]]):
            try:
                validated(change(config, key, wrong))
            except LensproofError as error:
                checked += 1
                said = str(error)
                assert "\n" not in said
                assert not any(word in said for word in ("constrained", "pydantic", "instance of", "dict[", "union"))
                assert key.split(".")[0] in said
    assert checked > 300


@pytest.mark.parametrize("number", [4, "4", {"default": 4}])
def test_readings_take_one_number_for_all_or_numbers_by_checkpoint(config, number):
    assert validated(change(config, "readings.sequences", number)).sequences("gemma3-270m") == 4


@pytest.mark.parametrize(
    ("chosen", "depth", "layers"),
    [({"every": 2}, 4, [0, 2]), ({"every": 2, "last": True}, 4, [0, 2, 4]), ({"every": 3, "last": True}, 4, [0, 3, 4]),
     ({"every": 9, "last": True}, 4, [0, 4]), ({"every": 2, "last": False}, 5, [0, 2, 4]), ("all", 2, [0, 1, 2])],
)  # fmt: skip
def test_layers_by_steps_and_the_last(chosen, depth, layers):
    assert chosen_layers(chosen, depth) == layers


@pytest.mark.parametrize("section", ["readings", *(f"experiments.{name}" for name in Experiments.model_fields)])
def test_the_last_layer_can_be_asked_for_wherever_layers_are(config, section):
    given = validated(change(config, f"{section}.layers", {"every": 6, "last": "true"})).model_dump()
    for key in section.split("."):
        given = given[key]
    assert given["layers"] == {"every": 6, "last": True}
    with pytest.raises(LensproofError, match=rf"{section}\.layers\.last: should be a valid boolean"):
        validated(change(config, f"{section}.layers", {"every": 6, "last": "most"}))
    with pytest.raises(LensproofError, match="names no layer between"):
        validated(change(config, f"{section}.layers", {"every": 40, "last": True}))


def test_layers_are_taken_rising_and_once():
    assert chosen_layers([3, 1, 3], 4) == [1, 3]


def test_values_from_the_command_line_arrive_as_text(config):
    assert validated(change(config, "readings.shard", "4")).readings.shard == 4


def test_a_missing_key(config):
    del config["seed"]
    with pytest.raises(LensproofError, match="seed is missing"):
        validated(config)
