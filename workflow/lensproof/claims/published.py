"""The papers' own values, by dotted path: ``lexframe.table1.lexframe_1.kl`` holds one number per checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lensproof.errors import LensproofError


def values(published: Mapping[str, Any], path: str) -> dict[str, float]:
    """Published checkpoint -> value.

    Args:
        published: a paper's file.
        path: dotted path that starts with the paper's name. It must end at one number for all of the paper's
            checkpoints, at a list of one for each in their order, or at a mapping by the beginning of their names; the
            mapping may leave out checkpoints that the paper gives no number for. Numbers in the path choose from what
            stands there for each checkpoint (``...first_to_last.1``).

    Raises:
        LensproofError: nothing of that kind stands there.
    """
    node: Any = published
    keys = path.split(".")[1:]
    while keys and isinstance(node, Mapping) and not keys[0].isdecimal():
        key = keys.pop(0)
        if key not in node:
            raise LensproofError(f"nothing is published at {path} (no {key!r}): correct the path in claims.yaml")
        node = node[key]
    checkpoints = list(published["checkpoints"])
    stated = {name: _chosen(value, keys) for name, value in _by_checkpoint(node, checkpoints).items()}
    if not stated or not all(isinstance(value, int | float) for value in stated.values()):
        raise LensproofError(f"{path} must hold one number, or one for each of {', '.join(checkpoints)}")
    return {name: float(value) for name, value in stated.items()}


def _by_checkpoint(node: Any, checkpoints: list[str]) -> dict[str, Any]:
    if isinstance(node, Mapping):
        named = {start: [name for name in checkpoints if name.startswith(str(start))] for start in node}
        if not all(len(names) == 1 for names in named.values()):
            return {}  # a name that is none, or that of several
        return {names[0]: node[start] for start, names in named.items()}
    if isinstance(node, list):
        return dict(zip(checkpoints, node, strict=True)) if len(node) == len(checkpoints) else {}
    return dict.fromkeys(checkpoints, node)


def _chosen(node: Any, keys: list[str]) -> Any:
    """What the rest of the path chooses, None where nothing stands there."""
    for key in keys:
        if not (isinstance(node, list) and key.isdecimal() and int(key) < len(node)):
            return None
        node = node[int(key)]
    return node
