"""The papers' own values, by dotted path: ``lexframe.table1.lexframe_1.kl`` holds one number per checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lensproof.errors import LensproofError


def values(published: Mapping[str, Any], path: str) -> dict[str, float]:
    """Published checkpoint -> value.

    Args:
        published: a paper's file.
        path: dotted path that starts with the paper's name; it must end at one number for all of the paper's
            checkpoints, or at a list with one for each, in their order.

    Raises:
        LensproofError: nothing of that kind stands there.
    """
    node: Any = published
    for key in path.split(".")[1:]:
        if not isinstance(node, Mapping) or key not in node:
            raise LensproofError(f"nothing is published at {path} (no {key!r}): correct the path in claims.yaml")
        node = node[key]
    checkpoints = list(published["checkpoints"])
    stated = node if isinstance(node, list) else [node] * len(checkpoints)
    if len(stated) != len(checkpoints) or not all(isinstance(value, int | float) for value in stated):
        raise LensproofError(f"{path} must hold one number, or one for each of {', '.join(checkpoints)}")
    return dict(zip(checkpoints, map(float, stated), strict=True))
