"""Exchanging states (Table 2) and readouts inside principal subspaces (figure 5), on tiny models and by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from models import assert_same, last_states, rounding, tiny, tokens

from lensproof.corpora import draw
from lensproof.corpora.draw import Pairs
from lensproof.errors import LensproofError
from lensproof.experiments import subspaces, substitution
from lensproof.experiments.run import Run
from lensproof.figures import lexframe_fig5, style
from lensproof.frames import typical
from lensproof.frames.flow import flow
from lensproof.lenses import jacobian, reading
from lensproof.lenses.reading import divergences
from lensproof.statistics import subspaces as subspaces_statistics
from lensproof.statistics import substitution as substitution_statistics
from lensproof.streams import clouds
from lensproof.streams.trace import residuals

LENGTH, SEQUENCES, LAYERS = 20, 4, [0, 1, 3]
SETTINGS = {"resamples": 100, "level": 0.9, "seed": 0}
GEOMETRY = ["cosine_distance", "euclidean_distance", "principal_subspace", "mahalanobis", "geodesic"]
READINGS = ["jacobian_lens_reading", "lexframe_1_reading_kl", "lexframe_1_reading_kl_own_prefix"]
PAIR = ["document", "sequence", "position", "donor_document", "donor_sequence", "donor_position", "layer"]


@pytest.fixture(params=["llama", "gemma4_text", "qwen3_5_text"], scope="module")
def decoder(request):
    return tiny(request.param, window=9)


@pytest.fixture(scope="module")
def ids():
    return tokens(SEQUENCES, LENGTH)


@pytest.fixture(scope="module")
def stand(decoder):
    return typical.calibrate(decoder, tokens(6, LENGTH, seed=1))


@pytest.fixture(scope="module")
def sequences(ids):
    """Four test sequences of three documents, and a text to take labels from."""
    rows = [("test", rank, document) for rank, document in enumerate([4, 7, 9, 7])] + [("calibration", 0, 1)]
    table = pd.DataFrame(rows, columns=["role", "rank", "document"])
    table["sequence"] = 10 + np.arange(len(table))
    table["tokens"] = [*ids.numpy(), np.arange(LENGTH) % 7]
    return table


@pytest.fixture(scope="module")
def run(decoder, stand, sequences, tmp_path_factory):
    folder = tmp_path_factory.mktemp("artifacts")
    lens = jacobian.fit(decoder, tokens(2, LENGTH, seed=2), skip=2)
    typical.save(folder / "typical.safetensors", stand, {})
    jacobian.save(folder / "lens.safetensors", lens, {})
    return Run(
        folder=Path("toy"),
        decoder=decoder,
        sequences=sequences,
        first=0,
        count=SEQUENCES,
        options={
            "sequences": SEQUENCES, "layers": LAYERS, "pairs": 10, "neighbours": 8, "leading": 3, "graph": 3,
            "positions": 2, "labels": 5,
        },
        inputs={
            "typical_attention": folder / "typical.safetensors", "jacobian_lens": folder / "lens.safetensors"
        },
        weights="",
        seed=0,
    )  # fmt: skip


@pytest.fixture(scope="module")
def trials(run):
    return substitution.observe(run)


# -- pairs


def test_pairs_are_of_different_documents_and_leave_position_0_out():
    documents = np.array([4, 7, 9, 7, 7])
    pairs = draw.pairs(documents, 8, 500, seed=0, layer=3)
    assert (documents[pairs.target] != documents[pairs.donor]).all()
    assert set(pairs.at) == set(pairs.donor_at) == set(range(1, 8))
    assert set(pairs.donor[pairs.target == 1]) == {0, 2}


def test_every_sequence_is_the_target_equally_often_and_no_position_before_the_others():
    pairs = draw.pairs(np.arange(4), 8, 4 * 9 + 1, seed=0, layer=0)
    assert np.bincount(pairs.target).tolist() == [10, 9, 9, 9]
    for sequence in range(4):
        at = pairs.at[pairs.target == sequence]
        assert sorted(at[:7]) == list(range(1, 8))
        assert len(set(at[7:])) == len(at[7:])


def test_pairs_follow_seed_and_layer():
    drawn = [draw.pairs(np.arange(4), 50, 30, seed, layer) for seed, layer in ((0, 0), (0, 0), (1, 0), (0, 3))]
    same = [np.array_equal(np.stack(drawn[0]), np.stack(other)) for other in drawn[1:]]
    assert same == [True, False, False]


def test_pairs_of_one_document_are_refused():
    with pytest.raises(LensproofError, match="at least 2"):
        draw.pairs(np.array([3, 3]), 8, 10, seed=0, layer=0)


# -- divergences of readings


@pytest.mark.parametrize("softcap", [None, 0.5])
def test_divergences_are_those_of_whole_distributions(decoder, monkeypatch, softcap):
    monkeypatch.setattr(reading, "TOKENS", 70)
    monkeypatch.setattr(reading, "ROWS", 2)
    model = replace(decoder, softcap=softcap)
    states = 3 * torch.randn(4, 5, decoder.width, generator=torch.Generator().manual_seed(0))
    log_p, *log_q = (model.logits(x).double().log_softmax(-1) for x in states)
    found = divergences(model, states[0], states[1:])
    assert found.shape == (3, 5)
    assert found.min() > 1e-4
    for row, other in zip(found, log_q, strict=True):
        assert_same(row.double(), (log_p.exp() * (log_p - other)).sum(-1), 1e-4)


def test_a_reading_does_not_diverge_from_itself(decoder):
    x = torch.randn(5, decoder.width, generator=torch.Generator().manual_seed(0))
    assert divergences(decoder, x, x[None]).max() == 0


# -- exchange


def all_pairs(states, layer, target, at, donor, donor_at):
    pairs = {layer: Pairs(*(np.array(part) for part in (target, at, donor, donor_at)))}
    return {layer: states[layer]}, pairs


def test_the_effect_is_that_of_the_whole_model(decoder, ids, stand):
    """Transformers' own run on the whole target sequence, with the donor's state in its place."""
    states = clouds.collect(decoder, ids, LAYERS)
    for layer in LAYERS:
        chosen, pairs = all_pairs(states, layer, [0, 2, 0, 3], [19, 4, 1, 12], [1, 3, 2, 1], [2, 19, 7, 12])
        last = substitution.exchange(decoder, ids, chosen, pairs, stand)[layer]
        for row, (target, at, donor, donor_at) in enumerate(zip(*pairs[layer], strict=True)):
            sequence = ids[target][None]
            assert_same(last.clean[row], residuals(decoder, sequence)[-1, 0, at])
            x = residuals(decoder, sequence)[layer]
            x[0, at] = torch.from_numpy(states[layer][donor, donor_at])
            with torch.no_grad():
                whole = last_states(decoder, sequence, layer, x)[0, at]
            assert_same(last.replaced[row], whole, rounding(decoder))


def test_order_1_reads_the_target_and_the_donor_at_home_as_its_flow_does(decoder, ids, stand):
    states = clouds.collect(decoder, ids, LAYERS)
    chosen, pairs = all_pairs(states, 1, [0, 2], [19, 4], [1, 3], [2, 18])
    last = substitution.exchange(decoder, ids, chosen, pairs, stand)[1]
    for kept, numbers, positions in (
        (last.target, pairs[1].target, pairs[1].at),
        (last.donor_at_home, pairs[1].donor, pairs[1].donor_at),
    ):
        for row, (number, at) in enumerate(zip(numbers, positions, strict=True)):
            states = residuals(decoder, ids[number][None])[:, 0]
            ((_, _, flowed),) = flow(decoder.on(ids[number]), states, [1], stand, [1])
            assert_same(kept[row], flowed[0, at])


def test_a_state_in_its_own_place_changes_nothing(decoder, ids, stand):
    states = clouds.collect(decoder, ids, LAYERS)
    chosen, pairs = all_pairs(states, 1, [0, 2], [19, 4], [0, 2], [19, 4])
    last = substitution.exchange(decoder, ids, chosen, pairs, stand)[1]
    assert divergences(decoder, last.clean, last.replaced[None]).max() < 1e-6
    readings = torch.stack((last.donor, last.donor_at_home))
    assert divergences(decoder, last.target, readings).max() < 1e-6
    options = {"neighbours": 8, "leading": 3, "graph": 3}
    for method, distance in substitution.geometry(states[1], pairs[1], options).items():
        assert np.allclose(distance, 0, atol=1e-5), method


# -- the experiment


def test_a_row_for_every_pair_and_method(trials):
    assert len(trials) == 3 * 10 * 8
    assert set(trials["method"]) == {*GEOMETRY, *READINGS}
    assert set(trials["layer"]) == set(LAYERS)
    assert trials[["distance", "effect"]].gt(0).all(axis=None)
    assert (trials["document"] != trials["donor_document"]).all()
    assert trials.groupby(PAIR)["effect"].nunique().eq(1).all()
    documents = dict(zip(range(10, 14), [4, 7, 9, 7], strict=True))
    assert trials["sequence"].map(documents).equals(trials["document"])
    assert trials["donor_sequence"].map(documents).equals(trials["donor_document"])


def test_where_one_block_is_left_the_order_1_reading_is_the_effect(trials):
    near = trials[(trials["method"] == "lexframe_1_reading_kl") & (trials["layer"] == 3)]
    assert np.allclose(near["distance"], near["effect"], rtol=1e-3, atol=1e-6)
    far = trials[(trials["method"] == "lexframe_1_reading_kl") & (trials["layer"] == 0)]
    assert not np.allclose(far["distance"], far["effect"], rtol=1e-2)


def test_the_last_layer_has_nothing_to_run(run):
    observed = substitution.observe(replace(run, options={**run.options, "layers": [3, run.decoder.depth]}))
    assert set(observed["layer"]) == {3}


def test_shards_make_the_whole(run, trials):
    shards = pd.concat(substitution.observe(replace(run, first=first, count=2)) for first in (0, 2))
    keys = [*PAIR, "method"]
    one, other = (table.set_index(keys).sort_index() for table in (shards, trials))
    assert one.index.equals(other.index)
    assert np.allclose(one[["distance", "effect"]], other[["distance", "effect"]], rtol=1e-3, atol=1e-5)


def test_too_few_states_are_one_clear_line(run):
    options = {**run.options, "neighbours": 80}
    with pytest.raises(LensproofError, match="80 neighbours are asked for, a layer has only"):
        substitution.observe(replace(run, options=options))


# -- estimates of table 2


@pytest.fixture
def known():
    """Two layers of pairs: one distance orders the effects, one reverses them at layer 3, one is blind there."""
    generator = np.random.default_rng(0)
    effect = np.tile(np.exp(generator.standard_normal(60)), 2)
    blind = generator.standard_normal(120)
    pair = pd.DataFrame({"document": np.tile(np.arange(6).repeat(10), 2), "layer": [0] * 60 + [3] * 60})
    distances = {
        "lexframe_1_reading_kl": np.where(pair["layer"] == 0, blind, effect**2),
        "euclidean_distance": np.where(pair["layer"] == 0, effect, -effect),
        "cosine_distance": blind,
    }
    tables = [pair.assign(method=name, distance=values, effect=effect) for name, values in distances.items()]
    return pd.concat(tables, ignore_index=True).assign(checkpoint="toy")


def pick(estimates, **where):
    for name, value in where.items():
        column = estimates[name]
        estimates = estimates[column.isna() if value is None else column == value]
    (found,) = estimates.to_dict("records")
    return found


def test_rank_correlations_by_layer_and_their_means(known):
    estimates = substitution_statistics.estimate(known, **SETTINGS)
    assert set(estimates["experiment"]) == {"substitution"}
    assert set(estimates["measure"]) == {"spearman"}
    plain = {"contrast": None, "summary": "layer"}
    for method, layer, rho in (
        ("euclidean_distance", 0, 1), ("euclidean_distance", 3, -1), ("lexframe_1_reading_kl", 3, 1),
    ):  # fmt: skip
        found = pick(estimates, method=method, layer=layer, **plain)
        assert np.allclose([found["point"], found["lo"], found["hi"]], rho)
        assert (found["n"], found["clusters"]) == (60, 6)
    assert abs(pick(estimates, method="cosine_distance", layer=3, **plain)["point"]) < 0.3
    mean = pick(estimates, method="euclidean_distance", contrast=None, summary="layer_mean")
    assert (mean["point"], mean["layers"]) == (pytest.approx(-1), 1)


def test_predictors_are_contrasted_and_the_embedding_is_set_against_the_mean(known):
    estimates = substitution_statistics.estimate(known, **SETTINGS)
    gap = pick(estimates, method="lexframe_1_reading_kl", reference="euclidean_distance", contrast="difference")
    assert np.allclose([gap["point"], gap["lo"], gap["hi"]], 2)
    rise = pick(estimates, method="euclidean_distance", contrast="layer_mean_minus_layer")
    assert (rise["point"], rise["layer"]) == (pytest.approx(-2), 0)


def test_pairs_that_a_method_lacks_are_refused(known):
    with pytest.raises(LensproofError, match="not every method has every pair"):
        substitution_statistics.estimate(known.drop(index=7), **SETTINGS)


# -- readouts in subspaces


def test_shares_of_a_readout_inside_outside_and_across():
    local = np.stack([np.eye(4)[:, :2], np.eye(4)[:, 2:]])
    readouts = np.array([[[1.0, 1, 0, 0], [1, 0, 0, 1]], [[5, 0, 0, 0], [0, 0, 1, 0]]])
    found = subspaces.shares(readouts, local, np.eye(4)[:, 1:3], np.random.default_rng(0))
    energy = {case: table["energy"].tolist() for case, table in found.groupby(["method", "subspace"])}
    assert energy["local_subspace", "local"] == [1, 0.5, 0, 1]
    assert energy["global_subspace", "global"] == [0.5, 0, 0, 1]
    assert [len(energy["random_direction", subspace]) for subspace in ("local", "global")] == [4, 4]


def test_energies_of_native_readouts(run, decoder, ids):
    """One trial recomputed: autograd through transformers' own run, and the neighbours' principal directions by SVD."""
    observed = subspaces.observe(run)
    assert len(observed) == SEQUENCES * 2 * 5 * 3 * 4
    trial = observed[(observed["method"] == "local_subspace") & (observed["layer"] == 1)].iloc[7]
    number = int(trial["sequence"]) - 10
    states = torch.from_numpy(clouds.collect(decoder, ids, [1])[1])
    x = states[number].clone().requires_grad_()
    logits = decoder.coefficients(last_states(decoder, ids[number][None], 1, x[None])[0, trial["position"]])
    (gradient,) = torch.autograd.grad(logits[trial["label"]] - logits.mean(), x)
    others = states[:, 1:].reshape(-1, decoder.width).double()
    distance = (others - states[number, trial["position"]]).norm(dim=1)
    near = others[distance.argsort()[1 : 1 + 8]]
    leading = torch.linalg.svd(near - near.mean(0))[2][:3]
    readout = gradient[trial["position"]].double()
    assert np.isclose(trial["energy"], float((leading @ readout).square().sum() / readout.square().sum()), rtol=1e-3)


def test_shards_of_subspaces_make_the_whole(run):
    whole = subspaces.observe(run)
    shards = pd.concat([subspaces.observe(replace(run, first=first, count=2)) for first in (0, 2)], ignore_index=True)
    pd.testing.assert_frame_equal(whole, shards)


def test_energies_are_averaged_over_states_and_labels(run):
    observed = subspaces.observe(run).assign(checkpoint="toy")
    estimates = subspaces_statistics.estimate(observed, **SETTINGS)
    assert set(estimates["unit"]) == {"share"}
    for method in ("local_subspace", "global_subspace", "random_direction"):
        trials = observed[(observed["method"] == method) & (observed["layer"] == 3)]
        found = pick(estimates, method=method, layer=3)
        assert found["point"] == pytest.approx(trials["energy"].mean())
        assert found["n"] == len(trials)
    random = pick(estimates, method="random_direction", layer=0)
    assert abs(random["point"] - 3 / run.decoder.width) < 0.03
    share = pick(estimates, method="leading_over_width", layer=0)
    assert share["point"] == pytest.approx(3 / run.decoder.width)
    assert estimates[estimates["method"] == "leading_over_width"][["lo", "hi"]].isna().all(axis=None)


# -- figure 5


@pytest.fixture(scope="module")
def energies():
    """Estimates of two checkpoints, the same shares at three layers."""
    shares = {"local_subspace": 0.2, "global_subspace": 0.3, "random_direction": 0.1}
    cells = [
        pd.DataFrame({"document": np.arange(4), "layer": layer, "method": method, "energy": share + np.arange(4) / 100})
        for layer in (0, 3, 6)
        for method, share in shares.items()
    ]
    tables = [pd.concat(cells).assign(checkpoint=name, dimensions=0.125) for name in ("one", "two")]
    return pd.concat([subspaces_statistics.estimate(table, **SETTINGS) for table in tables], ignore_index=True)


def test_figure_5_shows_the_estimates(energies):
    with style.styled():
        figure = lexframe_fig5.draw(energies, {"one": "A toy"})
    assert [panel.get_title("left") for panel in figure.axes] == ["A toy", "two"]
    for panel, checkpoint in zip(figure.axes, ("one", "two"), strict=True):
        assert panel.get_ylim()[0] == 0
        for line, band, method in zip(panel.lines, panel.collections, lexframe_fig5.LOOKS, strict=True):
            rows = energies[
                (energies["checkpoint"] == checkpoint) & (energies["method"] == method)
                & (energies["summary"] == "layer") & energies["contrast"].isna()
            ]  # fmt: skip
            assert line.get_xdata().tolist() == [0, 3, 6]
            assert line.get_ydata().tolist() == rows["point"].tolist()
            assert line.get_color() == style.METHODS[method]["color"]
            if method == "leading_over_width":  # 64/d in the paper: known, without an interval
                assert line.get_ydata().tolist() == [0.125] * 3
            else:
                assert set(band.get_paths()[0].vertices[:, 1]) == set(rows["lo"]) | set(rows["hi"])


def test_figure_5_of_other_estimates_is_refused(known):
    with pytest.raises(LensproofError, match="energy inside by layer"), style.styled():
        lexframe_fig5.draw(substitution_statistics.estimate(known, **SETTINGS))
