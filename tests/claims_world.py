"""Estimates made up for claims: any that a rule asks for, and those that have the paper's own values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lensproof.claims.catalogue import VISIBILITY
from lensproof.claims.evidence import Evidence, Quantity
from lensproof.claims.published import values
from lensproof.claims.rules import (
    AllOf,
    AnyOf,
    AtLeast,
    AtMost,
    Beyond,
    Equivalence,
    Exceeds,
    GuardFires,
    HalfWidthAtMost,
    Identity,
    Order,
    Says,
    Sign,
    Within,
    WithinTable,
    at_level,
)

HALF = 1e-5
"""Half-width of an interval that decides."""


def row(measure="kl", method="lexframe_1", point=0.0, half=0.0, **more) -> dict[str, Any]:
    """A row of estimates around ``point``."""
    names = {"checkpoint": "toy", "experiment": "readings", "reference": None, "contrast": None, "setting": None}
    sample = {"n": 640, "clusters": 64, "layers": 7, "resamples": 1000, "level": 0.95, "seed": 0, "unit": "nats"}
    sample["summary"] = "layer_mean" if more.get("layer") is None else "layer"
    ends = {
        "lo": point - half,
        "hi": point + half,
        "numerator": math.nan,
        "layer": None,
        "over": "1, 2, ..., 7",
        "depth": None,
    }
    return {**names, **sample, **ends, "measure": measure, "method": method, "point": point, **more}


def accuracy(point: float, depth: int) -> dict[str, Any]:
    """How often the model itself is right, which also says how many layers it has."""
    return row("accuracy", "model", point, 0.005, layer=depth)


def fitted_on(prompts: int, seconds: float = 3.0) -> list[dict[str, Any]]:
    """What a Jacobian lens cost, in all and for each of its prompts."""
    about = {"experiment": "costs", "unit": "seconds", "method": "jacobian_lens", "layers": 1}
    costs = {"seconds": prompts * seconds, "seconds_per_item": seconds}
    return [row(measure, point=point, half=HALF, **about) for measure, point in costs.items()]


# -- what a rule asks for


@dataclass
class Asked:
    """Where a rule wants an estimate, how wide its interval may be, and of which token it is."""

    low: float = -math.inf
    high: float = math.inf
    width: float = math.inf
    token: str | None = None

    def meets(self, other: Asked) -> Asked:
        ends = max(self.low, other.low), min(self.high, other.high)
        return Asked(*ends, min(self.width, other.width), self.token or other.token)

    @property
    def point(self) -> float:
        if math.isinf(self.low) and math.isinf(self.high):
            return 1.0
        if math.isinf(self.low) or math.isinf(self.high):
            return self.low + 0.5 if math.isinf(self.high) else self.high - 0.5
        return (self.low + self.high) / 2


class Made(NamedTuple):
    """An estimate made up: its point, the half-width of its interval, and the token that it is of."""

    point: float
    half: float
    token: str | None = None


def leaves(rule) -> Iterator[Any]:
    """The rules that hold estimates against thresholds, inside any rule."""
    if isinstance(rule, AllOf | AnyOf):
        yield from itertools.chain.from_iterable(map(leaves, rule.rules))
    elif isinstance(rule, WithinTable):
        yield from rule.rules()
    elif isinstance(rule, Order):
        for low, high in itertools.pairwise(rule.rising):
            yield _positive(rule.measure, high, low, rule.setting, rule.experiment)
    elif isinstance(rule, Exceeds):
        for setting, method, reference in itertools.product(rule.settings, rule.methods, rule.references):
            yield _positive(rule.measure, method, reference, setting, rule.experiment)
    else:
        yield rule


def _positive(measure, method, reference, setting, experiment) -> Sign:
    about = {"measure": measure, "method": method, "reference": reference, "setting": setting}
    quantity = Quantity(**about, experiment=experiment, contrast="difference")
    return Sign(kind="sign", quantity=quantity, sign="positive")


def asks(leaf, published: Mapping[str, Any], checkpoint: str, level: str) -> dict[Quantity, Asked]:
    """What one leaf asks of the estimates that it looks at."""
    if isinstance(leaf, GuardFires):
        looked_at = answered(leaf.arms, leaf.records, (0.9, 0.6) if leaf.guard == "confounded" else (0.2, 0.6))
        unseen = "chance" if leaf.guard == "confounded" else leaf.arms[1]
        return {name: Asked(point, point) for name, (point, *_) in looked_at.items() if name.reference != unseen}
    return {leaf.quantity: _asked(leaf, published, checkpoint, level)}


def answered(arms, records: str, accuracies, chance: float = 0.25) -> dict[Quantity, Made]:
    """Accuracies of two arms, their gap, and how far they are from chance."""
    about = {"measure": "accuracy", "setting": records}
    gap = Quantity(**about, method=arms[0], reference=arms[1], contrast="difference")
    made = {gap: accuracies[0] - accuracies[1]}
    for arm, accuracy_ in zip(arms, accuracies, strict=True):
        made[Quantity(**about, method=arm)] = accuracy_
        made[Quantity(measure="chance", method=arm, setting=records)] = chance
        made[Quantity(**about, method=arm, reference="chance", contrast="difference")] = accuracy_ - chance
    return {name: Made(value, HALF) for name, value in made.items()}


def _asked(leaf, published, checkpoint, level) -> Asked:
    match leaf:
        case Sign():
            return Asked(low=1e-3) if leaf.sign == "positive" else Asked(high=-1e-3)
        case AtMost():
            return Asked(high=at_level(leaf.value, level))
        case AtLeast():
            return Asked(low=at_level(leaf.value, level))
        case Within():
            value = values(published, leaf.published)[checkpoint]
            reach = leaf.absolute + leaf.relative * abs(value)
            return Asked(value - reach, value + reach)
        case Equivalence():
            return Asked(-at_level(leaf.margin, level), at_level(leaf.margin, level))
        case Beyond():
            return Asked(low=at_level(leaf.margin, level) + 1e-3)
        case Says():
            return Asked(token=leaf.token)
        case Identity():
            return Asked(leaf.value, leaf.value, width=at_level(leaf.tolerance, level))
        case HalfWidthAtMost():
            return Asked(width=max(values(published, leaf.published).values()))
    raise TypeError(f"no world is known for a rule of kind {leaf.kind}")


def spoils(leaf, published: Mapping[str, Any], checkpoint: str, level: str) -> dict[Quantity, Made]:
    """Estimates that a leaf must reject."""
    if isinstance(leaf, GuardFires):
        return answered(leaf.arms, leaf.records, (0.6, 0.6))
    ((quantity, asked),) = asks(leaf, published, checkpoint, level).items()
    return {quantity: _spoilt(leaf, asked)}


def _spoilt(leaf, asked: Asked) -> Made:
    if isinstance(leaf, HalfWidthAtMost):
        return Made(asked.point, 10 * asked.width + 1)
    if isinstance(leaf, Says):
        return Made(asked.point, HALF, "another")
    if isinstance(leaf, Beyond):
        return Made(0.0, HALF)
    away = asked.low - 2 if math.isfinite(asked.low) else asked.high + 2
    return Made(away, HALF)


# -- the paper's own values as estimates


def paper_rows(published: Mapping[str, Any], checkpoint: str, half: float = HALF, accurate: float = 0.4) -> list[dict]:
    """Every value that the paper states for one of its checkpoints, as the estimates would hold it.

    Differences between methods, and between settings, follow from the values.
    """
    at = list(published["checkpoints"]).index(checkpoint)
    depth = published["checkpoints"][checkpoint]["layers"]
    rows = [accuracy(accurate, depth)]

    def add(experiment, measure, method, value, **more):
        rows.append(row(measure, method, value, half, experiment=experiment, checkpoint=checkpoint, **more))

    def contrasts(experiment, measure, points, **more):
        for method, value in points.items():
            add(experiment, measure, method, value, **more)
        for (reference, low), (method, high) in itertools.combinations(points.items(), 2):
            about = {"reference": reference, **more}
            add(experiment, measure, method, high - low, contrast="difference", **about)
            if experiment == "readings" and measure == "kl":
                add(experiment, measure, method, 1 - high / low, contrast="relative_drop", **about)
                add(experiment, measure, method, 1.0, contrast="share_lower", **about)

    def column(table, key=None):
        lines = {name: line for name, line in published[table].items() if name not in ("columns", "note")}
        if key:
            lines = {name: line[key] for name, line in lines.items() if isinstance(line, dict) and key in line}
        return {name: line[at] for name, line in lines.items()}

    text = {name: value[at] if isinstance(value, list) else value for name, value in published["text"].items()}
    for measure in ("kl", "top1", "ece"):
        contrasts("readings", measure, column("table1", measure))
    add("readings", "ece", "model", text["model_ece"], layer=depth)
    for method, value in column("table1", "ece").items():
        gap = value - text["model_ece"]
        add("readings", "ece", method, gap, reference="model", contrast="difference")
    embedding, mean = text["order1_top1_at_embedding"], column("table1", "top1")["lexframe_1"]
    add("readings", "top1", "lexframe_1", embedding, layer=0)
    add("readings", "top1", "lexframe_1", mean - embedding, layer=0, contrast="layer_mean_minus_layer")

    relaxation = published["relaxation"]
    if checkpoint == "olmo3-7b":
        for method in ("logit_lens", "jacobian_lens"):
            add("directions", "angle", method, text[f"angle_{method}_layer16_olmo_degrees"], layer=16)
            add("directions", "angle", method, text["angle_layer28_olmo_min_degrees"], layer=28)
    else:
        plateau = relaxation["plateau_smollm3"]
        for layer in plateau["layers"]:
            add("directions", "cosine", "fixed_direction_ceiling", plateau["sqrt_coherence"], layer=layer)
    add("directions", "cosine", "lexframe_1", text["order1_cosine_mid_depth"], layer=depth // 2)
    add("directions", "cosine", "lexframe_1", text["order1_cosine_layer_mean"])
    add("directions", "cosine", "fixed_direction_ceiling", text["fixed_direction_ceiling_mid_depth"], layer=depth // 2)
    product = text["readout_state_inner_product_vs_centred_logit_correlation"]
    add("directions", "inner_product", "native_readout", product)
    add("directions", "relaxation_share", "lexframe_1", relaxation["share_per_layer"][at])
    add("directions", "relaxation_r2", "lexframe_1", relaxation["exponential_fit_r2"][at])

    rank = column("table2")
    embedding = rank.pop("lexframe_1_at_embedding")
    contrasts("substitution", "spearman", rank)
    reading = ("substitution", "spearman", "lexframe_1_reading_kl")
    add(*reading, embedding, layer=0)
    gap = rank["lexframe_1_reading_kl"] - embedding
    add(*reading, gap, layer=0, contrast="layer_mean_minus_layer")
    contrasts("composition", "success", column("table3"))
    for measure in ("kl", "top1"):
        contrasts("decomposition", measure, column("table4", measure))
    for measure, key in (("reach", "reach"), ("side", "side_nats"), ("clean", "clean")):
        contrasts("steering", measure, column("table5", key))
    components = {name: column("table6", name) for name in ("layer", "attention", "mlp")}
    for setting, points in components.items():
        contrasts("attribution", "pearson", points, setting=setting)
    difference, linear = (
        {name: components[name][method] for name in components} for method in ("lexframe_1_difference", "native_linear")
    )
    gap = difference["mlp"] - linear["mlp"] - difference["attention"] + linear["attention"]
    about = {"reference": "native_linear", "contrast": "difference", "setting": "mlp_minus_attention"}
    add("attribution", "pearson", "lexframe_1_difference", gap, **about)
    for measure in ("settled", "skipped"):
        contrasts("exits", measure, column("table7", measure))
    for method, value in column("table7", "settled").items():
        add("exits", "settled_minus_skipped", method, value - column("table7", "skipped")[method])
    for measure in ("kl", "cosine", "attribution"):
        contrasts("stand_ins", measure, column("table8", measure))
    low, high = published["table8"]["three_disjoint_calibrations_kl_range"][at]
    add("stand_ins", "kl", "mean_and_regression", 2 * (high - low) / (high + low), contrast="relative_range")

    for method, name in (("logit_lens", "logit_lens"), ("lexframe_1", "order1")):
        first, last = published["training"][f"{name}_kl_first_to_last"][at]
        for setting, value in (("initial", first), ("trained", last), ("trained_minus_initial", last - first)):
            add("training", "kl", method, value, setting=setting)
    least = published["training"]["order1_top1_min_trained"][at]
    add("training", "top1", "lexframe_1", least, setting="least_of_trained")
    for method, pairs in published["long_context"].items():
        short, long = list(pairs.values())[at]
        for setting, value in (("128", short), ("1024", long), ("1024_minus_128", long - short)):
            add("long_context", "kl", method, value, setting=setting)
    if checkpoint == "olmo3-7b":
        for method, layer in published["table9"]["first_read_guardian"].items():
            add("examples", "first_layer", method, layer, setting="prefix_1")
        for measure, (token, value) in zip(
            ("probability", "further_probability"), published["table9"]["model_top"].items(), strict=True
        ):
            add("examples", measure, "model", value, setting="prefix_1", layer=depth, token=f" {token}")
        about = {"layer": 12, "token": f" {published['table9']['lexframe_1_layer12']}", "setting": "prefix_1"}
        add("examples", "probability", "lexframe_1", 0.5, **about)
    ratio = text["jacobian_fit_over_calibrate_and_read_orders_0_to_2"]
    add("costs", "time_ratio", "jacobian_lens", ratio, setting="wall")
    return [*rows, *fitted_on(published["setup"]["jacobian_lens_prompts"])]


def gathered_rows(published: Mapping[str, Any], checkpoint: str, half: float = HALF) -> list[dict]:
    """The same for the paper whose values are of one checkpoint: none for the others."""
    rows: list[dict] = []
    if not checkpoint.startswith("qwen"):
        return rows

    def own(node):
        """The values below ``node``, each in the place of the checkpoint that it is of."""
        if not isinstance(node, Mapping):
            return node
        return node["qwen"] if set(node) == {"qwen"} else {key: own(value) for key, value in node.items()}

    visibility, availability = own(published["visibility"]), own(published["availability"])
    size = published["checkpoints"][checkpoint]["vocabulary"] - 1

    def add(measure, method, value, setting="language", experiment=VISIBILITY, **more):
        rows.append(row(measure, method, value, half, setting=setting, experiment=experiment, **more))

    def contrasts(measure, points, stated, **more):
        for method, value in points.items():
            add(measure, method, value, **more)
        for method, reference in itertools.permutations(points, 2):
            given = stated.get(f"{method}_minus_{reference}", {}).get(measure, points[method] - points[reference])
            add(measure, method, given, reference=reference, contrast="difference", **more)

    def chance(arm, accuracy_, by_chance, **more):
        add("chance", arm, by_chance, **more)
        add("accuracy", arm, accuracy_ - by_chance, reference="chance", contrast="difference", **more)

    stated = visibility["contrasts"]
    for measure in ("accuracy", "rz"):
        contrasts(measure, visibility[measure], stated)
    for arm, by_chance in visibility["chance"].items():
        chance(arm, visibility["accuracy"][arm], by_chance)
    add("accuracy", "second_highest_arm", sorted(visibility["accuracy"].values())[-2])
    plain = stated["flexible_minus_control"]["rz"]
    add("rz", "interaction", visibility["interaction"]["rz"])
    add("rz_share", "supplied", visibility["operator_share"])
    add("rz_share", "automatic", stated["automatic_minus_control"]["rz"] / plain)

    inflation, unmatched = visibility["unmatched_legend"]["inflation"], "language_unmatched_minus_language"
    about = {"setting": unmatched, "reference": "control"}
    add("rz", "flexible", inflation * plain, contrast="difference", **about)
    add("rz_inflation", "flexible", inflation, **about)
    for arm in ("flexible", "control"):
        add("accuracy", arm, visibility["accuracy"][arm], setting="language_unmatched")
        chance(arm, visibility["accuracy"][arm], visibility["chance"][arm], setting="language_unmatched")
    cue = {name: -math.log10(rank + 1) for name, rank in visibility["answer_cue"]["median_rank"].items()}
    gained = cue["control_with_cue"] - cue["automatic_without_cue"]
    add("lz_median", "automatic", gained, setting="language_minus_language_no_cue")

    add("rz_step", "any_token", visibility["saturation"]["rank_1_to_rank_25"])
    add("saturated_peak", "flexible", visibility["saturation"]["share_above"])
    depth, layers = visibility["depth"], published["checkpoints"][checkpoint]["layers"]
    gap = depth["peak_gap_layers"] / layers
    add("peak", "lz", gap, reference="rz", contrast="difference")
    add("profile_correlation", "lz", depth["profile_correlation"], reference="rz")
    maximum = visibility["band_maximum"]
    add("rz_max_share", "flexible", maximum["after_maximum"] / maximum["per_layer_effect"], reference="control")
    forced = visibility["forced_choice"]
    add("accuracy", "all_arms", forced["forced_choice"])
    chance("all_arms", forced["forced_choice"], sum(visibility["chance"].values()) / 5)
    more = forced["forced_choice"] - forced["open_vocabulary"]
    add("accuracy", "all_arms", more, reference="open_vocabulary", contrast="difference")
    add("rz_of_rank_1000", "any_token", 1 - 1000 / size)

    length = visibility["matched_length"]
    for arm, accuracy_ in length["matched"].items():
        add("accuracy", arm, accuracy_ - length["default"][arm], setting="language_length_minus_language")
    contrasts("accuracy", length["matched"], {}, setting="language_length")
    first = published["checkpoints"][checkpoint]["band"][0]
    begin, end = (round(share * layers) - first for share in (0.50, 0.66))  # as far as the statistics look
    profiles = {
        arm: [-math.log10((1 - rz) * size + 1) for rz in values] for arm, values in visibility["profile"]["rz"].items()
    }
    contrasts("lz_rise", {arm: values[end] - values[begin] for arm, values in profiles.items()}, {})

    lowest, highest = availability["over_floor"]["lowest"], availability["over_floor"]["highest"]
    add("over_floor", "lowest_arm", lowest, experiment="availability")
    add("evenness", "all_arms", lowest / highest, experiment="availability")
    add("floor_over_chance", "all_arms", availability["floor_over_chance"], experiment="availability")
    return rows


ROWS = {"lexframe": paper_rows, "gathered": gathered_rows}


def paper_evidence(published, checkpoint: str, experiment: str, paper: str = "lexframe", **about) -> Evidence:
    """The paper's values as the evidence on a claim of ``experiment``."""
    tied = published["checkpoints"][checkpoint].get("tied_embeddings")
    return Evidence(checkpoint, ROWS[paper](published, checkpoint, **about), published, tied, experiment)
