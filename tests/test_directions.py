"""Directions, their ceilings and their relaxation: by autograd, finite differences, hand calculation and brute force
(known answers 21 and 22)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from models import ARCHITECTURES, assert_same, tiny, tokens
from sklearn.linear_model import Ridge

from lensproof.corpora import draw
from lensproof.errors import LensproofError
from lensproof.experiments import coherence, directions, planes
from lensproof.experiments.run import Run
from lensproof.files import read_safetensors
from lensproof.frames import typical
from lensproof.frames.basis import OutputBasis, closed_form, covectors
from lensproof.frames.frame import frames
from lensproof.lenses import jacobian, probe
from lensproof.lenses.jacobian import JacobianLens
from lensproof.statistics import coherence as ceilings
from lensproof.statistics import directions as statistics
from lensproof.statistics import planes as passed_on
from lensproof.statistics import relaxation
from lensproof.statistics.bootstrap import resampling_weights
from lensproof.statistics.sample import ByLayer, Sample
from lensproof.streams.trace import residuals

LENGTH, AT = 20, torch.tensor([3, 14])
LABELS = torch.tensor([5, 77, 140])
SETTINGS = {"resamples": 100, "level": 0.9, "seed": 4}


# -- the experiment


@pytest.fixture(params=ARCHITECTURES)
def world(request):
    """A model bound to a sequence, its states, and what is fitted for it, at random."""
    ids = tokens(1, LENGTH)
    decoder = tiny(request.param, window=9).on(ids)
    generator = torch.Generator().manual_seed(3)
    matrices = {layer: torch.randn(decoder.width, decoder.width, generator=generator) for layer in range(decoder.depth)}
    weight = torch.randn(decoder.depth + 1, len(LABELS), decoder.width, generator=generator)
    zeros = torch.zeros(decoder.depth + 1)
    fitted = {
        "typical": typical.calibrate(decoder, tokens(4, LENGTH, seed=1)),
        "lens": JacobianLens({**matrices, decoder.depth: torch.eye(decoder.width)}, 1),
        "ridge": probe.RidgeProbe(LABELS, weight, zeros[:, None], zeros[:, None], zeros, zeros),
    }
    return decoder, residuals(decoder, ids)[:, 0], fitted


def rest(decoder, states, layer, x, at):
    """N(T(x)) by the rest of the whole model, run on the whole sequence with one state changed."""
    row = states[layer].clone()
    row[at] = x
    kept = {}
    for index, block in enumerate(decoder.blocks):
        if decoder.is_shared(index) and index < layer:
            kept[index] = block.remember(states[index][None])
    for index in range(layer, decoder.depth):
        block = decoder.blocks[index]
        if decoder.is_shared(index):
            kept[index] = block.remember(row[None])
        row = block.run(row[None], *([kept[block.shares]] if block.shares is not None else []))[0]
    return decoder.final_norm(row[at])


def gradients(function, x):
    """Gradient by ``x`` of each of the numbers that ``function`` gives."""
    variable = x.detach().clone().requires_grad_()
    return torch.stack([torch.autograd.grad(value, variable, retain_graph=True)[0] for value in function(variable)])


def test_every_direction_is_the_gradient_of_what_its_method_reads(world):
    """Each method's cosine from autograd through what it reads, the native one through the whole model."""
    decoder, states, fitted = world
    found = directions.compare(decoder, states, AT, LABELS, layers=[0, 2, decoder.depth], orders=[0, 1, 2], **fitted)
    covector, lens, depth = covectors(decoder, LABELS), fitted["lens"], decoder.depth
    for layer in (0, 2):
        made = {order: frames(decoder, states, order, [layer], fitted["typical"])[layer] for order in (0, 1, 2)}
        for at in AT.tolist():
            x = states[layer, at]
            native = gradients(lambda x, layer=layer, at=at: covector @ rest(decoder, states, layer, x, at), x)
            reads = {
                "logit_lens": lambda x: covector @ x,
                "jacobian_lens": lambda x, layer=layer: covector @ lens.transport(x, layer),
                "jacobian_lens_normed": lambda x, layer=layer: covector @ decoder.final_norm(lens.transport(x, layer)),
                "ridge_probe": lambda x, layer=layer: fitted["ridge"].predict(x, layer),
            }
            for order, frame in made.items():
                where = torch.tensor([at])
                reads[f"lexframe_{order}"] = lambda x, f=frame, w=where: covector @ f.normed(x[None], w)[0]
            for method, read in reads.items():
                rows = found.query("method == @method and layer == @layer and position == @at")
                expected = torch.cosine_similarity(gradients(read, x), native)
                assert rows["label"].tolist() == LABELS.tolist()
                np.testing.assert_allclose(rows["cosine"], expected, atol=1e-5, err_msg=f"{method} {layer} {at}")
    exact = found[found["method"].isin(["lexframe_0", "lexframe_1", "lexframe_2"]) & (found["layer"] == depth)]
    np.testing.assert_allclose(exact["cosine"], 1, atol=1e-12)


