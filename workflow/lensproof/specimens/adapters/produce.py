"""From a checkpoint and training passages to an adapter's folder: weights, configuration and card."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lensproof.checkpoints.load import load, load_tokenizer
from lensproof.checkpoints.manifest import MANIFEST, digest, existing
from lensproof.checkpoints.scratch import install, scratch
from lensproof.corpora.benchmark.passages import Passage
from lensproof.corpora.benchmark.sets import WORDINGS
from lensproof.errors import LensproofError
from lensproof.files import read_json, read_provenance, write_text
from lensproof.provenance import record
from lensproof.specimens.adapters import lora, selection
from lensproof.specimens.adapters.answers import accuracies
from lensproof.specimens.adapters.card import Made, card
from lensproof.specimens.adapters.prompts import SHARES, Material, Wordings, material
from lensproof.specimens.adapters.training import Settings, Training, train

FILE = Path("training") / "training.safetensors"
"""In the adapter's folder, a training that is not finished."""
CARD = "README.md"


def produce(
    checkpoint: Path,
    passages: Sequence[Passage],
    out: Path,
    settings: Settings,
    *,
    resume: bool = False,
    progress: bool = False,
    wordings: Wordings = WORDINGS,
) -> Made:
    """Train an adapter and write it to the folder ``out``.

    Args:
        checkpoint: folder of the model to adapt.
        passages: parallel passages; those that are not for training are not looked at.
        out: the adapter's folder; a training that is not finished stands in it too.
        settings: of the training.
        resume: go on with the training that stands in ``out``; leave alone an adapter that was made of the same.
        progress: whether to show a bar.
        wordings: of the prompts.

    Returns:
        What the card says.

    Raises:
        LensproofError: no checkpoint; too few training passages; a training in ``out`` that is not to be resumed or is
            of something else; no step at which the flexible arm is answered well enough.
    """
    manifest = read_json(existing(checkpoint) / MANIFEST, "name", "title", "licence")
    weights = digest(checkpoint)
    identity = {**dataclasses.asdict(settings), "weights": weights, "passages": _digest(passages)}
    if resume and (out / lora.WEIGHTS).is_file() and not (out / FILE).is_file() and _of(out, identity):
        logging.getLogger("lensproof").info("%s is there already: remove it to train it again", out / lora.WEIGHTS)
        return Made(**read_provenance(out / lora.WEIGHTS)["made"])
    if (out / FILE).is_file() and not resume:
        raise LensproofError(f"{out / FILE} is a training that was stopped: go on with --resume, or remove it")
    given = material(
        load_tokenizer(checkpoint), passages, seed=settings.seed, wordings=wordings,
        instances=settings.instances, validation=settings.validation,
    )  # fmt: skip
    model = lora.wrap(load(checkpoint).model, settings.rank, settings.seed, manifest["name"])
    shown = f"adapter, {manifest['name']}" if progress else None
    training = train(model, given, settings, out / FILE, identity, shown)
    _enough(training, out)
    adapter = lora.half(training.kept)
    lora.put(model, adapter)
    made = _made(manifest, given, settings, training, model)
    stated = record("train_adapter", {}, identity=identity)
    with scratch(out) as folder:
        lora.write(folder, model, adapter, {**stated, "weights": weights, "made": dataclasses.asdict(made)})
        write_text(folder / CARD, card(made))
        install(folder, out, last=lora.WEIGHTS)
    shutil.rmtree(out / FILE.parent)
    return made


def _digest(passages: Sequence[Passage]) -> str:
    """sha256 of the training passages."""
    training = [dataclasses.asdict(passage) for passage in passages if passage.training]
    return hashlib.sha256(json.dumps(training, sort_keys=True).encode()).hexdigest()


def _of(out: Path, identity: Mapping[str, Any]) -> bool:
    """Whether the adapter in ``out`` was made of these settings, weights and passages."""
    return read_provenance(out / lora.WEIGHTS).get("settings", {}).get("identity") == identity


def _enough(training: Training, out: Path) -> None:
    if selection.kept(training.curve) is None:
        best = max(validation.accuracy[selection.FIRST] for validation in training.curve)
        raise LensproofError(
            f"after {training.step} steps the {selection.FIRST} arm was never answered better than {best:.3f}, "
            f"{selection.FLOOR} is needed: remove {out / FILE.parent} and train with more steps or another rate"
        )


def _made(manifest: Mapping[str, Any], given: Material, settings: Settings, training: Training, model: Any) -> Made:
    """What the card says; accuracies are those of the adapter as it is shipped, which ``model`` has now."""
    kept = training.curve[selection.kept(training.curve)]
    return Made(
        base=manifest["name"],
        title=manifest["title"],
        licence=manifest["licence"],
        settings=dataclasses.asdict(settings),
        shares={name: SHARES[name] for name in given.training},
        step=kept.step,
        steps=training.step,
        seconds=round(training.seconds),
        curve=[[validation.step, dict(validation.accuracy)] for validation in training.curve],
        shipped={name: accuracies(model, instances) for name, instances in given.validation.items()},
        parameters=sum(tensor.numel() for tensor in training.kept.values()),
        modules=sorted(model.peft_config["default"].target_modules),
        trained_on=list(given.trained_on),
        validated_on=list(given.validated_on),
    )
