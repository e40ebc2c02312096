"""How methods, measures and checkpoints are called in figures and tables."""

from __future__ import annotations

from collections.abc import Iterable

from lensproof.errors import LensproofError
from lensproof.statistics.methods import FRAME

METHODS = {"logit_lens": "Logit lens", "jacobian_lens": "Jacobian lens", "model": "Model itself"}
MEASURES = {"kl": "KL (nats)", "top1": "Top-1", "ece": "ECE"}


def method_title(method: str) -> str:
    """``lexframe_1`` as ``LexFrame[1]``, the way the paper writes it."""
    return METHODS.get(method) or f"LexFrame[{method.removeprefix(FRAME)}]"


def titles(pairs: Iterable[str]) -> dict[str, str]:
    """``["toy=A toy model"]`` as checkpoint -> title.

    Raises:
        LensproofError: a pair has no ``=``.
    """
    split = [pair.partition("=") for pair in pairs]
    for name, equals, _ in split:
        if not equals:
            raise LensproofError(f"--title {name}: write it as CHECKPOINT=TEXT")
    return {name: text for name, _, text in split}