def test_orders_are_exact_where_few_blocks_remain(world):
    decoder, states, fitted = world
    found = directions.compare(
        decoder, states, AT, LABELS, layers=list(range(decoder.depth + 1)), orders=[0, 1, 2], **fitted
    )
    for order in (0, 1, 2):
        cosines = found[found["method"] == f"lexframe_{order}"].groupby("layer")["cosine"].min()
        assert (abs(cosines[cosines.index >= decoder.depth - order] - 1) < 1e-12).all()
        assert order > 0 or cosines[0] < 0.999  # higher orders can be exact earlier where keys and values are shared


def test_state_times_readout_is_the_slope_of_scaling_the_state_and_not_the_coefficient(world):
    """Known answer 22, by central differences through the whole model."""
    decoder, states, fitted = world
    found = directions.compare(decoder, states, AT, LABELS, layers=[1], orders=[], **fitted)
    native = found[found["method"] == "native_readout"]
    covector, step = covectors(decoder, LABELS), 1e-2
    for at in AT.tolist():
        x, rows = states[1, at], native[native["position"] == at]
        higher, lower = (covector @ rest(decoder, states, 1, (1 + sign * step) * x, at) for sign in (1, -1))
        np.testing.assert_allclose(rows["inner_product"], (higher - lower) / (2 * step), rtol=5e-3, atol=1e-3)
        logits = decoder.coefficients(states[-1, at])
        np.testing.assert_allclose(rows["coefficient"], logits[LABELS] - logits.mean(), rtol=1e-4, atol=1e-5)
    assert abs(native["inner_product"] - native["coefficient"]).max() > 0.1 * abs(native["coefficient"]).max()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of four sequences of three documents, with everything fitted and saved."""
    folder, ids, decoder = tmp_path_factory.mktemp("artifacts"), tokens(8, LENGTH, vocabulary=60), tiny("llama")
    sequences = pd.DataFrame({
        "sequence": range(8), "document": [0, 1, 2, 3, 4, 5, 6, 6], "role": ["calibration"] * 4 + ["test"] * 4,
        "rank": [0, 1, 2, 3] * 2, "tokens": list(ids.numpy()),
    })  # fmt: skip
    options = {"layers": "all", "positions": 2, "labels": 6, "orders": [0, 1], "tokens": 3}
    labels = torch.from_numpy(draw.labels(sequences, 6))
    typical.save(folder / "typical_attention.safetensors", typical.calibrate(decoder, ids[:4]), {})
    jacobian.save(folder / "jacobian_lens.safetensors", jacobian.fit(decoder, ids[:2], skip=2), {})
    fitted = probe.fit(decoder, ids[:4], labels, covectors(decoder, labels))
    probe.save(folder / "ridge_probe.safetensors", fitted, {"weights": "a" * 64})
    inputs = {path.stem: path for path in folder.iterdir()}
    return Run(Path("results/checkpoints/toy"), decoder, sequences, 0, 4, options, inputs, "a" * 64, 0)


@pytest.fixture(scope="module")
def observed(run):
    """Observations of directions and coherence together, as their estimates are made from."""
    tables = (directions.observe(run), coherence.observe(run))
    return pd.concat([table.assign(checkpoint="toy") for table in tables], ignore_index=True)


def test_every_state_label_and_method_is_a_row(observed):
    trials = observed[observed["other_document"].isna()]
    keys = ["method", "layer", "sequence", "position", "label"]
    assert not trials.duplicated(keys).any()
    assert len(trials) == 7 * 5 * 4 * 2 * 6  # native and six methods; layers, sequences, positions, labels
    assert (trials["position"] > 0).all()
    assert (trials["depth"] == 4).all()
    native = trials["method"] == "native_readout"
    assert trials.loc[native, ["inner_product", "coefficient"]].notna().all(axis=None)
    assert trials.loc[~native, "cosine"].notna().all()


def test_shards_are_parts_of_the_whole(run, observed):
    part = directions.observe(replace(run, first=1, count=2))
    whole = observed[observed["other_document"].isna() & observed["sequence"].isin(set(part["sequence"]))]
    np.testing.assert_array_equal(part["cosine"], whole["cosine"])


def test_both_experiments_look_at_the_same_states(observed):
    pairs = observed["other_document"].notna()
    places = ["sequence", "position", "layer", "label"]
    assert set(map(tuple, observed.loc[~pairs, places].to_numpy())) == set(
        map(tuple, observed.loc[pairs, places].to_numpy())
    )


# -- the ceiling of fixed directions


def states_at_random(documents=(0, 0, 1, 2, 2, 2), layers=(0, 3, 4), labels=2, width=5, seed=0):
    """Unit readouts ``[S, m, C, d]`` with something in common, the pairs' observations, and the documents."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(layers), len(documents), labels, width)
    readouts = torch.randn(shape, generator=generator) + torch.tensor([0.8, 0, 0, 0, 0])
    readouts = torch.nn.functional.normalize(readouts, dim=-1)
    states = pd.DataFrame({"document": documents, "sequence": documents, "position": range(len(documents))})
    found = coherence.pairs(readouts, list(layers), torch.arange(labels), states)
    return readouts.double(), found.assign(checkpoint="toy", depth=12), np.asarray(documents)


