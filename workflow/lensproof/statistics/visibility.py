"""Estimates of the ``visibility`` experiment: what demand does to how visible the latent variable is.

Arms stand in the place of methods, record sets in that of settings; readings by the Jacobian lens are a set's own,
those by the logit lens stand under ``<set>:logit_lens``. Clusters are passages, where instances share them. All
contrasts are within instances, on the same resamples. Source: Gathered sections 3 and 4 of the method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pandas.api.typing import DataFrameGroupBy

from lensproof.errors import LensproofError
from lensproof.lenses.band import to_paper
from lensproof.statistics import choices
from lensproof.statistics.choices import Draws, gained, plain_and_pairs
from lensproof.statistics.contrasts import ratio
from lensproof.statistics.means import means, medians
from lensproof.statistics.sample import ByLayer, Sample, whole
from lensproof.statistics.table import Row, at, behind, finish, of_all, row

MEASURES = {"rz": "percentile rank", "lz": "decades", "mz": "nats"}
"""Readout -> unit. R_z is the paper's primary one and saturates; the others do not."""
LENS = "jacobian_lens"
SATURATED = 0.999
PEAK = 5 / 64
"""Layers over which saturation is looked for, as a share of depth: as many as the paper's L40 to L44 of 64."""
RISE = (0.50, 0.66)
"""Shares of depth between which the paper's profiles rise, 0.55 and 0.61, widened by 0.05 for other models."""
DEMAND, CONTROL, SUPPLIED, REPORT, AUTOMATIC = "flexible", "control", "supplied", "report", "automatic"
UNMATCHED, WITHOUT_CUE = "_unmatched", "_no_cue"
NEEDS = ("family", "records", "lens", "instance", "depth", "in_band", "rank", *MEASURES, *choices.NEEDS)


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Band means, profiles over layers, accuracies and all contrasts, for every record set.

    Args:
        observations: trials of one checkpoint; ``records`` is the set.
        resamples: bootstrap resamples over clusters.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Raises:
        LensproofError: a column or any trial is missing, an instance lacks an arm that others of its set have, or no
            layer of the band was read.
    """
    parts = []
    for family, own in whole(observations, NEEDS).groupby("family", sort=True, observed=True):
        sample = Sample.of(own, resamples=resamples, level=level, seed=seed)
        parts.append(finish(sample, "visibility", _of_family(sample, own, str(family))))
    return pd.concat(parts, ignore_index=True)


@dataclass(frozen=True)
class Readouts:
    """Draws of one record set's readouts by one lens.

    Attributes:
        setting: the set, and the lens if it is not the Jacobian one.
        by_layer: readout -> arm -> its mean at each layer.
        median: arm -> median over instances of the band mean of L_z.
        band: layers of the band that were read.
        depth: the model's number of blocks.
    """

    setting: str
    by_layer: Mapping[str, Mapping[str, ByLayer]]
    median: Draws
    band: Sequence[int]
    depth: int

    @classmethod
    def of(cls, sample: Sample, rows: pd.DataFrame, setting: str) -> Readouts:
        """From the rows of one set and lens."""
        band = sorted(int(layer) for layer in rows.loc[rows["in_band"], "layer"].unique())
        if not band:
            raise LensproofError(f"{sample.checkpoint}: no layer of the band was read: fit the lens on it")
        by_layer = {measure: means(sample, rows, measure) for measure in MEASURES}
        median = medians(sample, _by_instance(rows[rows["in_band"]]).mean(), "lz")
        return cls(setting, by_layer, median, band, int(rows["depth"].iloc[0]))

    def mean(self, measure: str) -> dict[str, np.ndarray]:
        """Arm -> draws of the mean over the band, every layer weighing the same."""
        return {arm: values.at(self.band).mean() for arm, values in self.by_layer[measure].items()}

    def gap(self, measure: str) -> np.ndarray:
        """Draws of the plain contrast, flexible less control, (resamples + 1, layers of the band)."""
        demand, control = (self.by_layer[measure][arm].at(self.band).draws for arm in (DEMAND, CONTROL))
        return demand - control

    def nearest(self, share: float) -> int:
        """The layer of the band nearest to a share of depth, which the paper counts by blocks."""
        return min(self.band, key=lambda layer: abs(to_paper(layer) - share * self.depth))

    @property
    def contrasted(self) -> bool:
        """Whether it has both arms of the plain contrast."""
        return {DEMAND, CONTROL} <= set(self.by_layer["rz"])

    @property
    def about(self) -> Row:
        """What rows of the band say of themselves."""
        trials = min(min(values.n) for values in self.by_layer["rz"].values())
        return {"setting": self.setting, "summary": "band_mean", **behind(self.band), "n": trials}


def _of_family(sample: Sample, observations: pd.DataFrame, family: str) -> Iterator[Row]:
    found: dict[str, Readouts] = {}
    accuracy: dict[str, Draws] = {}
    for name, rows in observations.groupby("records", sort=True, observed=True):
        _refuse_partial(str(name), rows)
        answers = choices.answers(sample, rows[rows["lens"] == LENS])
        accuracy[str(name)] = answers["accuracy"]
        about = {"setting": str(name), "summary": "all_layers", "n": rows["instance"].nunique()}
        yield from choices.of_set(sample, answers, about)
        yield from _vocabulary(sample, rows, about)
        for lens, own in rows.groupby("lens", sort=True, observed=True):
            setting = str(name) if lens == LENS else f"{name}:{lens}"
            found[setting] = Readouts.of(sample, own, setting)
            yield from _readouts(sample, found[setting])
            yield from _extremes(sample, own, found[setting])
    yield from _across(sample, found, family)
    yield from choices.of_length(sample, accuracy, family, observations["instance"].nunique())


def _refuse_partial(name: str, rows: pd.DataFrame) -> None:
    """A contrast of arms is within instances: an arm that some instances lack would make it one between instances."""
    counts = rows.groupby(["method", "lens", "layer"], observed=True)["instance"].nunique()
    if counts.nunique() > 1 or rows.duplicated(["instance", "method", "lens", "layer"]).any():
        raise LensproofError(
            f"the observations of {name} are not whole: every instance needs each arm once at each layer"
        )


def _vocabulary(sample: Sample, rows: pd.DataFrame, about: Row) -> Iterator[Row]:
    """How coarse R_z is: what it loses from rank 0 to rank 24, and what it is at rank 1000. Follows from the vocabulary
    alone; read off the trial with the highest rank."""
    highest = rows.loc[rows["rank"].idxmax()]
    if not highest["rank"]:
        return
    step = float((1 - highest["rz"]) / highest["rank"])
    for measure, value in (("rz_step", 24 * step), ("rz_of_rank_1000", 1 - 1000 * step)):
        draws = np.full(sample.resamples + 1, value)
        yield row(sample, "any_token", draws, measure=measure, unit="percentile rank", **about)


def _readouts(sample: Sample, found: Readouts) -> Iterator[Row]:
    """By layer, over the band, and what the contrasts say of the design."""
    for measure, unit in MEASURES.items():
        about = {**found.about, "unit": unit}
        for arm, values in found.by_layer[measure].items():
            for index, layer in enumerate(values.layers):
                yield row(sample, arm, values.draws[:, index], measure=measure, **{**about, **at(layer)})
        mean = found.mean(measure)
        yield from plain_and_pairs(sample, measure, mean, about)
        yield from _two_by_two(sample, measure, mean, about)
        if found.contrasted:
            yield from _shares(sample, measure, mean, about)
    if found.contrasted:
        yield from _profiles(sample, found)
    yield from _rise(sample, found)
    for arm, draws in found.median.items():
        yield row(sample, arm, draws, measure="lz_median", unit=MEASURES["lz"], **found.about)


def _two_by_two(sample: Sample, measure: str, mean: Draws, about: Row) -> Iterator[Row]:
    """z inferred or not, operator applied or not: their interaction."""
    if {DEMAND, CONTROL, SUPPLIED, REPORT} <= set(mean):
        interaction = (mean[DEMAND] - mean[SUPPLIED]) - (mean[REPORT] - mean[CONTROL])
        yield row(sample, "interaction", interaction, measure=measure, **about)


def _shares(sample: Sample, measure: str, mean: Draws, about: Row) -> Iterator[Row]:
    """How far arms lie from control, as a share of the plain contrast; supplied's is that of the operator alone."""
    plain = mean[DEMAND] - mean[CONTROL]
    for arm in (SUPPLIED, AUTOMATIC):
        if arm in mean:
            part = mean[arm] - mean[CONTROL]
            share = {**about, "unit": "ratio", "numerator": float(part[0])}
            yield row(sample, arm, ratio(part, plain), measure=f"{measure}_share", **share)


