"""What was judged, ``results/claims`` and ``results/claims.csv``: reading it back, and holding it against what is
expected.

Neither is trusted. A record holds a digest of its own content, and the provenance beside the table one of the table:
what another hand has changed since is refused (a table without its provenance is not held against a digest). So is a
record that was made by another rule than ``claims.yaml`` has now, or that says what no judging writes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lensproof.claims import catalogue
from lensproof.claims.models import Claim, claims
from lensproof.claims.verdicts import COLUMNS, about, together
from lensproof.errors import LensproofError
from lensproof.files import DIGEST_KEY, changed, damaged, provenance_path, read_json, read_sealed, read_table
from lensproof.presets import command
from lensproof.provenance import sha256

if TYPE_CHECKING:
    import pandas as pd
    from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"
VERDICTS = ("reproduced", "contradicted", "inconclusive", "not testable", "not run")
"""In the order in which they are listed."""


def record_path(results: Path, claim: str) -> Path:
    """Where the record of a claim stands."""
    return Path(results) / "claims" / f"{claim}.json"


def record(results: Path, claim: str, published: Path = catalogue.PUBLISHED) -> dict[str, Any]:
    """The record of one claim.

    Raises:
        LensproofError: there is no such claim, it has not been judged yet, or its record is damaged; the line says
            what to type.
    """
    read = reader(published)
    catalogue.known(claim, published)
    path = record_path(results, claim)
    if not path.exists():
        raise LensproofError(f"{claim} has not been judged yet: run `{command(f'claim_{claim}', results=results)}`")
    return read(path)


def records(results: Path, paper: str | None = None, published: Path = catalogue.PUBLISHED) -> dict[str, Any]:
    """Claim id -> record, or None where the claim has not been judged, in the order of ``claims.yaml``.

    Raises:
        LensproofError: a record is damaged.
    """
    read = reader(published)
    names = [name for name, of in catalogue.experiments(published).items() if paper in (None, of.split("/")[0])]
    paths = {name: record_path(results, name) for name in names}
    return {name: read(path) if path.exists() else None for name, path in paths.items()}


def reader(published: Path = catalogue.PUBLISHED) -> Callable[[Path], dict[str, Any]]:
    """What reads a record, if it is one of the claim that its file is named after, as ``claims.yaml`` has it now.

    Raises:
        LensproofError: here and there; of a record, naming the file and what is wrong.
    """
    known = claims(published)
    stated = {paper: catalogue.load(paper, published) for paper in {claim.paper for claim in known.values()}}

    def read(path: Path) -> dict[str, Any]:
        value = read_sealed(path)
        for why in _wrong(value, path.stem, known, stated):
            raise damaged(path, why)
        return value

    return read


def _wrong(value: Any, name: str, known: Mapping[str, Claim], stated: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a record, the worst first."""
    from jsonschema.exceptions import best_match

    if error := best_match(_schema().iter_errors(value)):
        where = error.json_path.removeprefix("$").removeprefix(".")
        yield f"{where}: {_short(error.message)}" if where else _short(error.message)
    if value["claim"] != name:
        yield f"it holds the claim {value['claim']}"
    if name not in known:
        yield "claims.yaml has no such claim"
    wanted = _fixed(about(name, known[name], stated[known[name].paper], value["level"]))
    for key, said in _fixed(value).items():
        if said != wanted[key]:
            yield f"its {key} is not what claims.yaml and the paper's values say now"
    seen = [case["checkpoint"] for case in value["checkpoints"]]
    if len(set(seen)) < len(seen):
        yield "it holds a checkpoint twice"
    for case in value["checkpoints"]:
        if case["level"] not in ("planted", value["level"]):
            yield f"the level on {case['checkpoint']} is {case['level']}, the run's is {value['level']}"
        if case["expected"] != (case["level"] in known[name].expected):
            yield f"what is expected on {case['checkpoint']} is not what claims.yaml says now"
    for case, says in zip(value["checkpoints"], _verdicts(value), strict=True):
        yield from _wrong_case(case, says)


