"""What experiments on benchmark records start from: states at the query position, every arm of an instance at once."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.corpora.benchmark.record import Record
from lensproof.corpora.benchmark.tokenised import tokenised
from lensproof.errors import LensproofError
from lensproof.experiments.run import WithInputs
from lensproof.files import check_shapes, damaged, read_provenance, read_safetensors, write_safetensors
from lensproof.lenses.band import FLOOR
from lensproof.presets import command_for
from lensproof.progress import bar
from lensproof.streams.shared import continued


@dataclass(frozen=True)
class ArmsRun(WithInputs):
    """One shard of an experiment on records.

    ``name`` is the record set's; ``records`` are those of the shard's instances, ``states`` theirs at the query
    position ``[N, L + 1, d]``; ``options`` is the experiment's section of the configuration, ``inputs`` names other
    files that it reads, and ``weights`` is the sha256 of the checkpoint's weights.
    """

    checkpoint: str
    name: str
    decoder: Decoder
    tokenizer: PreTrainedTokenizerBase
    records: Sequence[Record]
    states: Tensor
    options: Mapping[str, Any]
    inputs: Mapping[str, Path]
    weights: str
    seed: int


def complete(records: Sequence[Record], arms: Sequence[str]) -> list[str]:
    """Ids of the instances that have all of ``arms``, sorted: an experiment takes the first so many of them, never a
    sample (Gathered section 1 of the method).

    Raises:
        LensproofError: there is none.
    """
    has: dict[str, set[str]] = {}
    for record in records:
        has.setdefault(record.semantic_instance_id, set()).add(record.condition)
    found = sorted(name for name, own in has.items() if own.issuperset(arms))
    if not found:
        raise LensproofError(f"no instance has all of the arms {', '.join(arms)}")
    return found


def chosen(records: Sequence[Record], arms: Sequence[str], first: int, count: int) -> list[Record]:
    """The records, in ``arms``, of ``count`` complete instances from rank ``first`` on, instance by instance.

    Raises:
        LensproofError: there are not so many.
    """
    names = complete(records, arms)
    if first + count > len(names):
        raise LensproofError(
            f"{first + count} instances complete in {', '.join(arms)} are needed, the records have {len(names)}: "
            "build more, or lower the number in the configuration"
        )
    rank = {name: number for number, name in enumerate(names[first : first + count])}
    place = {arm: number for number, arm in enumerate(arms)}
    mine = [record for record in records if record.semantic_instance_id in rank and record.condition in place]
    return sorted(mine, key=lambda record: (rank[record.semantic_instance_id], place[record.condition]))


@torch.no_grad()
def query_states(
    decoder: Decoder, tokenizer: PreTrainedTokenizerBase, records: Sequence[Record], progress: str | None = None
) -> Tensor:
    """States of every layer at the query position, the context of an instance run once for all its arms.

    Args:
        decoder: the model.
        tokenizer: its tokenizer.
        records: those of an instance one after the other.
        progress: text of a progress bar, or None.

    Returns:
        ``[N, L + 1, d]`` in float32.

    Raises:
        LensproofError: a context is no token prefix of its prompt, or the query position is below 16; names the record.
    """
    groups = [list(group) for _, group in groupby(records, lambda record: record.semantic_instance_id)]
    parts = bar(groups, progress, unit="instance") if progress else groups
    return torch.cat([_of_instance(decoder, tokenizer, group) for group in parts])


def _of_instance(decoder: Decoder, tokenizer: PreTrainedTokenizerBase, group: Sequence[Record]) -> Tensor:
    split = [tokenised(tokenizer, record) for record in group]
    context = torch.tensor(split[0].context)
    states = continued(decoder, context, [torch.tensor(prompt.rest) for prompt in split])
    at = [_query(record, len(context), len(prompt.rest)) for record, prompt in zip(group, split, strict=True)]
    return torch.stack([state[:, where] for state, where in zip(states, at, strict=True)]).float().cpu()


def _query(record: Record, context: int, rest: int) -> int:
    """The query position, counted from the end of the context."""
    position = record.query_position + (context + rest if record.query_position < 0 else 0)
    if position < max(context, FLOOR):
        where = "inside the context" if position < context else f"below position {FLOOR}, where no lens is fitted"
        raise LensproofError(f"{record.id}: the query position {record.query_position} lies {where}")
    if position >= context + rest:
        raise LensproofError(f"{record.id}: the query position {record.query_position} lies outside the prompt")
    return position - context


def save(path: str | Path, states: Tensor, records: Sequence[Record], provenance: Mapping[str, Any]) -> None:
    """Write states with the ids of their records."""
    write_safetensors(path, {"states": states}, {**provenance, "records": [record.id for record in records]})


def load(
    paths: Sequence[str | Path], records: Sequence[Record], decoder: Decoder, weights: str, source: str
) -> tuple[list[Record], Tensor]:
    """The records whose states the files hold, in their order, and the states ``[N, L + 1, d]``.

    Args:
        paths: shards that :func:`save` wrote.
        records: of the file that they were made from.
        decoder: the model.
        weights: sha256 of the checkpoint's weights.
        source: sha256 of the file of records.

    Raises:
        LensproofError: a file is missing or damaged, was made with other weights or of other records, or holds states
            of a record that another one holds too.
    """
    by_id, seen = {record.id: record for record in records}, {}
    states = []
    for path in paths:
        names, own = _named(path, decoder)
        if (wrong := _not_of(read_provenance(path), weights, source, by_id)) is not None:
            build = command_for(path)
            raise LensproofError(f"{path} {wrong}: {f'build it again with `{build}`' if build else 'give another'}")
        for name in names:
            if (other := seen.setdefault(name, path)) != path:
                raise LensproofError(f"{other} and {path} both hold states of {name}: give each shard once")
        states.append(own)
    return [by_id[name] for name in seen], torch.cat(states)


def _named(path: str | Path, decoder: Decoder) -> tuple[list[str], Tensor]:
    """Ids of the records in a file, and their states, which fit the model."""
    tensors, names = read_safetensors(path), read_provenance(path).get("records", [])
    check_shapes(path, tensors, {"states": ("records", "layers", "width")})
    states = tensors["states"]
    if states.shape[1:] != (decoder.depth + 1, decoder.width):
        raise damaged(path, f"its states are not those of {decoder.depth} blocks of width {decoder.width}")
    if len(names) != len(states):
        raise damaged(path, f"it holds {len(states)} states of {len(names)} records")
    return names, states


def _not_of(provenance: Mapping[str, Any], weights: str, source: str, records: Container[str]) -> str | None:
    """What a file of states was made of in place of these weights and records, if it was."""
    if provenance.get("weights") != weights:
        return "was made with other weights"
    if provenance.get("inputs", {}).get("records", {}).get("sha256") != source:
        return "was made of other records than these, or of these before they changed"
    strangers = [name for name in provenance.get("records", []) if name not in records]
    return f"holds states of {strangers[0]}, which is not among the records" if strangers else None


def by_instance(records: Sequence[Record]) -> Iterator[tuple[str, list[int]]]:
    """Each instance with the places of its records."""
    places: dict[str, list[int]] = {}
    for place, record in enumerate(records):
        places.setdefault(record.semantic_instance_id, []).append(place)
    return iter(places.items())
