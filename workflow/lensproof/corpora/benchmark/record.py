"""A record: one prompt of one arm, with its answers as tokens. Files of them are JSON Lines, in the field names of the
published benchmark, so that its files can be read and ours run elsewhere.

A *semantic instance* is one latent world and one context; its records, one per *arm* (``condition``), share that
context byte for byte and differ in the instruction. Source: Gathered section 1 of the method.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lensproof.errors import LensproofError
from lensproof.files import absent, atomic

ARMS = ("automatic", "report", "flexible", "control", "supplied")
"""From no demand on the latent variable to naming it, feeding it to an operator, and the two controls."""
FAMILIES = ("language", "tracking")
JOIN = "\n\n"
"""Between context and instruction: one blank line."""
LAST = -1
"""The last prompt token, whose prediction is the answer."""


@dataclass(frozen=True)
class Record:
    """One prompt.

    Attributes:
        id: unique in its file.
        family: ``language`` or ``tracking``.
        condition: the arm.
        semantic_instance_id: the instance; its records share the context.
        template_id: which wording of the instruction.
        context: the text that all arms share.
        instruction: what this arm asks, ending in a line with the answer cue.
        latent_name: what the latent variable is (``language``, ``item``).
        latent_value: its value z.
        latent_token_id: token of `` z``, with its leading space.
        control_token_ids: tokens of the other candidates for z, the rivals of M_z.
        gold_answer: the right answer of this arm.
        candidate_answers: the answers that forced choice decides between, the gold one among them.
        candidate_token_ids: the (first) token of each, with its leading space.
        operator_family: ``lookup`` where an operator is applied, else ``none``.
        operator_id: which table, else ``none``.
        query_position: index of the query position in the prompt's tokens; negative from the end.
        answer_position: index of the token whose prediction is the answer.
        meta: everything else that made the record (passage, legend, variant, seed, ...).
    """

    id: str
    family: str
    condition: str
    semantic_instance_id: str
    template_id: str
    context: str
    instruction: str
    latent_name: str
    latent_value: str
    latent_token_id: int
    control_token_ids: tuple[int, ...]
    gold_answer: str
    candidate_answers: tuple[str, ...]
    candidate_token_ids: tuple[int, ...]
    operator_family: str = "none"
    operator_id: str = "none"
    query_position: int = LAST
    answer_position: int = LAST
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def prompt(self) -> str:
        """The whole text that the model is given."""
        return self.context + JOIN + self.instruction

    @property
    def gold(self) -> int:
        """Index of the right answer among the candidates."""
        return self.candidate_answers.index(self.gold_answer)

    @property
    def cluster(self) -> str:
        """What is resampled and split as one: the passage where instances share passages, else the instance."""
        return str(self.meta.get("passage", self.semantic_instance_id))


FIELDS = tuple(item.name for item in dataclasses.fields(Record))


def to_line(record: Record) -> str:
    """The record as one line of JSON: keys in the order of :data:`FIELDS`, text as it is, no spaces to argue about."""
    return json.dumps(dataclasses.asdict(record), ensure_ascii=False)


def write_records(path: str | Path, records: Iterable[Record]) -> None:
    """Write records as JSON Lines, in UTF-8 with ``\\n`` line ends on every system: same records, same bytes."""
    text = "".join(f"{to_line(record)}\n" for record in records)
    with atomic(path) as temporary:
        Path(temporary).write_bytes(text.encode("utf-8"))


def read_records(path: str | Path) -> list[Record]:
    """The records of a file, in its order.

    Their form is checked here; whether they suit a tokenizer is :mod:`lensproof.corpora.benchmark.check`'s affair.

    Raises:
        LensproofError: the file does not exist or is empty, or a line is not a record; the message names the line.
    """
    return list(numbered_records(path).values())


def numbered_records(path: str | Path) -> dict[int, Record]:
    """Number of a line, from 1 -> the record in it; see :func:`read_records`."""
    try:
        lines = Path(path).read_bytes().decode("utf-8").split("\n")
    except FileNotFoundError:
        raise absent(path) from None
    except UnicodeDecodeError as error:
        raise LensproofError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start})") from None
    found = {n: _parsed(f"{path}, line {n}", line) for n, line in enumerate(lines, 1) if line.strip()}
    if not found:
        raise LensproofError(f"{path} holds no records")
    return found


def _parsed(where: str, line: str) -> Record:
    try:
        given = json.loads(line)
    except json.JSONDecodeError as error:
        raise LensproofError(f"{where}: not JSON ({error.msg} at column {error.colno})") from None
    if not isinstance(given, dict):
        raise LensproofError(f"{where}: a record is a JSON object, not {type(given).__name__}")
    missing, unknown = [name for name in FIELDS if name not in given], sorted(set(given) - set(FIELDS))
    if missing or unknown:
        wrong = f"lacks {', '.join(missing)}" if missing else f"has unknown fields {', '.join(unknown)}"
        raise LensproofError(f"{where}: the record {wrong}")
    kinds = [name for name, kind in _KINDS.items() if not _is(given[name], kind)]
    if kinds:
        raise LensproofError(f"{where}: {kinds[0]} is {given[kinds[0]]!r}, not {_WORDS[_KINDS[kinds[0]]]}")
    lists = {name: tuple(given[name]) for name, kind in _KINDS.items() if kind.startswith("list")}
    return Record(**{**given, **lists})


_KINDS = {
    **dict.fromkeys(FIELDS, "text"),
    **dict.fromkeys(("latent_token_id", "query_position", "answer_position"), "number"),
    **dict.fromkeys(("control_token_ids", "candidate_token_ids"), "list of numbers"),
    "candidate_answers": "list of text",
    "meta": "mapping",
}
_WORDS = {kind: kind if kind.startswith(("list", "text")) else f"a {kind}" for kind in set(_KINDS.values())}


def _is(value: Any, kind: str) -> bool:
    match kind:
        case "text":
            return isinstance(value, str)
        case "number":
            return isinstance(value, int) and not isinstance(value, bool)
        case "mapping":
            return isinstance(value, dict)
    of = kind.removeprefix("list of ").removesuffix("s")
    return isinstance(value, list) and all(_is(item, of) for item in value)