def draws(observations):
    sample = Sample.of(observations, **SETTINGS)
    return sample, ceilings.ceilings(sample, observations)


def test_the_mean_of_unit_readouts_and_its_identity():
    """Known answer 21: |mean|^2 = 1/m + (1 - 1/m) times the mean cosine over distinct pairs."""
    readouts, observations, documents = states_at_random()
    _, found = draws(observations)
    m = len(documents)
    length = readouts.mean(1).norm(dim=-1)  # S, C
    np.testing.assert_allclose(found["mean_direction"].draws[0], length.mean(-1), rtol=1e-6)
    distinct = observations[observations["position"] != observations["other_position"]]
    cosine = distinct.groupby(["layer", "label"])["cosine"].mean().to_numpy().reshape(length.shape)
    np.testing.assert_allclose(length**2, 1 / m + (1 - 1 / m) * cosine, rtol=1e-6)


def test_no_fixed_direction_is_above_the_mean_direction():
    readouts, observations, _ = states_at_random()
    _, found = draws(observations)
    tried = torch.nn.functional.normalize(torch.randn(500, 5, generator=torch.Generator().manual_seed(1)), dim=-1)
    best = torch.einsum("nd,smcd->nscm", tried.double(), readouts).mean(-1).amax(0).mean(-1).numpy()
    assert (best <= found["mean_direction"].draws[0] + 1e-9).all()
    assert (best > 0.9 * found["mean_direction"].draws[0]).all()


