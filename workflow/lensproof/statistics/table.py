"""The table of estimates: its columns, and how draws become its rows (``workflow/schemas/estimates.schema.yaml``)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from lensproof.errors import LensproofError
from lensproof.statistics.bootstrap import summarise
from lensproof.statistics.contrasts import relative_drop
from lensproof.statistics.sample import ByLayer, Sample

COLUMNS = (
    "checkpoint", "experiment", "measure", "method", "reference", "contrast", "setting", "layer", "summary", "layers",
    "over", "point", "lo", "hi", "numerator", "n", "clusters", "resamples", "level", "seed", "unit", "depth",
)  # fmt: skip
FEW = 4
"""As many layers are named one by one."""
TYPES = {
    "layer": "Int16",
    "depth": "Int16",
    "layers": "int16",
    "reference": "str",
    "contrast": "str",
    "setting": "str",
    "over": "str",
}

Row = dict[str, Any]
Pairs = Literal["all"] | Sequence[tuple[str, str]]


def contrasted(
    sample: Sample,
    measure: str,
    unit: str,
    found: Mapping[str, ByLayer],
    *,
    depth: int | None = None,
    setting: str | None = None,
    pairs: Pairs = "all",
    drop: bool = False,
) -> Iterator[Row]:
    """Rows of one measure: every method by layer and as a layer mean, and paired differences of layer means.

    Args:
        sample: gives the level of the intervals.
        measure: name of the measure.
        unit: of the values.
        found: method -> its draws by layer, in the order in which methods are to stand.
        depth: L, where layer L itself was observed; without it, all layers lie below L.
        setting: a factor besides method and layer.
        pairs: (method, reference) to contrast, method less reference; ``"all"``: of every two methods the later
            less the earlier. A pair that is not observed is left out.
        drop: also by what share a method lies below its reference.
    """
    common = {"measure": measure, "unit": unit, "setting": setting}
    for method, values in found.items():
        for s, layer in enumerate(values.layers):
            yield row(sample, method, values.draws[:, s], n=values.n[s], layer=layer, **common)
    means = {method: middle for method, values in found.items() if (middle := between(values, depth)).layers}
    for method, middle in means.items():
        yield row(sample, method, middle.mean(), **common, **of_mean(middle))
    for method, reference in _pairs(list(means), pairs):
        yield from _pair(sample, method, reference, means, drop, common)


def overall(
    sample: Sample,
    measure: str,
    unit: str,
    found: Mapping[str, np.ndarray],
    *,
    n: int,
    layers: Sequence[int],
    setting: str | None = None,
    pairs: Pairs = "all",
    clusters: int | None = None,
) -> Iterator[Row]:
    """Rows of a measure that has one number for all layers: every method, and paired differences.

    Args:
        sample: gives the level of the intervals.
        measure: name of the measure.
        unit: of the values.
        found: method -> draws (resamples + 1,), in the order in which methods are to stand.
        n: trials.
        layers: those behind the number.
        setting: a factor besides the method.
        pairs: as for :func:`contrasted`.
        clusters: documents behind the number, if not all of the sample.
    """
    common = {"measure": measure, "unit": unit, "setting": setting, "n": n, **of_all(layers)}
    common |= {} if clusters is None else {"clusters": clusters}
    for method, draws in found.items():
        yield row(sample, method, draws, **common)
    for method, reference in _pairs(list(found), pairs):
        gap = found[method] - found[reference]
        yield row(sample, method, gap, **common, reference=reference, contrast="difference")


def between(values: ByLayer, depth: int | None) -> ByLayer:
    """The part of layers 1 .. L-1, those of a layer mean."""
    return values.at([layer for layer in values.layers if layer > 0 and (depth is None or layer < depth)])


def less_layer(sample: Sample, method: str, values: ByLayer, layer: int, depth: int | None = None, **more: Any) -> Row:
    """The row of a layer mean less the value at one layer, which need not be one of those of the mean.

    Args:
        sample: gives the level of the interval.
        method: whose values they are.
        values: its draws by layer, ``layer`` and at least one of the mean's among them.
        layer: the one to subtract.
        depth: as for :func:`contrasted`.
        more: must name ``measure`` and ``unit``.
    """
    middle = between(values, depth)
    where = {**of_mean(middle), "summary": "layer", "layer": layer, "contrast": "layer_mean_minus_layer"}
    return row(sample, method, middle.mean() - values.at([layer]).mean(), **where, **more)


def of_mean(middle: ByLayer) -> Row:
    """What a row of a layer mean says of the layers behind it: which they are, and the fewest trials at any of them."""
    return {"summary": "layer_mean", **behind(middle.layers), "n": min(middle.n)}


def of_all(layers: Sequence[int]) -> Row:
    """What a row of one number for several layers says of them."""
    return {"summary": "all_layers", **behind(layers)}


def at(layer: int) -> Row:
    """What a row of a single layer says of it."""
    return {"summary": "layer", "layer": layer, "layers": 1, "over": None}


def behind(layers: Sequence[int]) -> Row:
    """How many layers stand behind a number, and which."""
    return {"layers": len(layers), "over": span(layers)}


def span(layers: Sequence[int]) -> str:
    """Layers in short: ``3, 6, ..., 27``; all of them where they are few or not evenly spaced."""
    names = [str(layer) for layer in layers]
    if len(layers) > FEW and len({after - before for before, after in itertools.pairwise(layers)}) == 1:
        names = [*names[:2], "...", names[-1]]
    return ", ".join(names)


def join(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The estimates of several files.

    Args:
        tables: name of a file -> what it holds.

    Raises:
        LensproofError: two files hold the same estimates, naming them.
    """
    seen: dict[tuple, str] = {}
    for name, table in tables.items():
        if not {"checkpoint", "experiment"} <= set(table):
            continue  # no estimates, which who reads them says better
        for place in table[["checkpoint", "experiment"]].drop_duplicates().itertuples(index=False):
            if (other := seen.setdefault(tuple(place), name)) != name:
                raise LensproofError(
                    f"{other} and {name} both hold estimates of {place.experiment} with {place.checkpoint}: give one"
                )
    return pd.concat(tables.values(), ignore_index=True) if tables else pd.DataFrame(columns=COLUMNS)


