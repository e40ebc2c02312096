"""The training of an adapter: what happens at a step is fixed by the settings and the validations before it, so a
training that was killed goes on from its last file and ends with the same adapter, bit for bit on the same machine."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from lensproof.corpora.benchmark.draws import Draws
from lensproof.errors import LensproofError
from lensproof.files import damaged, read_provenance, read_safetensors, write_safetensors
from lensproof.progress import bar
from lensproof.specimens.adapters import lora, selection
from lensproof.specimens.adapters.answers import accuracies, answer_logits, of_like_length
from lensproof.specimens.adapters.prompts import DECIDING, SHARES, Instances, Material, Prompt
from lensproof.specimens.adapters.selection import Validation

if TYPE_CHECKING:
    from peft import PeftModel

SAVED = 10
"""Steps after which the training is written to its file; a killed one loses at most so many."""
ARMS = 2
"""Prompts of one instance in a batch: their context, most of their tokens, runs once."""
WARMED, HIGH, FALLING, LOW = 20, 1 / 3, 4 / 5, 0.4
"""The learning rate rises over so many steps and is held for this share of all, in which the arms are learned that take
one look-up; then this much of it is held, with which the one that takes two is learned; from this share on it falls."""
LONGEST_GRADIENT = 1.0


@dataclass(frozen=True)
class Settings:
    """All that a training depends on beside the model, the passages and the code.

    Attributes:
        steps: at most.
        batch: prompts of a step, two of each of half as many instances.
        rate: the highest learning rate; see :func:`rate_at`.
        rank: of the adapter.
        instances: drawn for one unit of share of a set of records.
        validation: instances to validate on.
        seed: of the adapter's start and of all draws.
    """

    steps: int = 640
    batch: int = 16
    rate: float = 1e-3
    rank: int = 16
    instances: int = 1000
    validation: int = 100
    seed: int = 0


@dataclass
class Training:
    """Where a training stands.

    Attributes:
        step: steps made.
        losses: mean loss of each step's answers (nats).
        curve: validations so far.
        adapter: weights, as they are now.
        moments: name of a weight -> Adam's two running means of its gradient.
        kept: weights of the checkpoint to keep, if there is one so far.
        seconds: time that it took, all runs together.
    """

    step: int = 0
    losses: list[float] = field(default_factory=list)
    curve: list[Validation] = field(default_factory=list)
    adapter: dict[str, Tensor] = field(default_factory=dict)
    moments: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    kept: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0


def save(path: Path, training: Training, identity: Mapping[str, Any]) -> None:
    """Write a training to one file, whole or not at all; ``identity`` says what it is a training of."""
    means = {
        f"{kind}.{n}": part for n, pair in training.moments.items() for kind, part in zip(_MEANS, pair, strict=True)
    }
    weights = {f"{kind}.{n}": part for kind in _WEIGHTS for n, part in getattr(training, kind).items()}
    stated = {"step": training.step, "losses": training.losses, "seconds": training.seconds}
    curve = [validation._asdict() for validation in training.curve]
    write_safetensors(path, weights | means, {**stated, "curve": curve, "identity": dict(identity)})


_WEIGHTS, _MEANS = ("adapter", "kept"), ("mean", "square")


def load(path: Path, identity: Mapping[str, Any]) -> Training:
    """The training that :func:`save` wrote.

    Raises:
        LensproofError: it is damaged, or a training of something else.
    """
    parts: dict[str, dict[str, Tensor]] = {kind: {} for kind in (*_WEIGHTS, *_MEANS)}
    tensors, stated = read_safetensors(path), read_provenance(path)
    if not {"identity", "step", "losses", "curve", "seconds"} <= set(stated):
        raise damaged(path, "it holds no training")
    for name, tensor in tensors.items():
        kind, _, own = name.partition(".")
        parts[kind][own] = tensor
    for key, value in identity.items():
        if stated["identity"].get(key) != value:
            raise LensproofError(
                f"{path} is a training with {key} {stated['identity'].get(key)}, not {value}: give it that, or remove "
                "the file to begin anew"
            )
    return Training(
        step=stated["step"],
        losses=stated["losses"],
        curve=[Validation(**validation) for validation in stated["curve"]],
        adapter=parts["adapter"],
        moments={name: (mean, parts["square"][name]) for name, mean in parts["mean"].items()},
        kept=parts["kept"],
        seconds=stated["seconds"],
    )


def train(
    model: PeftModel,
    material: Material,
    settings: Settings,
    path: Path,
    identity: Mapping[str, Any],
    progress: str | None = None,
) -> Training:
    """Train until :mod:`~lensproof.specimens.adapters.selection` has found its checkpoint, or steps are over.

    Args:
        model: with fresh adapters; it is changed in place.
        material: to train and validate on.
        settings: of the training.
        path: file that the training is written to as it goes on, and goes on from.
        identity: what it is a training of.
        progress: text of a progress bar, or None.

    Raises:
        LensproofError: the loss is not finite, or ``path`` holds a training of something else.
    """
    training = load(path, identity) if path.is_file() else Training()
    optimiser = _optimiser(model, training, settings)
    begun = time.perf_counter() - training.seconds
    if not training.curve:
        _validate(model, material, training)
    steps = range(training.step, settings.steps)
    for step in bar(steps, progress, unit="step") if progress else steps:
        if selection.finished(training.curve):
            break
        chosen = batch(material, settings, step, selection.weights(training.curve))
        training.losses.append(_take_step(model, optimiser, chosen, rate_at(step, settings)))
        training.step = step + 1
        validated = selection.due(training.curve, training.step, settings.steps)
        if validated:
            _validate(model, material, training)
        if validated or training.step % SAVED == 0:
            _remember(model, optimiser, training)
            training.seconds = time.perf_counter() - begun
            save(path, training, identity)
    return training


def batch(material: Material, settings: Settings, step: int, weights: Mapping[str, int]) -> Instances:
    """The prompts of a step, instance by instance.

    Arms are drawn by ``weights`` in the family that is validated, else as to begin with, and none twice.
    """
    draws = Draws("adapter", "batch", settings.seed, step)
    sets = _repeated({name: SHARES[name] for name in material.training})
    instances = (draws.choice(material.training[draws.choice(sets)]) for _ in range(-(-settings.batch // ARMS)))
    return [_some(instance, draws, weights) for instance in instances]


def rate_at(step: int, settings: Settings) -> float:
    """Learning rate of a step."""
    share = step / settings.steps
    if share < HIGH:
        return settings.rate * min((step + 1) / WARMED, 1.0)
    return settings.rate * LOW * min((1 - share) / (1 - FALLING), 1.0)


def _some(instance: Sequence[Prompt], draws: Draws, weights: Mapping[str, int]) -> list[Prompt]:
    """Prompts of some of an instance's arms."""
    likely = weights if instance[0].family == DECIDING else selection.WEIGHTS
    left = [prompt for prompt in instance if prompt.arm in likely]
    chosen: list[Prompt] = []
    while left and len(chosen) < ARMS:
        arm = draws.choice(_repeated({prompt.arm: likely[prompt.arm] for prompt in left}))
        chosen += [prompt for prompt in left if prompt.arm == arm]
        left = [prompt for prompt in left if prompt.arm != arm]
    return chosen or list(instance[:ARMS])