def test_ceiling_by_hand():
    """One label, documents A (two states) and B: pairs across are (0.6, 0.2); the pair within A does not count."""
    rows = [("a1", "a2", 0.9), ("a1", "b", 0.6), ("a2", "b", 0.2), ("a1", "a1", 1), ("a2", "a2", 1), ("b", "b", 1)]
    document = {"a1": 0, "a2": 0, "b": 1}
    table = pd.DataFrame([
        {"document": document[i], "sequence": document[i], "position": int(i[1:] or 0),
         "other_document": document[j], "other_sequence": document[j], "other_position": int(j[1:] or 0),
         "cosine": value, "layer": 1, "label": 7, "method": "native_readout", "checkpoint": "toy", "depth": 3}
        for i, j, value in rows
    ])  # fmt: skip
    _, found = draws(table)
    assert found["fixed_direction_ceiling"].draws[0] == pytest.approx([0.4**0.5])
    assert found["fixed_direction_ceiling"].n == (2,)
    assert found["mean_direction"].draws[0] == pytest.approx([((3 + 2 * (0.9 + 0.6 + 0.2)) / 9) ** 0.5])
    assert found["mean_direction"].n == (6,)
    _, found = draws(table.assign(cosine=np.where(table["cosine"] < 1, -table["cosine"], 1)))
    assert found["fixed_direction_ceiling"].draws[0] == pytest.approx([0])  # a mean cosine below 0 has no root


def test_in_a_resample_a_pair_counts_as_often_as_its_documents():
    """Brute force: gather the drawn documents' states with repeats, leave out pairs of one document."""
    readouts, observations, documents = states_at_random(documents=(0, 0, 1, 2, 2, 3))
    sample, found = draws(observations)
    assert (sample.weights == resampling_weights(4, SETTINGS["resamples"], SETTINGS["seed"])).all()
    moved = []
    for resample in (0, 1, 7, 23):
        states = np.concatenate(
            [np.repeat(np.flatnonzero(documents == d), int(n)) for d, n in enumerate(sample.weights[resample])]
        )
        drawn = readouts[:, states]
        product = torch.einsum("smcd,sncd->scmn", drawn, drawn).numpy()
        across = documents[states][:, None] != documents[states]
        ceiling = np.sqrt(np.maximum(product[..., across].mean(-1), 0)).mean(-1)
        np.testing.assert_allclose(found["fixed_direction_ceiling"].draws[resample], ceiling, rtol=1e-6)
        length = drawn.mean(1).norm(dim=-1).mean(-1).numpy()
        moved.append(length - found["mean_direction"].draws[resample])
    np.testing.assert_allclose(moved[0], 0, atol=1e-6)  # the sample itself
    for other in moved[2:]:  # every resample by as much
        np.testing.assert_allclose(other, moved[1], atol=1e-6)
    assert (moved[1] > 0).all()


def test_a_large_sample_of_states_tends_to_the_population_ceiling():
    """Readouts a e + noise: two states' mean cosine is k, and both ceilings come near its root."""
    _, observations, _ = states_at_random(documents=tuple(range(150)), layers=(1,), labels=1, seed=5)
    _, found = draws(observations)
    ceiling, mean = (found[name].draws[0, 0] for name in ("fixed_direction_ceiling", "mean_direction"))
    assert mean**2 == pytest.approx(1 / 150 + (1 - 1 / 150) * ceiling**2, rel=1e-6)
    assert 0 < mean - ceiling < 0.02


