"""Whether one linear map decodes the latent variable in every arm, above a floor that pays for choosing a layer.

A *joint* probe is one weight matrix fitted on the training instances of all arms at once; per-arm probes are fitted on
one arm and tested on each. Instances are split, never rows, and instances that share a passage stay together. The
floor permutes labels across instances (all arms of an instance keep one wrong label) and reruns everything.
Source: Gathered section 5 of the method.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lensproof.corpora.benchmark.record import Record
from lensproof.errors import LensproofError
from lensproof.experiments.arms import ArmsRun
from lensproof.lenses.band import band
from lensproof.progress import bar

RATE, DECAY, STEPS = 0.05, 0.01, 400
"""AdamW, full batch (Gathered section 5)."""
TRAIN = 0.6
FEWEST = 3
"""Training records that a class needs."""
EVERY = 3
"""Every third layer of the band."""
JOINT = "joint"


class Cell(NamedTuple):
    """A probe's training rows and what it is called."""

    trained_on: str
    centred: bool
    rows: np.ndarray


def observe(run: ArmsRun) -> pd.DataFrame:
    """Fit and test the probes of every split, on true and on permuted labels.

    Returns:
        One row per (split, permuted, layer, trained_on, centred, held-out record): ``method`` (the record's arm),
        ``instance``, ``document``, ``classes`` (values of z that the probe knows), ``correct``.
    """
    layers = list(band(run.decoder.depth))[::EVERY]
    splits = bar(range(run.options["splits"]), f"probes, {run.checkpoint}", unit="split")
    parts = [_split(run, layers, split, permuted) for split in splits for permuted in (False, True)]
    return pd.concat(parts, ignore_index=True)


def _split(run: ArmsRun, layers: Sequence[int], split: int, permuted: bool) -> pd.DataFrame:
    generator = np.random.default_rng([run.seed, split, int(permuted)])
    labels, held_out = _labels(run.records, generator, permuted), _held_out(run.records, [run.seed, split])
    arms = np.array([record.condition for record in run.records])
    train = np.flatnonzero(~held_out)
    kept = _frequent(labels, train)
    train, test = train[kept[train]], np.flatnonzero(held_out & kept)
    if not len(train) or not len(test):
        raise LensproofError(
            f"no value of the latent variable has {FEWEST} training records: the probe needs more instances"
        )
    tables = [_tested(run, labels, arms, layers, cell, test) for cell in _cells(arms, train)]
    classes = np.int16(len(np.unique(labels[train])))
    return pd.concat(tables, ignore_index=True).assign(split=split, permuted=permuted, classes=classes)


def _cells(arms: np.ndarray, train: np.ndarray) -> Iterator[Cell]:
    yield Cell(JOINT, False, train)
    for arm in dict.fromkeys(arms):
        for centred in (False, True):
            yield Cell(str(arm), centred, train[arms[train] == arm])


def _tested(
    run: ArmsRun, labels: np.ndarray, arms: np.ndarray, layers: Sequence[int], cell: Cell, test: np.ndarray
) -> pd.DataFrame:
    states = run.states[:, list(layers)].transpose(0, 1).double()  # S N d
    if cell.centred:
        states = _centred(states, arms, np.flatnonzero(~np.isin(np.arange(len(arms)), test)))
    mean, spread = states[:, cell.rows].mean(1, keepdim=True), states[:, cell.rows].std(1, keepdim=True)
    states = ((states - mean) / spread.clamp_min(1e-8)).float()
    classes, target = np.unique(labels, return_inverse=True)
    weight, bias = fit(states[:, cell.rows], torch.as_tensor(target[cell.rows]), len(classes))
    guess = (states[:, test] @ weight + bias).argmax(-1).numpy()
    right = guess == target[test]
    records = [run.records[index] for index in test]
    frame = pd.DataFrame({
        "method": [record.condition for record in records],
        "instance": [record.semantic_instance_id for record in records],
        "document": [record.cluster for record in records],
    })  # fmt: skip
    tables = [frame.assign(layer=np.int16(layer), correct=right[index]) for index, layer in enumerate(layers)]
    return pd.concat(tables, ignore_index=True).assign(trained_on=cell.trained_on, centred=cell.centred)


def fit(states: Tensor, target: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Multinomial logistic regressions, one per layer, by full-batch AdamW from zero.

    Args:
        states: standardised ``[S, N, d]``.
        target: class of each row ``[N]``.
        classes: their number C.

    Returns:
        Weights ``[S, d, C]`` and biases ``[S, 1, C]``.
    """
    weight = torch.zeros(states.shape[0], states.shape[2], classes, requires_grad=True)
    bias = torch.zeros(states.shape[0], 1, classes, requires_grad=True)
    optimiser = torch.optim.AdamW([weight, bias], lr=RATE, weight_decay=DECAY)
    goal = target.expand(states.shape[0], -1).flatten()
    with torch.enable_grad():
        for _ in range(STEPS):
            optimiser.zero_grad()
            scores = (states @ weight + bias).flatten(0, 1)
            # Layers are problems of their own: a sum over them leaves each its own gradient.
            loss = torch.nn.functional.cross_entropy(scores, goal) * len(states)
            loss.backward()
            optimiser.step()
    return weight.detach(), bias.detach()


def _labels(records: Sequence[Record], generator: np.random.Generator, permuted: bool) -> np.ndarray:
    """Values of z by record; permuted ones are dealt out to instances, whose arms share one."""
    own = {record.semantic_instance_id: record.latent_value for record in records}
    values = list(own.values())
    dealt = [values[index] for index in generator.permutation(len(values))] if permuted else values
    label = dict(zip(own, dealt, strict=True))
    return np.array([label[record.semantic_instance_id] for record in records])


def _held_out(records: Sequence[Record], seed: Sequence[int]) -> np.ndarray:
    """Which records are tested: 40% of the clusters, whole.

    Raises:
        LensproofError: there is one cluster only.
    """
    from sklearn.model_selection import GroupShuffleSplit

    groups = [record.cluster for record in records]
    if len(set(groups)) < 2:
        raise LensproofError(f"all records are of the passage {groups[0]}: the probe needs others to be tested on")
    state = int(np.random.default_rng(list(seed)).integers(2**31))
    ((_, test),) = GroupShuffleSplit(1, train_size=TRAIN, random_state=state).split(groups, groups=groups)
    held = np.zeros(len(records), dtype=bool)
    held[test] = True
    return held


def _frequent(labels: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Whether a record's class has training records enough."""
    names, counts = np.unique(labels[train], return_counts=True)
    return np.isin(labels, names[counts >= FEWEST])


def _centred(states: Tensor, arms: np.ndarray, train: np.ndarray) -> Tensor:
    """States ``[S, N, d]`` less the mean of their arm, taken from training rows only."""
    states = states.clone()
    for arm in dict.fromkeys(arms):
        own = np.flatnonzero(arms == arm)
        states[:, own] -= states[:, train[arms[train] == arm]].mean(1, keepdim=True)
    return states
