"""The estimates of one checkpoint, and how a claim names one of them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

Experiment = Literal[
    "readings", "directions", "substitution", "subspaces", "composition", "decomposition", "steering", "attribution",
    "training", "long_context", "exits", "stand_ins", "examples", "costs", "visibility", "availability",
]  # fmt: skip
Contrast = Literal["difference", "relative_drop", "share_lower", "layer_mean_minus_layer", "relative_range"]
NAMES = ("experiment", "measure", "method", "reference", "contrast", "setting", "layer")
"""The columns that name an estimate of one checkpoint."""
MODEL = "model"
NEAR = 2
"""Layers. A layer that is a share of depth is the nearest observed one, if it is this near."""


class About(NamedTuple):
    """What a measure is: in words, its unit, and what it is taken over where no layer is named."""

    words: str
    unit: str = "share"
    over: str = "layer-mean "


MEASURES = {
    "kl": About("KL", "nats"),
    "top1": About("Top-1"),
    "ece": About("ECE"),
    "accuracy": About("accuracy", over=""),
    "readback": About("share of positions at which the input token is read back"),
    "cosine": About("cosine with the native readout", "cosine"),
    "angle": About("angle to the native readout", "degrees"),
    "inner_product": About("correlation of <b, x> with the centred logit", "correlation"),
    "relaxation_share": About("share of the remaining angle lost per layer", over=""),
    "relaxation_r2": About("R² of the exponential fit to the angle", over=""),
    "plateau_slope": About("rise per layer over the plateau's layers", "cosine per layer", over=""),
    "spearman": About("rank correlation with the effect of substitution", "correlation"),
    "energy": About("share of the readout's energy inside"),
    "success": About("share of moves after which the token had gained most"),
    "reach": About("Reach"),
    "side": About("Side", "nats"),
    "side_weighted": About("probability-weighted Side", "nats"),
    "clean": About("Clean"),
    "pearson": About("correlation with the measured ablation", "correlation"),
    "attribution": About("correlation of layer attribution with the measured ablation", "correlation"),
    "settled": About("share of layers settled", "share of layers", over=""),
    "skipped": About("share of layers skipped by the exit", "share of layers", over=""),
    "settled_minus_skipped": About("share of layers settled less the share skipped", "share of layers", over=""),
    "agreement": About("agreement at the exit", over=""),
    "first_layer": About("first listed layer at which the model's top token is read", "layers", over=""),
    "probability": About("probability of the top token", "probability", over=""),
    "further_probability": About("probability of the second token", "probability", over=""),
    "seconds": About("processor time", "seconds", over=""),
    "seconds_per_item": About("processor time of one item", "seconds", over=""),
    "time_ratio": About("time over that of calibrating and reading orders 0 to 2", "ratio", over=""),
    # Gathered: methods are arms, settings record sets.
    "rz": About("R_z", "percentile rank", over="band-mean "),
    "lz": About("L_z", "decades", over="band-mean "),
    "mz": About("M_z", "nats", over="band-mean "),
    "rz_max": About("band-maximal R_z", "percentile rank", over=""),
    "lz_median": About("median over instances of the band-mean L_z", "decades", over=""),
    "rz_share": About("distance of R_z from control, as a share of the plain contrast,", "ratio", over=""),
    "rz_inflation": About("share by which the plain contrast of R_z grows", "ratio", over=""),
    "rz_max_share": About("band-maximal contrast of R_z as a share of its largest single-layer contrast,", "ratio", ""),
    "lz_rise": About("rise of L_z about the middle of depth", "decades", over=""),
    "rz_peak": About("depth at which the contrast of R_z peaks,", "share of depth", over=""),
    "lz_peak": About("depth at which the contrast of L_z peaks,", "share of depth", over=""),
    "peak": About("depth at which the contrast peaks in the readout", "share of depth", over=""),
    "profile_correlation": About("correlation, over the band, with the contrast in R_z", "correlation", over=""),
    "saturated": About("share of cells with R_z above 0.999", over=""),
    "saturated_peak": About("share of cells with R_z above 0.999, at the layers where it is highest,", over=""),
    "rz_step": About("R_z between rank 0 and rank 24", "percentile rank", over=""),
    "rz_of_rank_1000": About("R_z at rank 1000", "percentile rank", over=""),
    "open_accuracy": About("accuracy over the whole vocabulary", over=""),
    "chance": About("chance", over=""),
    "probe": About("probe accuracy", over=""),
    "floor": About("probe accuracy on permuted labels", over=""),
    "over_floor": About("probe accuracy over its floor", "ratio", over=""),
    "above_floor_sds": About("probe accuracy above its floor, in standard deviations,", "standard deviations", over=""),
    "evenness": About("lowest over highest probe accuracy", "ratio", over=""),
    "floor_over_chance": About("probe floor over chance", "ratio", over=""),
}
Measure = Literal[*MEASURES]
PLAIN = {"nats": " nats", "degrees": " degrees"}
"""Units that are written after a number; the others are pure numbers."""


class Strict(BaseModel):
    """A mapping in which an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Quantity(Strict):
    """Which estimate a rule speaks of: the mean over layers 1..L-1 unless it names a layer."""

    measure: Measure
    method: str = Field(description="name of the method, as in the published values")
    reference: str | None = Field(default=None, description="the method it is contrasted with")
    contrast: Contrast | None = None
    setting: str | None = Field(
        default=None, description="a further factor; `A_minus_B`: the value at A less that at B, on the same resamples"
    )
    layer: Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern=r"^(mid|L(-\d+)?|\d*L/\d+)$")] | None = Field(
        default=None,
        description="a layer counted from the embedding; `L-1`, counted from the last; `mid` (L/2) or `7L/8`, a share "
        f"of depth: the nearest observed layer within {NEAR}; none: the mean",
    )
    experiment: Experiment | None = Field(default=None, description="whose estimates; none: the claim's own experiment")

    @property
    def unit(self) -> str:
        """What follows a number of this quantity, empty for a pure number."""
        own = self.contrast in (None, "difference", "layer_mean_minus_layer")
        return PLAIN.get(MEASURES[self.measure].unit, "") if own else ""

    def words(self) -> str:
        """The quantity as a phrase."""
        name, _, over = MEASURES[self.measure]
        of = f"{name} of {self.method}"
        mean = f"{over}{of}" if self.layer is None and self.method != MODEL else of
        where = "" if self.layer is None else " at mid-depth" if self.layer == "mid" else f" at layer {self.layer}"
        where += f" ({self.setting.replace('_', ' ')})" if self.setting else ""
        where += f" in {self.experiment}" if self.experiment else ""
        match self.contrast:
            case "difference":
                return f"{mean}{where} less that of {self.reference}"
            case "relative_drop":
                return f"share by which {self.method} lowers the layer-mean {name} of {self.reference}{where}"
            case "share_lower":
                return f"share of layers at which the {of} is below that of {self.reference}{where}"
            case "layer_mean_minus_layer":
                return f"layer-mean {of} less its {name}{where}"
            case "relative_range":
                return f"range of the {mean}{where} as a share of their mean"
        return f"{mean}{where}"

    def beside(self) -> list[Quantity]:
        """The plain values that a contrast compares."""
        methods, layers, settings = [self.method], [self.layer], [self.setting]
        if self.contrast == "layer_mean_minus_layer":
            layers = [None, self.layer]
        elif self.reference:
            methods = [self.reference, self.method]
        if self.setting and "_minus_" in self.setting:
            settings = self.setting.split("_minus_")
        elif not self.contrast:
            return []
        return [
            self.model_copy(
                update={"method": name, "layer": layer, "setting": setting, "reference": None, "contrast": None}
            )
            for setting in settings
            for name in methods
            for layer in layers
        ]


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
    over: str | None
    layer: int | None
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