@pytest.mark.parametrize(
    ("depth", "layers"), [(36, range(8, 18)), (30, range(7, 15)), (18, range(4, 9)), (32, range(8, 16))]
)
def test_plateau_is_the_slope_over_the_papers_share_of_depth(depth, layers):
    sample = Sample.of(states_at_random()[1], **SETTINGS)
    value = np.where(np.isin(np.arange(depth + 1), layers), 0.3 + 0.02 * np.arange(depth + 1), 9.0)  # else it shows
    values = ByLayer(tuple(range(depth + 1)), np.tile(value, (101, 1)), (4,) * (depth + 1))
    rows = list(ceilings.plateau(sample, {"fixed_direction_ceiling": values}, depth))
    assert rows[0]["measure"] == "plateau_slope"
    assert rows[0]["point"] == pytest.approx(0.02)
    assert rows[0]["layers"] == len(layers)
    assert [row["layer"] for row in rows[1:]] == list(layers)
    assert [row["point"] for row in rows[1:]] == pytest.approx([0.3 + 0.02 * layer for layer in layers])


def test_no_plateau_of_one_layer():
    sample, found = draws(states_at_random()[1])
    assert list(ceilings.plateau(sample, found, 6)) == []  # layer 2 alone
    assert len(list(ceilings.plateau(sample, found, 12))) == 3  # of layers 3 to 5, two were observed


# -- relaxation


def angles(values):
    """Draws of an angle by layer 0 .. L, the same in every resample."""
    sample = Sample.of(states_at_random()[1], **SETTINGS)
    return sample, ByLayer(
        tuple(range(len(values))), np.tile(np.asarray(values, dtype=float), (101, 1)), (4,) * len(values)
    )


def relaxed(values, **wanted):
    rows = pd.DataFrame(list(relaxation.relaxation(*angles(values), len(values) - 1)))
    for name, value in wanted.items():
        rows = rows[rows[name].isna() if value is None else rows[name] == value]
    return rows


@pytest.mark.parametrize("setting", [None, "logarithm"])
def test_an_exponential_is_found_whatever_stands_at_the_ends(setting):
    """80 degrees less a tenth of the rest per layer; the embedding and the two exact layers do not count."""
    values = [10.0, *(80 * 0.9**layer for layer in range(1, 11)), 55.0, 0.0]
    share, r2 = (relaxed(values, measure=f"relaxation_{name}", setting=setting).iloc[0] for name in ("share", "r2"))
    assert (share["point"], r2["point"]) == (pytest.approx(0.1), pytest.approx(1.0))
    assert (share["method"], share["summary"], share["layers"]) == ("lexframe_1", "all_layers", 10)
    fit = relaxed(values, measure="angle_fit", setting=setting)
    assert fit["layer"].tolist() == list(range(1, 11))
    assert fit["point"].tolist() == pytest.approx(values[1:11])


def test_the_fit_is_least_squares_in_degrees():
    """No exponential near it has a smaller sum of squares, and R2 is by hand."""
    x, y = np.arange(1.0, 8.0), np.array([[70.0, 60, 52, 30, 28, 20, 3]])
    rate, fitted = relaxation.exponential(x, y)
    height = fitted[0, 0] * np.exp(rate[0] * x[0])

    def error(a, r):
        return ((a * np.exp(-r * x) - y[0]) ** 2).sum()

    best = error(height, rate[0])
    assert best == pytest.approx(((fitted - y) ** 2).sum())
    for a, r in ((1.01, 1), (0.99, 1), (1, 1.02), (1, 0.98)):
        assert error(height * a, rate[0] * r) > best
    assert relaxation.explained(y, fitted)[0] == pytest.approx(1 - best / ((y - y.mean()) ** 2).sum())


def test_the_line_through_the_logarithm_by_hand():
    """log2 of 8, 4, 1 is 3, 2, 0: slope -1.5, through 19/6, 10/6, 1/6; residuals 1/6, 2/6, 1/6."""
    rate, fitted = relaxation.line(np.array([1.0, 2, 3]), np.array([[8.0, 4, 1]]))
    assert rate[0] == pytest.approx(1.5 * np.log(2))
    assert fitted[0] == pytest.approx(2 ** (np.array([19, 10, 1]) / 6))
    rows = relaxed([0, 8.0, 4, 1, 0, 0], measure="relaxation_r2", setting="logarithm")
    assert rows["point"].iloc[0] == pytest.approx(1 - (6 / 36) / (14 / 3))


