"""From estimates to a verdict, with everything that a reviewer needs to check it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from lensproof.claims import guards
from lensproof.claims.catalogue import Level
from lensproof.claims.evidence import NAMES, Estimate, Evidence, Missing, Quantity, layer_words
from lensproof.claims.models import FEWEST, Claim
from lensproof.claims.published import values
from lensproof.claims.rules import Part
from lensproof.errors import LensproofError
from lensproof.presets import command

COLUMNS = (
    "claim", "paper", "group", "level", "preset", "checkpoint", "statement", "published", "estimate", "lo", "hi", "n",
    "layers", "rule", "verdict", "reason",
)  # fmt: skip


def evidence(
    estimates: pd.DataFrame,
    published: Mapping[str, Any],
    tied: Mapping[str, bool] | None = None,
    experiment: str = "readings",
) -> list[Evidence]:
    """The evidence of each checkpoint in an estimates table.

    Args:
        estimates: rows of one or more checkpoints and experiments.
        published: the paper's file.
        tied: checkpoint -> whether its embeddings are tied, where known.
        experiment: the claim's own; a checkpoint without estimates of it is left out.

    Raises:
        LensproofError: the table is not one of estimates.
    """
    table = _checked(estimates).astype(object)
    names = ["reference", "contrast", "setting", "layer"]
    table[names] = table[names].where(table[names].notna(), None)
    return [
        Evidence(str(name), rows.to_dict("records"), published, (tied or {}).get(str(name)), experiment)
        for name, rows in table.groupby("checkpoint", sort=False)
        if (rows["experiment"] == experiment).any()
    ]


def _checked(estimates: pd.DataFrame) -> pd.DataFrame:
    """The table, if it is one of estimates.

    Raises:
        LensproofError: a column is missing.
    """
    missing = sorted({"checkpoint", *NAMES, *Estimate.__dataclass_fields__} - set(estimates.columns))
    if missing:
        raise LensproofError(f"the estimates lack {', '.join(missing)}: build them again with this version")
    return estimates


def judge(
    name: str, claim: Claim, cases: Sequence[Evidence], level: Level, planted: Collection[str] = ()
) -> dict[str, Any]:
    """The record of a claim: what it says, how it is decided, and the verdict for each checkpoint.

    Args:
        name: the claim's id.
        claim: the claim.
        cases: the evidence, one item per checkpoint.
        level: of the run.
        planted: checkpoints whose verdicts are of the level planted, whatever the run's.

    Returns:
        Plain types only (``workflow/schemas/claim.schema.yaml``), without provenance.
    """
    if not cases:
        raise LensproofError(f"no estimates to judge {name} on: give those of {claim.experiment}")
    verdicts = [_verdict(claim, it, "planted" if it.checkpoint in planted else level) for it in cases]
    return {
        **about(name, claim, cases[0].published, level),
        "checkpoints": together(verdicts, claim.across) if claim.across else verdicts,
    }


def about(name: str, claim: Claim, published: Mapping[str, Any], level: Level) -> dict[str, Any]:
    """The part of a claim's record that no estimate can change; arguments as for :func:`judge`."""
    return {
        "claim": name,
        "paper": claim.paper,
        "group": claim.group,
        "statement": claim.statement,
        "location": claim.location,
        "level": level,
        "across": claim.across,
        "experiment": claim.experiment,
        "published": _published(claim, published),
        "rule": {"words": claim.words(level), "data": claim.rule.model_dump(mode="json", exclude_none=True)},
    }