Rows = dict[int | None, Mapping[str, Any]]
"""Layer -> row."""


@dataclass(frozen=True)
class Evidence:
    """All that a verdict on one checkpoint may use.

    Attributes:
        checkpoint: its name in the registry.
        rows: the estimates of one or more experiments, as records.
        published: the paper's file.
        tied: whether input and output embeddings are one matrix; None where nobody said.
        experiment: the claim's own, meant by a quantity that names none.
    """

    checkpoint: str
    rows: list[Mapping[str, Any]] = field(repr=False)
    published: Mapping[str, Any] = field(repr=False)
    tied: bool | None = None
    experiment: str = "readings"

    @functools.cached_property
    def depth(self) -> int:
        """L, the layer at which the model itself is read.

        Raises:
            Missing: no estimate of the model itself is there to say.
        """
        layers = [row["layer"] for row in self.rows if row["method"] == MODEL and row["layer"] is not None]
        if not layers:
            raise Missing("the number of layers is not known: give the estimates of readings too")
        return int(max(layers))

    @property
    def clusters(self) -> int:
        """Documents behind the estimates of the claim's own experiment."""
        return max((int(row["clusters"]) for row in self.rows if row["experiment"] == self.experiment), default=0)

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
            if self._row(swapped) is not None:
                return self.find(swapped).mirrored()
        raise Missing(
            f"there is no estimate of the {quantity.words()}: the run leaves out that method, layer or setting"
        )

    def token(self, quantity: Quantity) -> str:
        """The token whose probability ``quantity`` names, without spaces around it.

        Raises:
            Missing: it was not estimated, or its estimate names no token.
        """
        self.find(quantity)
        token = self._row(quantity).get("token")
        if not isinstance(token, str):
            raise Missing(f"the {quantity.words()} names no token: give the estimates of examples")
        return token.strip()

    def behind(self, quantity: Quantity) -> dict[int, Estimate]:
        """Of a mean over layers, the same quantity at each of them, rising; empty where single layers were not
        estimated, as for most contrasts.

        Raises:
            Missing: the mean itself was not estimated.
        """
        mean = self.find(quantity)
        if quantity.layer is not None or mean.layer is not None:
            return {}
        layers = self._inner(quantity, mean)
        return {layer: self.find(quantity.model_copy(update={"layer": layer})) for layer in layers}

    def layers(self, quantity: Quantity) -> list[int]:
        """The layers that an estimate is made from, rising; empty where the estimates do not say.

        Raises:
            Missing: it was not estimated.
        """
        found = self.find(quantity)
        if found.layer is not None and quantity.contrast is None:
            return [found.layer]
        # A contrast is made from the layers of what it compares.
        ways = (self._inner(way, found) for way in (quantity, *quantity.beside()))
        return next(filter(None, ways), [])

    def _inner(self, quantity: Quantity, mean: Estimate) -> list[int]:
        """The observed layers between the embedding and the last, or of these those that the mean names, if they are as
        many as its own."""
        names = {**dict(quantity), "experiment": quantity.experiment or self.experiment}
        swapped = {**names, "method": names["reference"], "reference": names["method"]}
        ways = [names, swapped] if quantity.contrast == "difference" else [names]
        rows = {layer for way in ways for layer in self._index.get(tuple(way[name] for name in NAMES[:-1]), {})}
        with contextlib.suppress(Missing):
            rows.discard(self.depth)
        inner = sorted(int(layer) for layer in rows if layer)
        if len(inner) > mean.layers:
            inner = [layer for layer in inner if layer in named_layers(mean.over)]
        return inner if len(inner) == mean.layers else []

    @functools.cached_property
    def _index(self) -> dict[tuple, Rows]:
        found: dict[tuple, Rows] = {}
        for row in self.rows:
            found.setdefault(tuple(row[name] for name in NAMES[:-1]), {}).setdefault(row["layer"], row)
        return found

    def _row(self, quantity: Quantity) -> Mapping[str, Any] | None:
        names = {**dict(quantity), "experiment": quantity.experiment or self.experiment}
        rows = self._index.get(tuple(names[name] for name in NAMES[:-1]), {})
        if isinstance(quantity.layer, str):
            return rows.get(self._layer(quantity.layer, rows))
        if quantity.method == MODEL and quantity.layer is None and None not in rows:
            return rows.get(self.depth)
        return rows.get(quantity.layer)

    def _layer(self, layer: str, rows: Rows) -> int:
        """The observed layer that stands for ``layer``, -1 where none does."""
        if share := re.fullmatch(r"(\d*)L/(\d+)", layer.replace("mid", "L/2")):
            wanted = int(share[1] or 1) * self.depth / int(share[2])
            near = [(abs(row - wanted), row) for row in rows if row is not None and abs(row - wanted) <= NEAR]
            return min(near, default=(None, -1))[1]
        return self.depth - int(re.sub(r"^L-?", "", layer) or 0)


def number(value: float) -> str:
    """Three digits that matter, without an exponent where that is readable."""
    if value == 0 or math.isnan(value):
        return "0" if value == 0 else "not defined"
    if abs(value) < 1e-4:
        return f"{value:.1e}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 4)}f}"


def named_layers(over: str | None) -> range | list[int]:
    """The layers that the column ``over`` of estimates names, as ``3, 6, ..., 27`` does."""
    names = over.split(", ") if isinstance(over, str) else []
    if "..." not in names:
        return [int(name) for name in names]
    first, second, _, last = names
    return range(int(first), int(last) + 1, int(second) - int(first))


def layer_words(layers: Sequence[int]) -> str:
    """``1 to 29``, ``3 to 27 by 3`` where they are evenly spaced, else ``3, 15, 16``."""
    gaps = {high - low for low, high in itertools.pairwise(layers)}
    if len(layers) < 3 or len(gaps) > 1:
        return ", ".join(map(str, layers))
    (gap,) = gaps
    return f"{layers[0]} to {layers[-1]}{f' by {gap}' if gap > 1 else ''}"