def test_an_angle_of_zero_has_no_logarithm():
    rows = relaxed([9, 8.0, 0, 1, 0, 0], measure="relaxation_share")
    assert rows.set_index(rows["setting"].fillna("degrees"))["point"].isna().to_dict() == {
        "degrees": False, "logarithm": True
    }  # fmt: skip


def test_two_layers_are_too_few_to_fit():
    assert relaxed([9, 8.0, 4, 1, 0]).empty


# -- estimates


def select(estimates, **wanted):
    """The one estimate that ``wanted`` names; columns not named are null, the summary a layer mean."""
    wanted = {"reference": None, "contrast": None, "layer": None, "setting": None, "summary": "layer_mean", **wanted}
    for column, value in wanted.items():
        estimates = estimates[estimates[column].isna() if value is None else estimates[column] == value]
    assert len(estimates) == 1, wanted
    return estimates.iloc[0]


@pytest.fixture(scope="module")
def estimates(observed):
    return statistics.estimate(observed, **SETTINGS)


def test_cosines_and_angles_are_means_over_states_and_labels(observed, estimates):
    for method in ("logit_lens", "jacobian_lens_normed", "ridge_probe", "lexframe_1"):
        rows = observed[observed["method"] == method]
        for measure, value in (("cosine", rows["cosine"]), ("angle", np.degrees(np.arccos(rows["cosine"])))):
            by_layer = value.groupby(rows["layer"]).mean()
            found = select(estimates, measure=measure, method=method, layer=2, summary="layer")
            assert (found["point"], found["n"]) == (pytest.approx(by_layer[2]), 4 * 2 * 6)
            mean = select(estimates, measure=measure, method=method)
            assert (mean["point"], mean["layers"]) == (pytest.approx(by_layer.loc[1:3].mean()), 3)


def test_inner_product_is_pearsons_correlation(observed, estimates):
    native = observed[(observed["method"] == "native_readout") & observed["inner_product"].notna()]
    r = [np.corrcoef(rows["inner_product"], rows["coefficient"])[0, 1] for _, rows in native.groupby("layer")]
    for layer in range(4):
        found = select(estimates, measure="inner_product", method="native_readout", layer=layer, summary="layer")
        assert found["point"] == pytest.approx(r[layer], rel=1e-6)
    assert select(estimates, measure="inner_product", method="native_readout")["point"] == pytest.approx(
        np.mean(r[1:4])
    )


def test_ceilings_stand_among_the_cosines_paired(observed, estimates):
    own = ceilings.estimate(observed[observed["other_document"].notna()], **SETTINGS)
    for name in ("fixed_direction_ceiling", "mean_direction"):
        ours, theirs = (select(table, measure="cosine", method=name) for table in (estimates, own))
        assert ours[["point", "lo", "hi"]].tolist() == pytest.approx(
            theirs[["point", "lo", "hi"]].tolist(), nan_ok=True
        )  # of three documents a resample can be one alone
    ceiling = select(own, measure="cosine", method="fixed_direction_ceiling")["point"]
    for method in ("logit_lens", "jacobian_lens", "ridge_probe", "lexframe_1"):
        pair = {"method": "fixed_direction_ceiling", "reference": method, "contrast": "difference"}
        gap = select(estimates, measure="cosine", **pair)["point"]
        assert gap == pytest.approx(ceiling - select(estimates, measure="cosine", method=method)["point"])


def test_documents_are_the_clusters(observed, estimates):
    """The interval of one layer's mean, by gathering the drawn documents."""
    rows = observed[(observed["method"] == "lexframe_0") & (observed["layer"] == 1)]
    groups = rows.groupby("document")["cosine"]
    weights = resampling_weights(3, SETTINGS["resamples"], SETTINGS["seed"])[1:]
    drawn = (weights @ groups.sum().to_numpy()) / (weights @ groups.size().to_numpy())
    found = select(estimates, measure="cosine", method="lexframe_0", layer=1, summary="layer")
    assert found[["lo", "hi"]].tolist() == pytest.approx(np.quantile(drawn, [0.05, 0.95]).tolist())
    assert found["clusters"] == 3


