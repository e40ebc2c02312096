"""Estimates of the ``visibility`` experiment: what demand does to how visible the latent variable is.

Arms stand in the place of methods, record sets in that of settings; readings by the Jacobian lens are a set's own,
those by the logit lens stand under ``<set>:logit_lens``. Clusters are passages, where instances share them. All
contrasts are within instances, on the same resamples. Source: Gathered sections 3 and 4 of the method.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lensproof.errors import LensproofError
from lensproof.statistics.contrasts import ratio
from lensproof.statistics.means import means
from lensproof.statistics.sample import ByLayer, Sample
from lensproof.statistics.table import Row, finish, row

MEASURES = {"rz": "percentile rank", "lz": "decades", "mz": "nats"}
"""Readout -> unit. R_z is the paper's primary one and saturates; the others do not."""
LENS = "jacobian_lens"
SATURATED = 0.999
DEMAND, CONTROL, SUPPLIED, REPORT = "flexible", "control", "supplied", "report"
UNMATCHED, WITHOUT_CUE = "_unmatched", "_no_cue"
NEEDS = ("records", "lens", "instance", "in_band", "correct", "open_correct", "choice_margin", "choices", *MEASURES)


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Band means, profiles over layers, accuracies and all contrasts, for every record set.

    Args:
        observations: trials of one checkpoint; ``records`` is the set.
        resamples: bootstrap resamples over clusters.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Raises:
        LensproofError: an instance lacks an arm that others of its set have, or no layer of the band was read.
    """
    parts = []
    for family, own in observations.groupby("family", sort=True, observed=True):
        sample = Sample.of(own, resamples=resamples, level=level, seed=seed, needs=NEEDS)
        parts.append(finish(sample, "visibility", _of_family(sample, own, str(family))))
    return pd.concat(parts, ignore_index=True)


@dataclass(frozen=True)
class Readouts:
    """Draws of every readout of one record set by one lens: readout -> arm -> by layer; and the layers of the band."""

    setting: str
    by_layer: Mapping[str, Mapping[str, ByLayer]]
    band: Sequence[int]

    @classmethod
    def of(cls, sample: Sample, rows: pd.DataFrame, setting: str) -> Readouts:
        """From the rows of one set and lens."""
        band = sorted(int(layer) for layer in rows.loc[rows["in_band"], "layer"].unique())
        if not band:
            raise LensproofError(f"{sample.checkpoint}: no layer of the band was read: fit the lens on it")
        return cls(setting, {measure: means(sample, rows, measure) for measure in MEASURES}, band)

    def mean(self, measure: str) -> dict[str, np.ndarray]:
        """Arm -> draws of the mean over the band, every layer weighing the same."""
        return {arm: values.at(self.band).mean() for arm, values in self.by_layer[measure].items()}

    def gap(self, measure: str) -> np.ndarray:
        """Draws of the plain contrast, flexible less control, (resamples + 1, layers of the band)."""
        demand, control = (self.by_layer[measure][arm].at(self.band).draws for arm in (DEMAND, CONTROL))
        return demand - control

    @property
    def contrasted(self) -> bool:
        """Whether it has both arms of the plain contrast."""
        return {DEMAND, CONTROL} <= set(self.by_layer["rz"])

    @property
    def about(self) -> Row:
        """What rows of the band say of themselves."""
        trials = min(min(values.n) for values in self.by_layer["rz"].values())
        return {"setting": self.setting, "summary": "band_mean", "layers": len(self.band), "n": trials}


def _of_family(sample: Sample, observations: pd.DataFrame, family: str) -> Iterator[Row]:
    found: dict[str, Readouts] = {}
    for name, rows in observations.groupby("records", sort=True, observed=True):
        _refuse_partial(str(name), rows)
        yield from _behaviour(sample, rows[rows["lens"] == LENS], str(name))
        for lens, own in rows.groupby("lens", sort=True, observed=True):
            setting = str(name) if lens == LENS else f"{name}:{lens}"
            found[setting] = Readouts.of(sample, own, setting)
            yield from _readouts(sample, found[setting])
            yield from _extremes(sample, own, setting)
    yield from _across(sample, found, family)


def _refuse_partial(name: str, rows: pd.DataFrame) -> None:
    """A contrast of arms is within instances: an arm that some instances lack would make it one between instances."""
    counts = rows.groupby(["method", "lens", "layer"], observed=True)["instance"].nunique()
    if counts.nunique() > 1 or rows.duplicated(["instance", "method", "lens", "layer"]).any():
        raise LensproofError(
            f"the observations of {name} are not whole: every instance needs each arm once at each layer"
        )


def _behaviour(sample: Sample, rows: pd.DataFrame, setting: str) -> Iterator[Row]:
    """Accuracy of forced choice, of the whole vocabulary's first token, and chance: one number for each arm."""
    one = rows[rows["layer"] == rows["layer"].min()].assign(chance=lambda table: 1 / table["choices"])
    units = {"correct": "share", "open_correct": "share", "choice_margin": "nats", "chance": "share"}
    names = {"correct": "accuracy", "open_correct": "open_accuracy"}
    for column, unit in units.items():
        found = {arm: values.mean() for arm, values in means(sample, one, column).items()}
        about = {"unit": unit, "setting": setting, "summary": "all_layers", "n": one["instance"].nunique()}
        yield from _plain_and_pairs(sample, names.get(column, column), found, about)


