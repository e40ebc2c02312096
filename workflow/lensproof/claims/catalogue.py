"""What ``paper/published/`` holds, read without anything heavy: the Snakefile calls this on every parse."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from lensproof.errors import LensproofError

PUBLISHED = Path(__file__).resolve().parents[3] / "paper" / "published"
"""The papers' values and the claims, the only place where such a number stands."""

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # eight times as fast, where libyaml is there
Run = Literal["smoke", "desk", "paper"]
"""What the verdicts of a run speak for."""
Level = Literal["planted", Run]
"""A planted checkpoint's verdicts are of a level of their own, whatever the run's: its answers are known."""
RUNS: tuple[Run, ...] = get_args(Run)
LEVELS: tuple[Level, ...] = get_args(Level)
VISIBILITY = "visibility"
"""The experiment whose estimates say how often each arm is answered rightly."""


def load(name: str, directory: Path = PUBLISHED) -> dict[str, Any]:
    """One file of ``paper/published/``, ``"claims"`` or a paper's name.

    Raises:
        LensproofError: the file is absent, or not a YAML mapping.
    """
    path = Path(directory) / f"{name}.yaml"
    try:
        value = yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)  # noqa: S506  # either is a safe one
    except FileNotFoundError:
        raise LensproofError(f"{path} does not exist: run inside the repository or name it with --published") from None
    except yaml.YAMLError as error:
        raise LensproofError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise LensproofError(f"{path} must be a mapping")
    return value


def experiments(directory: Path = PUBLISHED) -> dict[str, str]:
    """Claim id -> the experiment whose estimates it is judged on (``lexframe/readings``), in the file's order.

    Claims are not checked here; :func:`lensproof.claims.models.claims` does that.
    """
    entries = load("claims", directory).get("claims", {})
    return {name: f"{entry['paper']}/{entry['experiment']}" for name, entry in entries.items()}


def inputs(directory: Path = PUBLISHED) -> dict[str, list[str]]:
    """Claim id -> every experiment whose estimates its verdict needs, its own first.

    Besides those that the rule names, these are those that guards ask. The readings say how often the model itself is
    right, and how many layers it has, where a layer is counted from the last or as a share of depth; ``visibility``
    says how often each arm is answered rightly.
    """
    needed = {}
    for name, entry in load("claims", directory).get("claims", {}).items():
        named = [entry["experiment"], *_under("experiment", entry["rule"])]
        guards = entry.get("guards") or {}
        relative = any(isinstance(layer, str) for layer in _under("layer", entry["rule"]))
        if relative or "model_accuracy" in guards:
            named.append("readings")
        if "arms" in guards or "above_chance" in guards:
            named.append(VISIBILITY)
        needed[name] = [f"{entry['paper']}/{experiment}" for experiment in dict.fromkeys(named)]
    return needed


def alike(claims: Mapping[str, list[str]]) -> dict[tuple[str, ...], list[str]]:
    """Experiments -> the claims that need these, all of them and no more, in the file's order; from :func:`inputs`."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, needed in claims.items():
        groups.setdefault(tuple(needed), []).append(name)
    return groups


def _under(key: str, node: Any) -> Iterator[Any]:
    """Every value that stands under ``key``, however deep."""
    if isinstance(node, dict):
        yield from (value for name, value in node.items() if name == key)
        node = list(node.values())
    if isinstance(node, list):
        for inner in node:
            yield from _under(key, inner)


def known(claim: str, directory: Path = PUBLISHED) -> str:
    """The id, if there is such a claim.

    Raises:
        LensproofError: there is none; the line lists near matches.
    """
    names = list(experiments(directory))
    if claim in names:
        return claim
    near = difflib.get_close_matches(claim, names, n=3, cutoff=0.4) or [name for name in names if claim in name][:3]
    hint = f"did you mean {', '.join(near)}?" if near else "`lensproof claims` lists them"
    raise LensproofError(f"there is no claim {claim!r}: {hint}")