def test_estimates_follow_the_observations(observed, estimates):
    turned = observed.assign(cosine=observed["cosine"].where(observed["method"] != "logit_lens", -observed["cosine"]))
    table = statistics.estimate(turned, **SETTINGS)
    wanted = {"measure": "cosine", "method": "logit_lens"}
    assert select(table, **wanted)["point"] == pytest.approx(-select(estimates, **wanted)["point"])
    wanted = {"measure": "cosine", "method": "lexframe_1"}
    assert select(table, **wanted)["point"] == select(estimates, **wanted)["point"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda table: table[table["other_document"].isna()], "both directions and coherence"),
        (lambda table: table[table["other_document"].notna()], "both directions and coherence"),
        (lambda table: table.drop(columns="coefficient"), "lack coefficient"),
        (
            lambda table: table[(table["document"] == 4) & (table["other_document"].fillna(4) == 4)],
            "at least 2 documents",
        ),
        (lambda table: table.assign(cosine=np.where(table.index == 100, np.nan, table["cosine"])), "not finite"),
    ],
)
def test_observations_that_are_not_whole_are_refused(observed, damage, message):
    with pytest.raises(LensproofError, match=message) as caught:
        statistics.estimate(damage(observed), **SETTINGS)
    assert "\n" not in str(caught.value)


# -- the ridge probe


def test_the_probe_is_sklearns_ridge_at_the_chosen_strength():
    decoder, ids = tiny("llama"), tokens(6, LENGTH, seed=8)
    covector = covectors(decoder, LABELS)
    fitted = probe.fit(decoder, ids, LABELS, covector, batch=2)
    states = residuals(decoder, ids)[:, :, 1:]  # position 0 is left out
    y = (decoder.final_norm(states[-1]) @ covector.T).flatten(0, 1).double().numpy()
    for layer in range(decoder.depth + 1):
        x = states[layer].flatten(0, 1).double().numpy()
        strength = float(fitted.ridge[layer]) * ((x - x.mean(0)) ** 2).sum() / x.shape[1]
        theirs = Ridge(alpha=strength).fit(x, y)
        assert_same(fitted.weight[layer].double(), torch.from_numpy(theirs.coef_), 1e-4)
        assert_same(
            fitted.predict(states[layer], layer).flatten(0, 1).double(), torch.from_numpy(theirs.predict(x)), 1e-4
        )


def test_the_probes_strength_is_the_best_across_folds():
    decoder, ids = tiny("llama"), tokens(6, LENGTH, seed=8)
    covector, grid = covectors(decoder, LABELS), torch.tensor([1e-6, 1e-3, 1e-1, 10.0], dtype=torch.float64)
    fitted = probe.fit(decoder, ids, LABELS, covector, ridges=grid)
    states = residuals(decoder, ids)[:, :, 1:]
    y = (decoder.final_norm(states[-1]) @ covector.T).double().numpy()
    x = states[2].double().numpy()
    whole = x.reshape(-1, x.shape[-1])
    scale = ((whole - whole.mean(0)) ** 2).sum() / x.shape[-1]
    errors = []
    for ridge in grid.tolist():
        parts = [(x[fold::2].reshape(-1, x.shape[-1]), y[fold::2].reshape(-1, 3)) for fold in (0, 1)]
        errors.append(
            sum(
                ((Ridge(alpha=ridge * scale).fit(*parts[i]).predict(parts[1 - i][0]) - parts[1 - i][1]) ** 2).sum()
                for i in (0, 1)
            )
        )
    assert float(fitted.ridge[2]) == pytest.approx(grid[int(np.argmin(errors))].item())