def _repeated(weights: Mapping[str, int]) -> list[str]:
    return [name for name, weight in weights.items() for _ in range(weight)]


def _take_step(model: PeftModel, optimiser: torch.optim.Adam, instances: Instances, rate: float) -> float:
    """One step of Adam down the mean loss on the answers; the loss before it, in nats."""
    total, number = 0.0, sum(map(len, instances))
    for group in of_like_length(instances):
        answers = torch.tensor([prompt.answer for prompts in group for prompt in prompts])
        loss = cross_entropy(answer_logits(model, group), answers, reduction="sum") / number
        loss.backward()
        total += loss.item()
    if not total < float("inf"):
        raise LensproofError("the loss is not finite: train with a lower rate")
    (parameters,) = (part["params"] for part in optimiser.param_groups)
    torch.nn.utils.clip_grad_norm_(parameters, LONGEST_GRADIENT)
    optimiser.param_groups[0]["lr"] = rate
    optimiser.step()
    optimiser.zero_grad()
    return total


def _validate(model: PeftModel, material: Material, training: Training) -> None:
    accuracy = accuracies(model, material.validation[DECIDING])
    training.curve.append(Validation(training.step, accuracy))
    best = selection.kept(training.curve) == len(training.curve) - 1
    if best:
        training.kept = {name: tensor.clone() for name, tensor in lora.tensors(model).items()}
    shown = ", ".join(f"{arm} {accuracy[arm]:.3f}" for arm in selection.WEIGHTS if arm in accuracy)
    logging.getLogger("lensproof").info("step %d: %s%s", training.step, shown, " (the best so far)" if best else "")


def _optimiser(model: PeftModel, training: Training, settings: Settings) -> torch.optim.Adam:
    """Adam, where the training stands; the model is given the weights that belong there."""
    if training.adapter:
        lora.put(model, training.adapter)
    named = _trained(model)
    optimiser = torch.optim.Adam(named.values(), lr=settings.rate)
    for name, (mean, square) in training.moments.items():
        step = torch.tensor(float(training.step))
        optimiser.state[named[name]] = {"step": step, "exp_avg": mean, "exp_avg_sq": square}
    return optimiser


def _trained(model: PeftModel) -> dict[str, torch.nn.Parameter]:
    return {name: part for name, part in model.named_parameters() if part.requires_grad}


def _remember(model: PeftModel, optimiser: torch.optim.Adam, training: Training) -> None:
    training.adapter = lora.tensors(model)
    state = {name: optimiser.state[part] for name, part in _trained(model).items()}
    training.moments = {name: (own["exp_avg"], own["exp_avg_sq"]) for name, own in state.items()}