def _published(claim: Claim, published: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Path by path, the values in the order of the paper's checkpoints."""

    def stated(path: str) -> list[dict[str, Any]]:
        return [{"checkpoint": name, "value": value} for name, value in values(published, path).items()]

    return [{"path": path, "values": stated(path)} for path in claim.published]


def _verdict(claim: Claim, case: Evidence, level: Level) -> dict[str, Any]:
    checked = guards.check(claim, case, level)
    failed = [f"needs {guard.asks} (here: {guard.found})" for guard in checked if not guard.passes]
    outcome = claim.rule.decide(case, level)
    decisive = outcome.decisive
    return {
        "checkpoint": case.checkpoint,
        "level": level,
        "expected": level in claim.expected,
        "rule": claim.words(level),
        "verdict": "not testable" if failed else outcome.verdict,
        "reason": "; ".join(failed) if failed else decisive.reason,
        "decisive": None if decisive.estimate is None else decisive.quantity.words(),
        "estimate": _plain(decisive.estimate),
        "layers": list(decisive.layers),
        "apart": decisive.apart or None,
        "outcome": outcome.verdict,
        "guards": [dataclasses.asdict(guard) for guard in checked],
        "parts": [_part(part) for part in outcome.parts],
        "values": list(_values([*_compared(outcome.parts), *claim.beside], case)),
    }


def together(verdicts: list[dict[str, Any]], across: str) -> list[dict[str, Any]]:
    """Verdicts of a claim across checkpoints: those of one level share theirs, and each keeps what its own rule says.

    Checkpoints on which the claim cannot be tested are left out, and stay so.
    """
    shared = {}
    for level in {case["level"] for case in verdicts}:
        tested = [case for case in verdicts if case["level"] == level and case["verdict"] != "not testable"]
        found = Counter(case["verdict"] for case in tested)
        shared[level] = (_shared(found, across), _counted(found, tested, across))
    return [case if case["verdict"] == "not testable" else _sharing(case, *shared[case["level"]]) for case in verdicts]


def _shared(found: Counter[str], across: str) -> str:
    ranking = ["contradicted", "inconclusive", "reproduced"]
    if found.total() < FEWEST:
        return "not testable"
    return next(verdict for verdict in (ranking if across == "every" else ranking[::-1]) if found[verdict])


def _counted(found: Counter[str], tested: list[dict[str, Any]], across: str) -> str:
    names = ", ".join(case["checkpoint"] for case in tested)
    if found.total() < FEWEST:
        return f"needs at least {FEWEST} checkpoints on which it can be tested (here: {names})"
    return f"claimed of {across} checkpoint; it holds on {found['reproduced']} of {found.total()} ({names})"


def _sharing(case: dict[str, Any], verdict: str, counted: str) -> dict[str, Any]:
    return {**case, "verdict": verdict, "reason": f"{counted}; here {case['reason']}"}


def _part(part: Part) -> dict[str, Any]:
    return {
        "quantity": part.quantity.words(),
        "verdict": part.verdict,
        "reason": part.reason,
        "estimate": _plain(part.estimate),
        "layers": list(part.layers),
        "by_layer": [_at_layer(layer, estimate) for layer, estimate in part.by_layer],
    }


def _at_layer(layer: int, estimate: Estimate) -> dict[str, Any]:
    plain = _plain(estimate)
    return {"layer": layer, **{name: plain[name] for name in ("point", "lo", "hi")}}


def _plain(estimate: Estimate | None) -> dict[str, Any] | None:
    """An estimate as JSON can hold it: what is not defined is null."""
    if estimate is None:
        return None
    record = {name: getattr(value, "item", lambda value=value: value)() for name, value in vars(estimate).items()}
    return {name: None if value != value else value for name, value in record.items()}


def _compared(parts: Iterable[Part]) -> Iterator[Quantity]:
    """The plain values that the contrasts compare."""
    return (quantity for part in parts for quantity in part.quantity.beside())


def _values(quantities: Iterable[Quantity], case: Evidence) -> Iterator[dict[str, Any]]:
    """What a reader is to see beside the parts, each once, as far as it was estimated."""
    for quantity in dict.fromkeys(quantities):
        with contextlib.suppress(Missing):
            by_layer = [_at_layer(*item) for item in case.behind(quantity).items()]
            yield {
                "quantity": quantity.words(),
                "estimate": _plain(case.find(quantity)),
                "layers": case.layers(quantity),
                "by_layer": by_layer,
            }


def csv_rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of ``results/claims.csv`` (:data:`COLUMNS`) for a claim's record, one per checkpoint."""
    common = {name: record[name] for name in ("claim", "paper", "group", "statement")}
    rows = []
    for case in record["checkpoints"]:
        estimate = case["estimate"] or dict.fromkeys(("point", "lo", "hi", "n"))
        numbers = {"estimate": estimate["point"], "lo": estimate["lo"], "hi": estimate["hi"], "n": estimate["n"]}
        numbers["layers"] = over(case["estimate"], case["layers"])
        about = {name: case[name] for name in ("preset", "checkpoint", "level", "rule", "verdict", "reason")}
        rows.append({**common, **numbers, **about, "published": published_words(record["published"])})
    return rows


def over(estimate: Mapping[str, Any] | None, layers: Sequence[int]) -> str:
    """Which layers an estimate is made from: ``1 to 29``, ``3 to 27 by 3``, ``15``, or how many if it does not say."""
    if layers or estimate is None:
        return layer_words(layers)
    if estimate["layer"] is not None:
        return str(estimate["layer"])
    return f"{estimate['layers']} layers" if estimate["layers"] > 1 else ""


def not_run(
    name: str, claim: Claim, published: Mapping[str, Any], level: Level, preset: str | None = None
) -> dict[str, Any]:
    """The row of ``results/claims.csv`` for a claim that nothing was computed for."""
    row = {
        "claim": name,
        "paper": claim.paper,
        "group": claim.group,
        "level": level,
        "preset": preset,
        "statement": claim.statement,
        "published": published_words(_published(claim, published)),
        "rule": claim.words(level),
        "verdict": "not run",
        "reason": f"build it with `{command(f'claim_{name}', preset=preset)}`",
    }
    return {**dict.fromkeys(COLUMNS), **row}


def published_words(published: list[dict[str, Any]]) -> str:
    """Published values in one line: ``table1.lexframe_1.kl 0.16 (smollm3-3b), 0.15 (olmo3-7b); ...``. A value that
    several checkpoints share stands alone, one that is of a single checkpoint names it."""
    return "; ".join(f"{item['path'].partition('.')[2]} {_stated(item['values'])}" for item in published)


def _stated(stated: list[dict[str, Any]]) -> str:
    if len(stated) > 1 and len({item["value"] for item in stated}) == 1:
        return f"{stated[0]['value']:g}"
    return ", ".join(f"{item['value']:g} ({item['checkpoint']})" for item in stated)