def test_a_probe_of_something_else_is_refused(run, tmp_path):
    path = run.inputs["ridge_probe"]
    labels = probe.load(path, run.decoder, torch.tensor([0]).new_tensor(_labels(path)), "a" * 64).labels
    with pytest.raises(LensproofError, match="fitted for other labels"):
        probe.load(path, run.decoder, labels.flip(0), "a" * 64)
    with pytest.raises(LensproofError, match="fitted on other weights"):
        probe.load(path, run.decoder, labels, "b" * 64)
    with pytest.raises(LensproofError, match="layers 0 to 4 of width 32, this one has 0 to 3 of 32"):
        probe.load(path, tiny("llama", layers=3), labels)
    with pytest.raises(LensproofError, match="at least two sequences"):
        probe.fit(run.decoder, tokens(1, LENGTH), LABELS, covectors(run.decoder, LABELS))


def _labels(path):
    return read_safetensors(path)["labels"].tolist()


# -- figure 2's example


def test_bases_on_the_plane_are_those_of_single_states():
    """Against explicit Jacobians of single frames; the plane is the best of many."""
    ids = tokens(1, LENGTH)
    decoder = tiny("llama").on(ids)
    states = residuals(decoder, ids)[:, 0]
    found = planes.bases(decoder, states, 9, LABELS, [0, 2, 4])
    for place, layer in enumerate((0, 2, 4)):
        frame = frames(decoder, states, float("inf"), [layer])[layer]
        jacobian_ = frame.jacobian(states[layer, 9:10], torch.tensor([9]))
        assert_same(found[place], closed_form(jacobian_, OutputBasis.of(decoder)(LABELS))[0], 1e-4)
    coordinates, kept = planes.plane(found)
    unit = torch.nn.functional.normalize(found.double(), dim=-1).flatten(0, 1)
    assert kept == pytest.approx(float(coordinates.square().sum() / len(unit)))
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        other = torch.linalg.qr(torch.randn(decoder.width, 2, generator=generator, dtype=torch.float64)).Q
        assert float((unit @ other).square().sum() / len(unit)) < kept
    assert (coordinates[-1, -1] > 0).all()
    assert (coordinates.norm(dim=-1) <= 1 + 1e-9).all()


def test_a_plane_by_hand():
    """Four directions in the plane of the first two axes and one across: four fifths are kept."""
    vectors = torch.tensor([[[3.0, 0, 0], [0, 2.0, 0]], [[0, 0, 0.5], [1.0, 1.0, 0]], [[0, 7.0, 0], [1.0, 0, 0]]])
    coordinates, kept = planes.plane(vectors)
    assert kept == pytest.approx(5 / 6)
    assert coordinates.norm(dim=-1).flatten().tolist() == pytest.approx([1, 1, 0, 1, 1, 1], abs=1e-6)


def test_coordinates_are_passed_on(run):
    paths = (("native_basis", 0, " a"), ("native_basis", 1, "b"), ("state", -1, "c"))
    table = pd.DataFrame(
        [(*path, layer, 0.1 * layer + path[1], -layer) for layer in (0, 1) for path in paths],
        columns=["method", "rank", "token", "layer", "x", "y"],
    ).assign(checkpoint="toy", document=0, kept=0.4)
    found = passed_on.estimate(table, **SETTINGS)
    assert len(found) == 2 * 6 + 1
    row = select(found, measure="plane_x", method="native_basis", setting="token_2", layer=1, summary="layer")
    assert (row["point"], row["token"], row["clusters"]) == (pytest.approx(1.1), "b", 1)
    assert np.isnan(row["lo"])
    state = select(found, measure="plane_y", method="state", layer=1, summary="layer")
    assert (state["point"], state["token"]) == (-1, "c")
    assert select(found, measure="plane_kept", method="state", summary="all_layers")["point"] == 0.4
    with pytest.raises(LensproofError, match="lack kept"):
        passed_on.estimate(table.drop(columns="kept"), **SETTINGS)
