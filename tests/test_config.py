"""The configuration: presets are valid, and every kind of mistake is one line that names the key."""

from __future__ import annotations

import copy

import pytest
import yaml

from lensproof.config import Experiments, chosen_layers, schema, validated
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
        ("readings.orders", [2, 1], "readings: orders must be rising"),
        ("calibration.sequences", "many", "calibration.sequences"),
        ("calibration.sequences", 1, "calibration.sequences"),
        ("bootstrap.level", 95, "bootstrap.level"),
        ("checkpoints", ["gpt-5"], "checkpoints names 'gpt-5', which is not in the registry"),
        ("corpus", "pile", "corpus names 'pile'"),
        ("jacobian_lens.skip", 127, "jacobian_lens.skip .127. leaves no position"),
        ("experiments.coherence.labels", 8, "coherence.labels and directions.labels differ"),
        ("experiments.planes.sequences", 2, "experiments.planes.sequences"),
        ("registry.corpora.lee.split", {"calibration": 0.9, "lens": 0.2, "test": 0.1}, "add up to 1.2"),
        ("registry.checkpoints.smollm2-135m.source.sha256", "abc", "registry.checkpoints.smollm2-135m.source"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key(config, key, value, message):
    with pytest.raises(LensproofError, match=message) as error:
        validated(change(config, key, value))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("experiment", Experiments.model_fields)
def test_layers_out_of_order_are_refused_in_every_experiment(config, experiment):
    with pytest.raises(LensproofError, match="rising and distinct"):
        validated(change(config, f"experiments.{experiment}.layers", [2, 1]))


def test_layers_are_taken_rising_and_once():
    assert chosen_layers([3, 1, 3], 4) == [1, 3]


def test_values_from_the_command_line_arrive_as_text(config):
    assert validated(change(config, "readings.shard", "4")).readings.shard == 4


def test_a_missing_key(config):
    del config["seed"]
    with pytest.raises(LensproofError, match="seed is missing"):
        validated(config)