def _rise(sample: Sample, found: Readouts) -> Iterator[Row]:
    """By how much L_z rises over the depths at which the paper's profiles do (:data:`RISE`); it does not saturate."""
    low, high = map(found.nearest, RISE)
    if low < high:
        rise = {arm: values.at([high]).mean() - values.at([low]).mean() for arm, values in found.by_layer["lz"].items()}
        about = {**found.about, **of_all([low, high]), "unit": MEASURES["lz"]}
        yield from plain_and_pairs(sample, "lz_rise", rise, about)


def _profiles(sample: Sample, found: Readouts) -> Iterator[Row]:
    """The plain contrast along the band, and whether R_z and L_z place its peak at one depth."""
    gaps = {measure: found.gap(measure) for measure in MEASURES}
    for measure, unit in MEASURES.items():
        where = {**found.about, "unit": unit, "reference": CONTROL, "contrast": "difference"}
        for index, layer in enumerate(found.band):
            yield row(sample, DEMAND, gaps[measure][:, index], measure=measure, **{**where, **at(layer)})
    depths = np.array([to_paper(layer) / found.depth for layer in found.band])
    peaks = {measure: depths[gap.argmax(axis=1)] for measure, gap in gaps.items()}
    about = {**found.about, **of_all(found.band)}
    for measure, peak in peaks.items():
        yield row(sample, DEMAND, peak, measure=f"{measure}_peak", unit="share of depth", **about)
    later = {**about, "unit": "share of depth", "reference": "rz", "contrast": "difference"}
    yield row(sample, "lz", peaks["lz"] - peaks["rz"], measure="peak", **later)
    alike = {**about, "unit": "correlation", "reference": "rz"}
    yield row(sample, "lz", _correlation(gaps["rz"], gaps["lz"]), measure="profile_correlation", **alike)