def _plain_and_pairs(sample: Sample, measure: str, found: Mapping[str, np.ndarray], about: Row) -> Iterator[Row]:
    """Every arm, and every arm less every other."""
    for arm, draws in found.items():
        yield row(sample, arm, draws, measure=measure, **about)
    for arm, reference in itertools.permutations(found, 2):
        gap = found[arm] - found[reference]
        yield row(sample, arm, gap, measure=measure, reference=reference, contrast="difference", **about)


def _readouts(sample: Sample, found: Readouts) -> Iterator[Row]:
    """By layer, over the band, and what the contrasts say of the design."""
    for measure, unit in MEASURES.items():
        about = {**found.about, "unit": unit}
        for arm, values in found.by_layer[measure].items():
            for index, layer in enumerate(values.layers):
                one = {**about, "summary": "layer", "layers": 1, "layer": layer}
                yield row(sample, arm, values.draws[:, index], measure=measure, **one)
        mean = found.mean(measure)
        yield from _plain_and_pairs(sample, measure, mean, about)
        yield from _two_by_two(sample, measure, mean, about)
    if found.contrasted:
        yield from _profiles(sample, found)


def _two_by_two(sample: Sample, measure: str, mean: Mapping[str, np.ndarray], about: Row) -> Iterator[Row]:
    """z inferred or not, operator applied or not: their interaction, and the operator's share of the plain contrast."""
    if SUPPLIED not in mean:
        return
    latent, plain = mean[DEMAND] - mean[SUPPLIED], mean[DEMAND] - mean[CONTROL]
    operator = mean[SUPPLIED] - mean[CONTROL]
    interaction = latent - (mean[REPORT] - mean[CONTROL])
    yield row(sample, "interaction", interaction, measure=measure, **about)
    share = {**about, "unit": "ratio", "numerator": float(operator[0])}
    yield row(sample, "operator", ratio(operator, plain), measure=f"{measure}_share", **share)


def _profiles(sample: Sample, found: Readouts) -> Iterator[Row]:
    """The plain contrast along the band, and whether R_z and L_z place its peak at one depth."""
    gaps = {measure: found.gap(measure) for measure in MEASURES}
    for measure, unit in MEASURES.items():
        where = {**found.about, "summary": "layer", "layers": 1, "reference": CONTROL, "contrast": "difference"}
        for index, layer in enumerate(found.band):
            yield row(sample, DEMAND, gaps[measure][:, index], measure=measure, unit=unit, layer=layer, **where)
    depth = max(found.by_layer["rz"][DEMAND].layers)
    peaks = {measure: np.asarray(found.band)[gap.argmax(axis=1)] / depth for measure, gap in gaps.items()}
    about = {**found.about, "summary": "all_layers"}
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


def _extremes(sample: Sample, rows: pd.DataFrame, setting: str) -> Iterator[Row]:
    """Maxima over the band, which saturate sooner than means, and the share of saturated cells."""
    band = rows[rows["in_band"]]
    keys = ["document", "instance", "method"]
    highest = band.groupby(keys, observed=True, as_index=False)[list(MEASURES)].max().assign(layer=0)
    about = {"setting": setting, "summary": "band_max", "layers": band["layer"].nunique()}
    for measure, unit in MEASURES.items():
        found = {arm: values.mean() for arm, values in means(sample, highest, measure).items()}
        whole = {**about, "unit": unit, "n": highest["instance"].nunique()}
        yield from _plain_and_pairs(sample, f"{measure}_max", found, whole)
    saturated = means(sample, band.assign(saturated=band["rz"] > SATURATED), "saturated")
    for arm, values in saturated.items():
        share = {"measure": "saturated", "unit": "share", "setting": setting}
        yield row(sample, arm, values.mean(), summary="band_mean", layers=len(values.layers), n=min(values.n), **share)


def _across(sample: Sample, found: Mapping[str, Readouts], family: str) -> Iterator[Row]:
    """What a confound adds to the family's own set: a legend in the flexible arm only, or the answer cue."""
    own = found.get(family)
    unmatched, without_cue = found.get(family + UNMATCHED), found.get(family + WITHOUT_CUE)
    for measure, unit in MEASURES.items():
        if own and unmatched:
            yield from _inflation(sample, measure, unit, own, unmatched)
        if own and without_cue:
            setting = f"{own.setting}_minus_{without_cue.setting}"
            base, with_cue = without_cue.mean(measure), own.mean(measure)
            for arm, draws in base.items():
                where = {**own.about, "setting": setting, "unit": unit}
                yield row(sample, arm, with_cue[arm] - draws, measure=measure, **where)


def _inflation(sample: Sample, measure: str, unit: str, own: Readouts, unmatched: Readouts) -> Iterator[Row]:
    """By how much, and by what share, the unmatched legend raises the plain contrast."""
    plain, raised = own.gap(measure).mean(axis=1), unmatched.gap(measure).mean(axis=1)
    where = {**own.about, "setting": f"{unmatched.setting}_minus_{own.setting}", "reference": CONTROL}
    yield row(sample, DEMAND, raised - plain, measure=measure, unit=unit, contrast="difference", **where)
    share = {"unit": "ratio", "numerator": float(raised[0] - plain[0])}
    yield row(sample, DEMAND, ratio(raised - plain, plain), measure=f"{measure}_inflation", **share, **where)
