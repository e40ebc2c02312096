"""Where the parts of a planted model go, and what cannot be built."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lensproof.config import PlantedSource
from lensproof.errors import LensproofError

COPY = 1
"""Block of the early head that copies z to every position, in every arm."""
LOWEST, ABOVE = 3, 5
"""Blocks below the planted one, and from it on: for the copy, and for the table, a decoy and readings of either."""
NARROWEST = 32
"""Width of a head that has enough slow rotary pairs."""
STRONGEST = 1.5
"""Of a decoy; more would bring the label's logit near that of the answer."""


@dataclass(frozen=True)
class Plan:
    """A planted model that can be built; blocks count from 0."""

    variant: str
    """``gather`` or ``gate``."""
    block: int
    head: int
    """The head that brings z to the query position: the one that gathers, or a gate's early copier."""
    seed: int
    layers: int
    width: int
    heads: int
    decoy: float | None
    """Shift of M_z that the decoy makes, in units of the gather's or gate's; None without one."""

    @property
    def head_width(self) -> int:
        """Width of a head."""
        return self.width // self.heads

    @property
    def neurons(self) -> int:
        """Neurons of a block's MLP."""
        return self.width // 2

    @property
    def table(self) -> int:
        """Block whose attention applies the table; its MLP answers the arms that need no table."""
        return self.block + 2

    @property
    def late(self) -> int:
        """Block of the decoy, after the answer is decided."""
        return self.table + 1


def plan(source: PlantedSource, needed: int) -> Plan:
    """The plan of a source.

    Args:
        source: as it stands in the registry.
        needed: dimensions of the residual stream that the circuit keeps something in.

    Raises:
        LensproofError: it cannot be built; the message says why.
    """
    for wrong in _wrong(source, needed):
        raise LensproofError(f"this model cannot be planted: {wrong}")
    return Plan(**source.model_dump(exclude={"kind"}))


def _wrong(source: PlantedSource, needed: int) -> Iterator[str]:
    last = source.layers - ABOVE
    if last < LOWEST:
        yield f"{source.layers} blocks leave no room below and above the planted one: at least {LOWEST + ABOVE}"
    if not LOWEST <= source.block <= last:
        yield (
            f"block {source.block} is not between {LOWEST} and {last}: below it the copy is made and read, above it "
            "the table is applied and read"
        )
    if not 0 <= source.head < source.heads:
        yield f"there is no head {source.head}: a block has heads 0 to {source.heads - 1}"
    if source.width % source.heads or source.width // source.heads % 2:
        yield f"a width of {source.width} does not divide among {source.heads} heads of even width"
    if source.width // source.heads < NARROWEST:
        yield f"heads are {source.width // source.heads} wide, and tables need {NARROWEST}: raise width or lower heads"
    if source.heads < 3:
        yield f"{source.heads} heads: block {COPY} alone needs 3"
    if source.width <= needed:
        yield f"a width of {source.width} does not hold the circuit, which needs {needed} dimensions, and any junk"
    if source.decoy is not None and not 0 < source.decoy <= STRONGEST:
        yield f"a decoy of {source.decoy:g} is not above 0 and up to {STRONGEST}: more would overrule the answer"