def _correlation(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Pearson's r over layers, draw by draw; both (draws, layers)."""
    one, other = (values - values.mean(axis=1, keepdims=True) for values in (one, other))
    scale = np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
    return np.divide((one * other).sum(axis=1), scale, out=np.full(len(one), np.nan), where=scale > 0)


def _extremes(sample: Sample, rows: pd.DataFrame, found: Readouts) -> Iterator[Row]:
    """Maxima over the band, which saturate sooner than means, and the share of saturated cells."""
    band = rows[rows["in_band"]]
    highest = _by_instance(band).max().assign(layer=0)
    about = {**found.about, "summary": "band_max", "n": highest["instance"].nunique()}
    for measure, unit in MEASURES.items():
        own = {arm: values.mean() for arm, values in means(sample, highest, measure).items()}
        yield from plain_and_pairs(sample, f"{measure}_max", own, {**about, "unit": unit})
        if found.contrasted:
            yield from _compressed(sample, measure, own[DEMAND] - own[CONTROL], found, {**about, "unit": unit})
    saturated = means(sample, band.assign(saturated=band["rz"] > SATURATED), "saturated")
    for arm, values in saturated.items():
        share = {**found.about, "unit": "share", "n": min(values.n)}
        yield row(sample, arm, values.mean(), measure="saturated", **share)
        yield row(sample, arm, _highest_stretch(values.draws, found), measure="saturated_peak", **share)


def _by_instance(band: pd.DataFrame) -> DataFrameGroupBy:
    """The readouts of the band, grouped by instance and arm."""
    keys = ["document", "instance", "method"]
    return band.groupby(keys, observed=True, as_index=False)[list(MEASURES)]


def _compressed(sample: Sample, measure: str, after: np.ndarray, found: Readouts, about: Row) -> Iterator[Row]:
    """The plain contrast at the layer at which it is largest, and how much of that is left in the one of maxima."""
    largest = found.gap(measure).max(axis=1)
    about = {**about, "reference": CONTROL}
    yield row(sample, DEMAND, largest, measure=f"{measure}_largest", contrast="difference", **about)
    share = {**about, "unit": "ratio", "numerator": float(after[0])}
    yield row(sample, DEMAND, ratio(after, largest), measure=f"{measure}_max_share", **share)


def _highest_stretch(draws: np.ndarray, found: Readouts) -> np.ndarray:
    """Draws (resamples + 1, S) of the band's layers -> the largest mean over as many neighbours as PEAK says."""
    window = min(max(1, round(PEAK * found.depth)), draws.shape[1])
    return np.lib.stride_tricks.sliding_window_view(draws, window, axis=1).mean(axis=-1).max(axis=1)


def _across(sample: Sample, found: Mapping[str, Readouts], family: str) -> Iterator[Row]:
    """What a confound adds to the family's own set: a legend in the flexible arm only, or the answer cue."""
    own, unmatched, without_cue = (found.get(family + variant) for variant in ("", UNMATCHED, WITHOUT_CUE))
    if own and unmatched:
        for measure, unit in MEASURES.items():
            yield from _inflation(sample, measure, unit, own, unmatched)
    if own and without_cue:
        about = {**own.about, "setting": f"{own.setting}_minus_{without_cue.setting}"}
        for measure, unit in MEASURES.items():
            where = {**about, "measure": measure, "unit": unit}
            yield from gained(sample, own.mean(measure), without_cue.mean(measure), where)
        where = {**about, "measure": "lz_median", "unit": MEASURES["lz"]}
        yield from gained(sample, own.median, without_cue.median, where)


def _inflation(sample: Sample, measure: str, unit: str, own: Readouts, unmatched: Readouts) -> Iterator[Row]:
    """By how much, and by what share, the unmatched legend raises the plain contrast."""
    plain, raised = own.gap(measure).mean(axis=1), unmatched.gap(measure).mean(axis=1)
    where = {**own.about, "setting": f"{unmatched.setting}_minus_{own.setting}", "reference": CONTROL}
    yield row(sample, DEMAND, raised - plain, measure=measure, unit=unit, contrast="difference", **where)
    share = {"unit": "ratio", "numerator": float(raised[0] - plain[0])}
    yield row(sample, DEMAND, ratio(raised - plain, plain), measure=f"{measure}_inflation", **share, **where)