def _fixed(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says that the papers' values and claims.yaml decide, apart from words and order."""
    stated = {item["path"]: {of["checkpoint"]: of["value"] for of in item["values"]} for item in record["published"]}
    plain = {key: record[key] for key in ("paper", "experiment", "across")}
    return {**plain, "published": stated, "rule": record["rule"]["data"]}


def _verdicts(record: Mapping[str, Any]) -> list[str]:
    """What rule and guards say on each checkpoint: what the rule does unless a guard fails; of a claim across
    checkpoints, what those of one level say together."""
    cases = [
        {**case, "verdict": case["outcome"] if all(guard["passes"] for guard in case["guards"]) else "not testable"}
        for case in record["checkpoints"]
    ]
    return [case["verdict"] for case in (together(cases, record["across"]) if record["across"] else cases)]


def _wrong_case(case: Mapping[str, Any], says: str) -> Iterator[str]:
    """A verdict is what rule and guards say, and a rule says what one of its parts does."""
    if case["verdict"] != says:
        yield f"the verdict on {case['checkpoint']} is {case['verdict']}, its rule and guards say {says}"
    if case["outcome"] not in [part["verdict"] for part in case["parts"]]:
        yield f"the outcome on {case['checkpoint']} is {case['outcome']}, no part of its rule says so"
    for estimate in _estimates(case):
        if estimate["lo"] is not None and estimate["hi"] is not None and not estimate["lo"] <= estimate["hi"]:
            yield f"an interval on {case['checkpoint']} ends before it starts"


def _estimates(case: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for item in (case, *case["parts"], *case["values"]):
        yield from filter(None, (item["estimate"], *item.get("by_layer", ())))


def _short(message: str, most: int = 160) -> str:
    """The end of a message of jsonschema says what is wrong, its start shows the value, which may be long."""
    return message if len(message) <= most else f"... {message[-most:]}"


@functools.cache
def _schema() -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    text = (SCHEMAS / "claim.schema.yaml").read_text(encoding="utf-8")
    return Draft202012Validator(yaml.load(text, Loader=catalogue.LOADER))  # noqa: S506  # a safe one


def table(path: Path, published: Path = catalogue.PUBLISHED) -> pd.DataFrame:
    """``results/claims.csv``: at least a row of every claim, one for each checkpoint that it was judged on.

    Raises:
        LensproofError: it is missing or damaged, or something else; the line says what is wrong.
    """
    if path.exists() and provenance_path(path).exists():
        made = read_json(provenance_path(path))
        if isinstance(made, dict) and made.get(DIGEST_KEY, sha256(path)) != sha256(path):
            raise changed(path, f"its sha256 is not that in {provenance_path(path).name}")
    found = read_table(path, COLUMNS)
    for why in _wrong_table(found, list(catalogue.experiments(published))):
        raise damaged(path, why)
    return found


def _wrong_table(found: pd.DataFrame, names: list[str]) -> Iterator[str]:
    for column, known in (("claim", names), ("verdict", VERDICTS), ("level", catalogue.LEVELS)):
        for value in found.loc[~found[column].isin(known), column]:
            yield f"there is no {column} {value}"
    for name in names:
        if name not in set(found["claim"]):
            yield f"it has no row of {name}"
    places = found[["claim", "checkpoint"]]
    for claim in found.loc[places.duplicated(), "claim"]:
        yield f"it has a row of {claim} twice"
    for column in ("estimate", "lo", "hi", "n"):
        for value in found[column].dropna():
            if not isinstance(value, int | float) or not math.isfinite(value):
                yield f"{column} is {value}"
    for claim in found.loc[found["lo"] > found["hi"], "claim"]:
        yield f"an interval of {claim} ends before it starts"


def levels(judged: Iterable[dict[str, Any] | None]) -> list[str]:
    """The levels of records' verdicts, in the order of :data:`lensproof.claims.catalogue.LEVELS`."""
    found = {case["level"] for record in judged if record for case in record["checkpoints"]}
    return [level for level in catalogue.LEVELS if level in found]


def preset_of(record: dict[str, Any]) -> str | None:
    """The preset that made the estimates of a record, several with commas, or None where none was recorded."""
    return ", ".join(dict.fromkeys(case["preset"] for case in record["checkpoints"] if case["preset"])) or None


def presets(judged: Mapping[str, Any]) -> dict[str, list[str]]:
    """Preset -> the claims that were judged on its estimates, the most frequent first; a claim judged on those of
    several stands with each.

    Args:
        judged: from :func:`records`. What no preset was recorded for is left out.
    """
    found: dict[str, list[str]] = {}
    for name, record in judged.items():
        cases = record["checkpoints"] if record else ()
        for preset in dict.fromkeys(case["preset"] for case in cases if case["preset"]):
            found.setdefault(preset, []).append(name)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def check_together(judged: Mapping[str, Any], results: Path) -> None:
    """Whether the records are those of one run.

    Args:
        judged: from :func:`records`.
        results: where they stand.

    Raises:
        LensproofError: they are of several levels or presets, or a record's checkpoints are not those of the other
            records of its paper.
    """
    there = {name: record for name, record in judged.items() if record}
    build = command("claims", results=results)
    if len(levels := dict.fromkeys(record["level"] for record in there.values())) > 1:
        raise LensproofError(f"{results} holds verdicts of several levels ({', '.join(levels)}): run `{build}`")
    if len(of := presets(there)) > 1:
        said = ", ".join(f"{record_path(results, names[0])} of {preset}" for preset, names in of.items())
        raise LensproofError(f"{results} holds verdicts of several presets ({said}): build all with one, `{build}`")
    for name, its, usual in _odd(there):
        path = record_path(results, name)
        again = command(path, results=results)
        raise LensproofError(
            f"{path} is on {', '.join(its)}, the other claims of its paper on {', '.join(usual)}: remove it and judge "
            f"it again with `{again}`"
        )


def _odd(there: Mapping[str, Any]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each claim that was not judged on the checkpoints of most claims of its paper, with these and those."""
    on = {name: sorted(case["checkpoint"] for case in record["checkpoints"]) for name, record in there.items()}
    for paper in dict.fromkeys(record["paper"] for record in there.values()):
        own = {name: on[name] for name, record in there.items() if record["paper"] == paper}
        usual = max(own.values(), key=lambda its: (list(own.values()).count(its), len(its)))
        yield from ((name, its, usual) for name, its in own.items() if its != usual)


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
            yield from _at_level(name, [case for case in record["checkpoints"] if case["level"] == level])


def _at_level(name: str, cases: list[dict[str, Any]]) -> Iterator[str]:
    """What is short of a claim at one level."""
    if cases and all(case["verdict"] == "not testable" for case in cases):
        yield f"{name}: not testable on any {cases[0]['level']} checkpoint; {cases[0]['reason']}"
    for case in cases:
        if case["verdict"] in ("contradicted", "inconclusive"):
            yield f"{name}: {case['verdict']} on {case['checkpoint']}; {case['reason']}"
