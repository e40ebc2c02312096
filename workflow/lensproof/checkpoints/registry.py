"""Entries of the registry: from a command line's JSON, or from the configuration files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

import lensproof
from lensproof.config import Calibration, Checkpoint, Config, Corpus, Experiments, explain, validated
from lensproof.errors import LensproofError

Entry = TypeVar("Entry", Checkpoint, Corpus)

_KINDS = {"checkpoints": Checkpoint, "corpora": Corpus}


def checkpoint(name: str, spec: str | None = None, configfiles: Iterable[Path] = ()) -> Checkpoint:
    """The registry's entry of a checkpoint.

    Args:
        name: its name in the registry.
        spec: the entry itself as JSON, as rules pass it; the configuration is not read then.
        configfiles: overrides of ``config.yaml``, the last one wins.

    Raises:
        LensproofError: no such name, or an entry that is not valid.
    """
    return _entry("checkpoints", name, spec, configfiles)


def corpus(name: str, spec: str | None = None, configfiles: Iterable[Path] = ()) -> Corpus:
    """The registry's entry of a corpus; see :func:`checkpoint`."""
    return _entry("corpora", name, spec, configfiles)


def either(name: str, spec: str | None = None, configfiles: Iterable[Path] = ()) -> Checkpoint | Corpus:
    """The registry's entry of a checkpoint or corpus; see :func:`checkpoint`."""
    if spec is not None:
        return _entry("corpora" if "format" in _json(spec) else "checkpoints", name, spec, ())
    registry = _config(configfiles).registry
    known = {**registry.corpora, **registry.checkpoints}
    return _known("the registry", name, known)


def names(configfiles: Iterable[Path] = ()) -> list[str]:
    """Every checkpoint in the registry."""
    return sorted(_config(configfiles).registry.checkpoints)


def section(
    experiment: str, given: Mapping[str, Any] | None = None, configfiles: Iterable[Path] = ()
) -> dict[str, Any]:
    """What the configuration says of an experiment, and ``calibration``, the sequences of typical attention.

    Args:
        experiment: its name.
        given: the same by hand; the configuration is not read then. ``calibration`` may be left out.
        configfiles: overrides of ``config.yaml``, the last one wins.

    Raises:
        LensproofError: a key is missing, unknown or wrong.
    """
    if given is None:
        config = _config(configfiles)
        return {**getattr(config.experiments, experiment).model_dump(), "calibration": config.calibration.sequences}
    own = {key: value for key, value in given.items() if key != "calibration"}
    sequences = {"sequences": given["calibration"]} if "calibration" in given else None
    try:
        checked = Experiments.model_fields[experiment].annotation.model_validate(own).model_dump()
        return checked | ({"calibration": Calibration.model_validate(sequences).sequences} if sequences else {})
    except ValidationError as error:
        key = "calibration." if error.title == "Calibration" else ""
        raise LensproofError(f"--options: {key}{explain(error, sequences if key else own)}") from None


def _entry(kind: str, name: str, spec: str | None, configfiles: Iterable[Path]) -> Any:
    if spec is None:
        return _known(f"the registry of {kind}", name, getattr(_config(configfiles).registry, kind))
    try:
        return _KINDS[kind].model_validate(_json(spec))
    except ValidationError as error:
        raise LensproofError(f"--spec: {explain(error, _json(spec))}") from None


def _known(where: str, name: str, entries: Mapping[str, BaseModel]) -> Any:
    if name not in entries:
        raise LensproofError(f"{name} is not in {where} (known: {', '.join(sorted(entries))})")
    return entries[name]


def _json(spec: str) -> Mapping[str, Any]:
    try:
        value = json.loads(spec)
    except ValueError as error:
        raise LensproofError(f"--spec is not valid JSON ({error})") from None
    if not isinstance(value, Mapping):
        raise LensproofError("--spec is not a registry entry: a JSON object is needed")
    return value


def _config(configfiles: Iterable[Path]) -> Config:
    here, checkout = Path("config.yaml"), Path(lensproof.__file__).parents[2] / "config.yaml"
    config: dict[str, Any] = {}
    for path in (here if here.is_file() else checkout, *configfiles):
        _update(config, _yaml(path))
    return validated(config)


def _yaml(path: Path) -> Mapping[str, Any]:
    import yaml

    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LensproofError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise LensproofError(f"{path} is not valid YAML ({' '.join(str(error).split())})") from None
    if not isinstance(value, Mapping):
        raise LensproofError(f"{path} is not a configuration: keys with values are needed")
    return value


def _update(config: dict[str, Any], override: Mapping[str, Any]) -> None:
    """Merge as Snakemake's ``--configfile`` does: mappings key by key, anything else as a whole."""
    for key, value in override.items():
        if isinstance(value, Mapping) and isinstance(config.get(key), dict):
            _update(config[key], value)
        else:
            config[key] = value
