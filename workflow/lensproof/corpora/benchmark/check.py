"""Whether a file of records can be run with a tokenizer: ours, or one in the published benchmark's format."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lensproof.corpora.benchmark import invariants
from lensproof.corpora.benchmark.record import ARMS, Record, numbered_records
from lensproof.corpora.benchmark.vocabulary import Vocabulary
from lensproof.errors import LensproofError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}")
"""``{{FLORES}}``: where a text that may not be passed on was taken out."""


@dataclass(frozen=True)
class Summary:
    """What a file holds.

    Attributes:
        counts: (family, arm) -> records.
        instances: semantic instances.
        complete: of these, instances that have every arm that their family has.
        clusters: what is resampled: passages where instances share them, else instances.
        longest: tokens of the longest prompt.
    """

    counts: Counter[tuple[str, str]]
    instances: int
    complete: int
    clusters: int
    longest: int

    def lines(self) -> list[str]:
        """For people."""
        whole = f"{self.counts.total()} records of {self.instances} instances in {self.clusters} clusters"
        lines = [f"{whole}; {self.complete} have all arms; the longest prompt has {self.longest} tokens"]
        for family in sorted({family for family, _ in self.counts}):
            arms = ", ".join(f"{arm} {self.counts[family, arm]}" for arm in ARMS if self.counts[family, arm])
            lines.append(f"{family}: {arms}")
        return lines


def check(path: str | Path, tokenizer: PreTrainedTokenizerBase) -> Summary:
    """Check a file of records.

    Raises:
        LensproofError: a line that is no record; an id that occurs twice; an unknown arm; a placeholder where a
            passage should be; a token that is not this tokenizer's; a right answer that is not among the candidates;
            unequal contexts in an instance; a context that is no token prefix of the prompt; a dummy that is the gold
            value. The message names file and line.
    """
    lines, vocabulary = numbered_records(path), Vocabulary(tokenizer)
    number = {id(record): line for line, record in lines.items()}
    _distinct(path, lines)
    longest = 0
    for line, record in lines.items():
        try:
            longest = max(longest, _runnable(record, vocabulary))
        except LensproofError as error:
            raise LensproofError(f"{path}, line {line}: {error}") from None
    instances = _instances(list(lines.values()))
    for records in instances.values():
        for found in invariants.broken(records, vocabulary):
            raise LensproofError(f"{path}, line {number[id(found.record)]}: {found.record.id}: {found}")
    return _summary(instances, longest)


def _distinct(path: str | Path, lines: dict[int, Record]) -> None:
    first: dict[str, int] = {}
    for line, record in lines.items():
        if record.id in first:
            raise LensproofError(f"{path}, line {line}: the id {record.id!r} stands in line {first[record.id]} already")
        first[record.id] = line


def _runnable(record: Record, vocabulary: Vocabulary) -> int:
    """Tokens of its prompt, if it can be run at all."""
    if record.condition not in ARMS:
        raise LensproofError(f"{record.id}: the condition {record.condition!r} is not an arm ({', '.join(ARMS)})")
    placeholder = PLACEHOLDER.search(record.prompt)
    if placeholder:
        raise LensproofError(f"{record.id}: {placeholder[0]} stands where the passage should: put the text in first")
    length = len(vocabulary.encode(record.prompt))
    if not -length <= record.query_position < length:
        raise LensproofError(f"{record.id}: query_position {record.query_position} is outside of {length} tokens")
    return length


def _instances(records: list[Record]) -> dict[tuple[str, str], list[Record]]:
    """(family, instance) -> its records."""
    instances: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        instances.setdefault((record.family, record.semantic_instance_id), []).append(record)
    return instances


def _summary(instances: dict[tuple[str, str], list[Record]], longest: int) -> Summary:
    records = [record for group in instances.values() for record in group]
    counts = Counter((record.family, record.condition) for record in records)
    arms = {family: sum(1 for other, _ in counts if other == family) for family, _ in instances}
    complete = sum(len(group) == arms[family] for (family, _), group in instances.items())
    clusters = len({(record.family, record.cluster) for record in records})
    return Summary(counts, len(instances), complete, clusters, longest)
