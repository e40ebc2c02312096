"""The estimates of one checkpoint, and how a claim names one of them."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Measure = Literal["kl", "top1", "ece", "accuracy"]
Contrast = Literal["difference", "relative_drop", "share_lower", "layer_mean_minus_layer"]
NAMES = ("measure", "method", "reference", "contrast", "layer")
"""The columns that name an estimate of one checkpoint."""
MEASURES = {"kl": "KL", "top1": "Top-1", "ece": "ECE", "accuracy": "accuracy"}


class Strict(BaseModel):
    """A mapping in which an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Quantity(Strict):
    """Which estimate a rule speaks of: the mean over layers 1..L-1 unless it names a layer."""

    measure: Measure
    method: str = Field(description="name of the reading, as in the published values")
    reference: str | None = Field(default=None, description="the reading it is contrasted with")
    contrast: Contrast | None = None
    layer: Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern=r"^L(-\d+)?$")] | None = Field(
        default=None, description="a layer counted from the embedding, or `L-1` counted from the last; none: the mean"
    )

    def words(self) -> str:
        """The quantity as a phrase."""
        name = MEASURES[self.measure]
        of = f"{name} of {self.method}"
        where = "" if self.layer is None else f" at layer {self.layer}"
        mean = f"layer-mean {of}" if self.layer is None and self.method != "model" else of
        match self.contrast:
            case "difference":
                return f"{mean}{where} less that of {self.reference}"
            case "relative_drop":
                return f"share by which {self.method} lowers the layer-mean {name} of {self.reference}"
            case "share_lower":
                return f"share of layers at which the {of} is below that of {self.reference}"
            case "layer_mean_minus_layer":
                return f"layer-mean {of} less its {name}{where}"
        return f"{mean}{where}"

    def beside(self) -> list[Quantity]:
        """The plain values that a contrast compares."""
        if self.contrast == "layer_mean_minus_layer":
            methods, layers = [self.method], [None, self.layer]
        else:
            methods, layers = [name for name in (self.reference, self.method) if self.contrast and name], [None]
        return [Quantity(measure=self.measure, method=name, layer=layer) for name in methods for layer in layers]


@dataclass(frozen=True)
class Estimate:
    """One row of an estimates table."""

    point: float
    lo: float
    hi: float
    numerator: float
    n: int
    clusters: int
    layers: int
    resamples: int
    level: float
    seed: int
    unit: str

    def mirrored(self) -> Estimate:
        """The difference the other way round."""
        return dataclasses.replace(self, point=-self.point, lo=-self.hi, hi=-self.lo)

    def words(self) -> str:
        """``0.16 [0.15, 0.17]``, or what stands in its place."""
        if math.isnan(self.point):
            return f"not defined (numerator {number(self.numerator)}, denominator below 0.001)"
        interval = "interval not defined" if math.isnan(self.lo) else f"{number(self.lo)}, {number(self.hi)}"
        return f"{number(self.point)} [{interval}]"


class Missing(Exception):
    """The estimates do not hold what a rule asks for; the message says what."""


@dataclass(frozen=True)
class Evidence:
    """All that a verdict on one checkpoint may use.

    Attributes:
        checkpoint: its name in the registry.
        rows: the estimates of one experiment, as records.
        published: the paper's file.
        tied: whether input and output embeddings are one matrix; None where nobody said.
    """

    checkpoint: str
    rows: list[Mapping[str, Any]] = field(repr=False)
    published: Mapping[str, Any] = field(repr=False)
    tied: bool | None = None

    @property
    def depth(self) -> int:
        """L, the layer at which the model itself is read."""
        return max(int(row["layer"]) for row in self.rows if row["method"] == "model")

    def find(self, quantity: Quantity) -> Estimate:
        """The estimate that ``quantity`` names.

        Raises:
            Missing: it was not estimated.
        """
        row = self._row(quantity)
        if row is not None:
            return Estimate(**{name: row[name] for name in Estimate.__dataclass_fields__})
        if quantity.contrast == "difference" and quantity.reference is not None:
            swapped = quantity.model_copy(update={"method": quantity.reference, "reference": quantity.method})
            row = self._row(swapped)
            if row is not None:
                return self.find(swapped).mirrored()
        raise Missing(f"there is no estimate of the {quantity.words()}: the config leaves out that reading or layer")

    def _row(self, quantity: Quantity) -> Mapping[str, Any] | None:
        wanted = (quantity.measure, quantity.method, quantity.reference, quantity.contrast, self._layer(quantity))
        return next((row for row in self.rows if wanted == tuple(row[name] for name in NAMES)), None)

    def _layer(self, quantity: Quantity) -> int | None:
        if quantity.method == "model":
            return self.depth
        if isinstance(quantity.layer, str):
            return self.depth - int(re.sub(r"^L-?", "", quantity.layer) or 0)
        return quantity.layer


def number(value: float) -> str:
    """Three digits that matter, without an exponent where that is readable."""
    if value == 0 or math.isnan(value):
        return "0" if value == 0 else "not defined"
    if abs(value) < 1e-4:
        return f"{value:.1e}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 4)}f}"
