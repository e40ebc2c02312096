"""Open points decided otherwise: every variant is what it says, by brute force, and its estimates by hand."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from models import assert_same, tiny, tokens

from lensproof.errors import LensproofError
from lensproof.experiments.run import Run
from lensproof.experiments.sensitivity import (
    CHOSEN,
    LENGTHS,
    Context,
    ablations,
    bases,
    calibrations,
    exchanges,
    observe,
    readings,
)
from lensproof.frames import typical as typical_attention
from lensproof.frames.basis import OutputBasis, closed_form, covectors
from lensproof.frames.flow import flow
from lensproof.frames.frame import jacobians, native_readouts
from lensproof.lenses.ridge import RIDGES
from lensproof.statistics import exits
from lensproof.statistics.sensitivity import estimate
from lensproof.statistics.table import COLUMNS
from lensproof.streams.replay import remember
from lensproof.streams.trace import onward, residuals, writes

LENGTH = 24
LAYERS = [1, 2]
OPTIONS = {
    "sequences": 4, "layers": {"every": 1}, "positions": 2, "labels": 3, "pairs": 12, "neighbours": 8, "leading": 3,
    "graph": 4,
}  # fmt: skip
SETTINGS = {"resamples": 100, "level": 0.9, "seed": 3}


@pytest.fixture(params=["llama", "gemma3_text", "gemma4_text", "gpt_neox", "qwen3_5_text"])
def decoder(request):
    return tiny(request.param, window=9)


@pytest.fixture
def fitted(decoder):
    return typical_attention.calibrate(decoder, tokens(6, LENGTH, seed=1))


@pytest.fixture
def context(decoder, fitted):
    return Context.of(decoder, tokens(1, LENGTH)[0], LAYERS, fitted)


def corpus() -> pd.DataFrame:
    """Six sequences to calibrate on and four to test on, each a document."""
    ids = torch.cat((tokens(6, LENGTH, seed=1), tokens(4, LENGTH, seed=2)))
    return pd.DataFrame({
        "document": range(10), "sequence": range(10), "role": ["calibration"] * 6 + ["test"] * 4,
        "rank": [*range(6), *range(4)], "tokens": list(ids.numpy()),
    })  # fmt: skip


def run_of(decoder, count: int = 6, **options) -> Run:
    """The experiment with typical attention of ``count`` sequences."""
    return Run(
        folder=Path("tiny"), decoder=decoder, sequences=corpus(), first=0, count=4,
        options={**OPTIONS, "calibration": count, **options}, inputs={}, weights="", seed=0,
    )  # fmt: skip


@pytest.fixture(scope="module", params=["llama", "gemma3_text"])
def trials(request) -> pd.DataFrame:
    run = run_of(tiny(request.param, window=9))
    return observe(run).assign(checkpoint="tiny")


@pytest.fixture(scope="module")
def estimates(trials) -> pd.DataFrame:
    return estimate(trials, **SETTINGS)


def changed_run(context, layer, x, at) -> torch.Tensor:
    """Last-layer state at one position, the whole sequence run again from ``layer`` with state ``x`` there."""
    states = context.states[layer].clone()
    states[at] = x
    *_, last = onward(context.decoder, states[None], layer, remember(context.decoder, context.states))
    return last[0, at]


# -- typical attention


@pytest.mark.parametrize("count", [4, 6])
def test_variants_of_the_calibration_are_those_of_other_settings(count):
    """Halves of an even and of an odd number of sequences."""
    decoder = tiny("gemma3_text", window=9)
    run = run_of(decoder, count)
    found = calibrations(run)
    ids = tokens(6, LENGTH, seed=1)[:count]
    half = count // 2
    in_turn = torch.stack((ids[:half], ids[half:]), 1).flatten(0, 1)  # even ones are the first half
    chosen = typical_attention.calibrate(decoder, ids)
    expected = {
        CHOSEN: chosen,
        "ridge_grid": typical_attention.calibrate(decoder, ids, ridges=RIDGES[::8]),
        "ridge_folds": typical_attention.calibrate(decoder, in_turn),
    }
    for variant, fitted in expected.items():
        assert_same(found[variant].slope, fitted.slope)
        assert torch.equal(found[variant].ridge, fitted.ridge)
    assert torch.allclose(found["ridge_of_fold"].ridge, 2 * chosen.ridge)
    assert_same(found["ridge_of_fold"].output_mean, chosen.output_mean)


def test_a_calibration_without_first_positions_and_one_twice_as_strong_by_the_formula():
    decoder = tiny("llama", window=9)
    run = run_of(decoder)
    found = calibrations(run)
    states = residuals(decoder, tokens(6, LENGTH, seed=1))
    for variant, first in ((CHOSEN, 0), ("calibration_without_first_position", 1), ("ridge_of_fold", 0)):
        for index, block in enumerate(decoder.blocks):
            y = block.attention_input(states[index])
            a = block.attention(y)
            y, a = (part[:, first:].flatten(0, 1).double() for part in (y, a))
            y, a = y - y.mean(0), a - a.mean(0)
            strength = found[variant].ridge[index].double() * (y.T @ y).trace() / y.shape[1]
            slope = torch.linalg.solve(y.T @ y + strength * torch.eye(y.shape[1], dtype=y.dtype), y.T @ a).T
            assert_same(found[variant].slope[index], slope.float(), 1e-3)


def test_attention_at_the_first_position_may_be_typical_too(decoder, context, fitted):
    """Order 0 at position 0 by the stand-in spelled out; elsewhere order 0 does not see it."""
    ((_, cuts, last),) = flow(context.decoder, context.states, [0], fitted, LAYERS, exact_first=False)
    ((_, _, exact),) = flow(context.decoder, context.states, [0], fitted, LAYERS)
    x = context.states[1, :1]
    for index in range(1, decoder.depth):
        block = context.decoder.blocks[index]
        x = block.finish(x[None], fitted(index, block.attention_input(x[None])), torch.tensor([0]))[0]
    assert_same(last[cuts.index(1), 0], x[0])
    assert_same(last[:, 1:], exact[:, 1:])
    assert not torch.allclose(last[:, 0], exact[:, 0], atol=1e-3)
    assert_same(exact[:, 0], context.states[-1, 0].expand_as(exact[:, 0]))


def test_readings_of_every_typical_attention(context, fitted):
    other = dataclasses.replace(fitted, output_mean=fitted.output_mean + 0.1)
    table = pd.concat(list(readings(context, LAYERS, {CHOSEN: fitted, "other": other})))
    counts = table.groupby(["method", "variant"]).size()
    both = {"lexframe_0": [CHOSEN, "typical_attention_at_first_position"]}
    both["lexframe_1"] = [CHOSEN, "other", "typical_attention_at_first_position"]
    assert counts.to_dict() == {
        ("model", CHOSEN): LENGTH,
        **{(method, variant): len(LAYERS) * LENGTH for method, ways in both.items() for variant in ways},
    }
    first = table[(table["position"] == 0) & (table["method"] == "lexframe_0")].groupby("variant")["kl"].max()
    assert first[CHOSEN] < 1e-6 < first["typical_attention_at_first_position"]


# -- directions, bases, ablation


def test_a_move_succeeds_if_its_token_gains_most_in_the_whole_model(context):
    at, labels, basis = torch.tensor([7]), torch.tensor([5, 77, 200]), OutputBasis.of(context.decoder)
    table, _ = bases(
        context, at, labels, {CHOSEN: basis, "pseudo_inverse_cutoff": OutputBasis.of(context.decoder, 0.5)}
    )
    assert set(table["variant"]) == {CHOSEN, "pseudo_inverse_cutoff", "lsmr_steps"}
    for layer in LAYERS:
        x = context.states[layer, 7]
        matrix = jacobians([context.order1[layer]], x[None, None], at)[0]
        for place, label in enumerate(labels.tolist()):
            direction = closed_form(matrix, basis(labels))[0, place]
            covector = covectors(context.decoder, labels)[place : place + 1]
            readout = native_readouts(context.decoder, context.states, at, covector)[layer, 0, 0]
            direction = direction * (readout @ direction).sign()
            moved = x + 0.1 * x.norm() * direction / direction.norm()
            gain = context.decoder.coefficients(changed_run(context, layer, moved, 7))
            gain = gain - context.decoder.coefficients(context.states[-1, 7])
            row = table[(table["layer"] == layer) & (table["label"] == label) & (table["variant"] == CHOSEN)]
            assert bool(row["success"].item()) == (int(gain.argmax()) == label)


def test_flips_by_trying_every_length(context):
    at, basis, decoder = torch.tensor([7]), OutputBasis.of(context.decoder), context.decoder
    _, table = bases(context, at, torch.tensor([5]), {CHOSEN: basis})
    clean = decoder.logits(context.states[-1, 7]).log_softmax(-1)
    top, runner_up = decoder.coefficients(context.states[-1, 7]).topk(2).indices.tolist()
    others = [token for token in range(decoder.vocabulary) if token not in (top, runner_up)]
    target = basis(torch.tensor([runner_up, top]))
    for layer, variant in itertools.product(LAYERS, (CHOSEN, "basis_common_ridge")):
        x = context.states[layer, 7]
        matrix = jacobians([context.order1[layer]], x[None, None], at)[0]
        if variant == CHOSEN:
            direction = closed_form(matrix, target)[0, 0] - closed_form(matrix, target)[0, 1]
        else:
            direction = closed_form(matrix, target[:1] - target[1:])[0, 0]
        reached, side = False, np.inf
        for length in LENGTHS:
            last = changed_run(context, layer, x + length * x.norm() * direction / direction.norm(), 7)
            raw = decoder.coefficients(last)
            if raw[runner_up] > raw[top]:
                reached = True
                side = float((decoder.logits(last).log_softmax(-1) - clean)[others].abs().mean())
                break
        row = table[(table["layer"] == layer) & (table["variant"] == variant)].iloc[0]
        assert (bool(row["reached"]), bool(row["clean"])) == (reached, reached and side < 0.1)


def test_an_ablation_may_run_the_blocks_mlp_again(context):
    decoder, states = context.decoder, context.states
    table = ablations(context)
    scale = decoder.coefficients(states[-1]).abs().max()
    top = decoder.coefficients(states[-1]).argmax(-1)

    def centred(last, at):
        logits = decoder.coefficients(last)
        return logits[top[at]] - logits.mean()

    for layer, at in itertools.product(LAYERS, (1, LENGTH - 1)):
        made = writes(decoder, states, [layer - 1])[layer - 1]
        block, before = decoder.blocks[layer - 1], states[layer - 1, None, at : at + 1]
        without = {
            CHOSEN: states[layer, at] - made.scale * made.attention[at],
            "ablation_reruns_mlp": block.finish(before, torch.zeros_like(before), torch.tensor([at]))[0, 0],
        }
        for variant, x in without.items():
            where = (table["layer"] == layer) & (table["position"] == at) & (table["variant"] == variant)
            expected = centred(states[-1, at], at) - centred(changed_run(context, layer, x, at), at)
            assert abs(table[where]["effect"].item() - expected) < 1e-5 * scale


def test_with_a_parallel_block_running_the_mlp_again_changes_nothing():
    decoder = tiny("gpt_neox", window=9)
    table = ablations(
        Context.of(decoder, tokens(1, LENGTH)[0], LAYERS, typical_attention.calibrate(decoder, tokens(2, LENGTH)))
    )
    one, other = (part["effect"].to_numpy() for _, part in table.groupby("variant"))
    assert np.allclose(one, other, rtol=1e-4, atol=1e-4)


def test_exchanges_by_brute_force():
    decoder = tiny("gemma3_text", window=9)
    fitted = typical_attention.calibrate(decoder, tokens(2, LENGTH, seed=1))
    contexts = [Context.of(decoder, ids, LAYERS, fitted) for ids in tokens(3, LENGTH, seed=2)]
    rows = list(pd.DataFrame({"document": [5, 6, 7], "sequence": [50, 60, 70]}).itertuples())
    table = exchanges(contexts, rows, OPTIONS, 0)
    assert set(zip(table["method"], table["variant"], strict=True)) == {
        ("principal_subspace", CHOSEN), ("principal_subspace", "neighbours"), ("geodesic", CHOSEN),
        ("geodesic", "neighbours"), ("mahalanobis", CHOSEN), ("mahalanobis", "unshrunk_covariance"),
    }  # fmt: skip
    wanted = table[(table["method"] == "mahalanobis") & (table["layer"] == 1)]
    by_variant = wanted.set_index("variant")
    assert (
        by_variant.loc[CHOSEN, "effect"].to_numpy() == by_variant.loc["unshrunk_covariance", "effect"].to_numpy()
    ).all()
    cloud = torch.cat([context.states[1, 1:] for context in contexts]).double()
    whitened = torch.linalg.pinv(torch.cov(cloud.T), hermitian=True)
    found = by_variant.loc["unshrunk_covariance"].iloc[0]
    target = contexts[[5, 6, 7].index(found["document"])]
    at = int(found["position"])
    clean = decoder.on(target.ids).logits(target.states[-1, at]).log_softmax(-1)
    gaps = []
    for donor in (context for context in contexts if context is not target):
        for x in donor.states[1, 1:]:
            gap = (target.states[1, at] - x).double()
            last = changed_run(target, 1, x, at)
            kl = float((clean.exp() * (clean - target.decoder.logits(last).log_softmax(-1))).sum())
            gaps.append((abs(float(gap @ whitened @ gap) ** 0.5 - found["distance"]), abs(kl - found["effect"])))
    assert min(max(distance, effect) for distance, effect in gaps) < 1e-3  # one donor explains both


# -- the whole experiment


def test_every_variant_of_the_open_points_is_observed_or_estimated(root, trials, estimates):
    points = yaml.safe_load((root / "paper/published/open_points.yaml").read_text())["lexframe"]
    named = set(itertools.chain.from_iterable(point.get("sensitivity", []) for point in points.values()))
    assert named - {"bos"} <= set(estimates["setting"].dropna())  # no sequence of these begins alike
    assert set(trials["variant"]) - {CHOSEN} <= set(estimates["setting"].dropna())


def test_bos_is_taken_away_where_all_sequences_begin_with_it():
    run = run_of(tiny("llama", window=9), layers=[1], positions=1, labels=1, pairs=4)
    for ids in run.sequences["tokens"]:
        ids[0] = 7
    table = observe(run)
    table = table[(table["variant"] == "bos")]
    assert table["position"].max() == LENGTH - 2
    ids = torch.from_numpy(run.sequences[run.sequences["role"] == "test"]["tokens"].iloc[0])[1:]
    context = Context.of(run.decoder, ids, [1], calibrations(run)[CHOSEN])
    last = context.order1[1].transport(context.states[1], torch.arange(len(ids)))
    own = run.decoder.logits(context.states[-1]).log_softmax(-1)
    kl = (own.exp() * (own - run.decoder.logits(last).log_softmax(-1))).sum(-1)
    found = table[table["sequence"] == 6].sort_values("position")["kl"].to_numpy()
    assert np.allclose(found, kl.numpy(), rtol=1e-3, atol=1e-5)


def test_layers_next_to_the_ends_only_are_refused():
    run = run_of(tiny("llama", window=9), layers=[0, 3, 4])
    with pytest.raises(LensproofError, match="no layer among 1 to 2"):
        observe(run)


# -- estimates


def value(table: pd.DataFrame, measure: str, method: str, setting: str | None = None, contrast: str | None = None):
    for name, wanted in {"measure": measure, "method": method, "setting": setting, "contrast": contrast}.items():
        table = table[table[name].isna()] if wanted is None else table[table[name] == wanted]
    assert len(table) == 1
    return table.iloc[0]["point"]


def test_layer_means_of_the_chosen_way_and_of_variants(trials, estimates):
    assert tuple(estimates.columns) == COLUMNS
    for variant, measure in itertools.product((CHOSEN, "ridge_folds"), ("kl",)):
        own = trials[(trials["variant"] == variant) & (trials["method"] == "lexframe_1") & trials[measure].notna()]
        inner = own[own["layer"] > 0].groupby("layer")[measure].mean().mean()
        setting = None if variant == CHOSEN else variant
        assert value(estimates, measure, "lexframe_1", setting) == pytest.approx(inner)
    gap = value(estimates, "kl", "lexframe_1", "ridge_folds") - value(estimates, "kl", "lexframe_1")
    assert value(estimates, "kl", "lexframe_1", "ridge_folds", "difference") == pytest.approx(gap)


def test_position_0_and_the_ends_counted_otherwise(trials, estimates):
    own = trials[(trials["variant"] == CHOSEN) & (trials["method"] == "lexframe_1")]
    read = own[own["kl"].notna()]
    later = read[(read["position"] > 0) & (read["layer"] > 0)].groupby("layer")["kl"].mean().mean()
    assert value(estimates, "kl", "lexframe_1", "first_position_in_readings") == pytest.approx(later)
    depth = trials[trials["method"] == "model"]["layer"].max()
    by_layer = read.groupby("layer")["kl"].mean()
    ends = ((depth - 1) * by_layer.loc[1:].mean() + by_layer.loc[0]) / (depth + 1)
    assert value(estimates, "kl", "lexframe_1", "layers_0_and_L") == pytest.approx(ends)
    compared = own[own["cosine"].notna()].groupby(["layer", own["position"] == 0])["cosine"].mean().unstack()
    mixed = (compared[False] * (LENGTH - 1) + compared[True]).mean() / LENGTH
    assert value(estimates, "cosine", "lexframe_1", "first_position_in_directions") == pytest.approx(mixed)
    assert value(estimates, "cosine", "lexframe_1") == pytest.approx(compared[False].mean())


def plain_error(confidence, correct, edges) -> float:
    """Bins (a, b], the first one closed."""
    place = np.searchsorted(edges[1:-1], confidence, side="left")
    return sum(abs((confidence - correct)[place == index].sum()) for index in range(len(edges) - 1)) / len(confidence)


def test_calibration_errors_with_other_bins(trials, estimates):
    own = trials[(trials["variant"] == CHOSEN) & (trials["method"] == "lexframe_1") & trials["correct"].notna()]
    equal_mass = np.quantile(own["confidence"], np.linspace(0, 1, 16))
    bins = {None: np.linspace(0, 1, 16), "ece_10_bins": np.linspace(0, 1, 11), "ece_equal_mass": equal_mass}
    for setting, edges in bins.items():
        errors = [
            plain_error(part["confidence"].to_numpy(float), part["correct"].to_numpy(float), edges)
            for layer, part in own.groupby("layer")
            if layer > 0
        ]
        assert value(estimates, "ece", "lexframe_1", setting) == pytest.approx(np.mean(errors))


def test_exits_with_the_halves_exchanged(trials, estimates):
    own = trials[(trials["variant"] == CHOSEN) & trials["method"].isin(["lexframe_1", "model"]) & trials["kl"].notna()]
    swapped = own.assign(document=own["document"].map({6: 7, 7: 6, 8: 9, 9: 8}))
    for setting, part in {None: own, "exit_halves": swapped}.items():
        table = exits.estimate(part, **SETTINGS)
        expected = table[(table["measure"] == "skipped") & table["contrast"].isna()].iloc[0]
        assert value(estimates, "skipped", "lexframe_1", setting) == expected["point"]


def test_sequences_drawn_one_by_one_where_a_document_has_several(trials):
    halved = trials.assign(sequence=2 * trials["sequence"] + (trials["position"] >= LENGTH // 2))
    rows = [row for _, row in estimate(halved, **SETTINGS).iterrows() if row["method"] == "lexframe_1"]
    by_setting = {row["setting"]: row for row in rows if row["measure"] == "kl" and pd.isna(row["contrast"])}
    chosen, one_by_one = (row for name, row in by_setting.items() if pd.isna(name) or name == "resample_sequences")
    assert (chosen["clusters"], one_by_one["clusters"]) == (4, 8)
    assert chosen["point"] == pytest.approx(one_by_one["point"])
    assert chosen["lo"] != one_by_one["lo"]


KINDS = {
    "kl": ("lexframe_1", False), "cosine": ("lexframe_1", True), "success": ("lexframe_1_basis", True),
    "reached": ("lexframe_1_basis", False), "clean": ("lexframe_1_basis", False),
    "effect": ("lexframe_1_difference", False), "score": ("lexframe_1_difference", False),
    "distance": ("geodesic", False), "confidence": ("lexframe_1", False),
}  # fmt: skip
"""Column -> a method that has it, with or without a label."""


@pytest.mark.parametrize("column", KINDS)
def test_a_value_that_is_missing_is_refused_not_left_out(trials, column):
    method, labelled = KINDS[column]
    rows = (trials["method"] == method) & (trials["label"].notna() == labelled) & (trials["position"] > 0)
    broken = trials.copy()
    broken.loc[rows[rows].index[0], column] = pd.NA
    with pytest.raises(LensproofError, match="is not finite"):
        estimate(broken, **SETTINGS)


def test_without_the_model_itself_there_is_nothing_to_hold_against(trials):
    with pytest.raises(LensproofError, match="nothing of the model itself"):
        estimate(trials[trials["method"] != "model"], **SETTINGS)