def row(sample: Sample, method: str, draws: np.ndarray, **more: Any) -> Row:
    """A row from draws (resamples + 1,); ``more`` must name ``measure``, ``n`` and ``unit``."""
    point, lo, hi = (float(value) for value in summarise(draws, sample.level))
    empty = {"reference": None, "contrast": None, "setting": None, "layer": None, "summary": "layer"}
    empty |= {"layers": 1, "over": None}
    return {**empty, "numerator": np.nan, "method": method, "point": point, "lo": lo, "hi": hi, **more}


def finish(sample: Sample, experiment: str, rows: Iterable[Row]) -> pd.DataFrame:
    """The table of an experiment's rows.

    Raises:
        LensproofError: there is no row.
    """
    table = pd.DataFrame(list(rows))
    if table.empty:
        raise LensproofError(f"{sample.checkpoint}: the observations hold nothing that {experiment} estimates")
    table = table.assign(
        checkpoint=sample.checkpoint, experiment=experiment, clusters=_clusters(table, len(sample.documents)),
        resamples=sample.resamples, level=sample.level, seed=sample.seed, depth=sample.depth,
    )  # fmt: skip
    return table[list(COLUMNS)].astype(TYPES)


def _clusters(table: pd.DataFrame, documents: int) -> pd.Series | int:
    """All documents of the sample, but where a row says how many it rests on."""
    return table["clusters"].fillna(documents).astype(int) if "clusters" in table else documents


def _pairs(methods: Sequence[str], pairs: Pairs) -> list[tuple[str, str]]:
    if pairs == "all":
        return [(later, earlier) for earlier, later in itertools.combinations(methods, 2)]
    return [(method, reference) for method, reference in pairs if method in methods and reference in methods]


def _pair(
    sample: Sample, method: str, reference: str, means: Mapping[str, ByLayer], drop: bool, common: Row
) -> Iterator[Row]:
    """Contrasts of two layer means, over the layers that both have."""
    layers = [layer for layer in means[method].layers if layer in means[reference].layers]
    if not layers:
        return
    one, other = means[method].at(layers), means[reference].at(layers)
    value, base = one.mean(), other.mean()
    where = {**common, **of_mean(one), "n": min(*one.n, *other.n), "reference": reference}
    yield row(sample, method, value - base, **where, contrast="difference")
    if drop:
        share = {**where, "unit": "share", "numerator": float(base[0] - value[0])}
        yield row(sample, method, relative_drop(value, base), **share, contrast="relative_drop")
