"""The records under ``results/claims``: reading them back, and holding them against what is expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lensproof.claims import catalogue
from lensproof.errors import LensproofError
from lensproof.files import read_json
from lensproof.presets import command


def record_path(results: Path, claim: str) -> Path:
    """Where the record of a claim stands."""
    return Path(results) / "claims" / f"{claim}.json"


def record(results: Path, claim: str, published: Path = catalogue.PUBLISHED) -> dict[str, Any]:
    """The record of one claim.

    Raises:
        LensproofError: there is no such claim, or it has not been judged yet; the line says what to type.
    """
    catalogue.known(claim, published)
    path = record_path(results, claim)
    if not path.exists():
        raise LensproofError(f"{claim} has not been judged yet: run `{command(f'claim_{claim}', results=results)}`")
    return read_json(path)


def records(results: Path, paper: str | None = None, published: Path = catalogue.PUBLISHED) -> dict[str, Any]:
    """Claim id -> record, or None where the claim has not been judged, in the order of ``claims.yaml``."""
    names = [name for name, of in catalogue.experiments(published).items() if paper in (None, of.split("/")[0])]
    paths = {name: record_path(results, name) for name in names}
    return {name: read_json(path) if path.exists() else None for name, path in paths.items()}


def levels(judged: Iterable[dict[str, Any] | None]) -> list[str]:
    """The levels of records' verdicts, in the order of :data:`lensproof.claims.catalogue.LEVELS`."""
    found = {case["level"] for record in judged if record for case in record["checkpoints"]}
    return [level for level in catalogue.LEVELS if level in found]


def preset_of(record: dict[str, Any]) -> str | None:
    """The preset that made the estimates of a record, several with commas, or None where none was recorded."""
    return ", ".join(dict.fromkeys(case["preset"] for case in record["checkpoints"] if case["preset"])) or None


def shortfalls(judged: dict[str, Any], expected: dict[str, list[str]]) -> Iterator[str]:
    """One line for each claim that should hold at a level of this run and does not.

    A checkpoint on which the claim is not testable (embeddings not tied, say) does not count, unless it is not
    testable on any of that level.

    Args:
        judged: from :func:`records`; at least one claim judged.
        expected: claim id -> the levels at which it should hold.
    """
    here, judging = levels(judged.values()), [record for record in judged.values() if record]
    preset = preset_of(judging[0])
    for name, record in judged.items():
        for level in (level for level in here if level in expected[name]):
            if record is None:
                yield f"{name}: not run; build it with `{command(f'claim_{name}', preset=preset)}`"
                break
            yield from _short(name, [case for case in record["checkpoints"] if case["level"] == level])


def _short(name: str, cases: list[dict[str, Any]]) -> Iterator[str]:
    """What is short of a claim at one level."""
    if cases and all(case["verdict"] == "not testable" for case in cases):
        yield f"{name}: not testable on any {cases[0]['level']} checkpoint; {cases[0]['reason']}"
    for case in cases:
        if case["verdict"] in ("contradicted", "inconclusive"):
            yield f"{name}: {case['verdict']} on {case['checkpoint']}; {case['reason']}"
