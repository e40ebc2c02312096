"""What stands in for attention (table 8): hand-made stand-ins, order 1 on each, texts that share no document."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from models import ARCHITECTURES, tiny, tokens
from torch.nn.functional import cosine_similarity, kl_div

from lensproof.corpora.sequences import disjoint, take
from lensproof.errors import LensproofError
from lensproof.experiments.stand_ins import Clean, judge, reread
from lensproof.frames import typical as typical_attention
from lensproof.frames.basis import covectors
from lensproof.frames.flow import flow
from lensproof.frames.frame import frames, native_readouts
from lensproof.statistics.stand_ins import estimate
from lensproof.statistics.table import COLUMNS
from lensproof.streams.replay import remember
from lensproof.streams.trace import onward

LENGTH = 20
LAYERS = (1, 3)
AT, LABELS = torch.tensor([3, 17]), torch.tensor([5, 77, 200])
SETTINGS = {"resamples": 100, "level": 0.9, "seed": 3}
METHODS = ("mean_and_regression", "mean_only", "zero")


@pytest.fixture(params=ARCHITECTURES)
def decoder(request):
    return tiny(request.param, window=9).on(tokens(1, LENGTH))


@pytest.fixture
def fitted(decoder):
    return typical_attention.calibrate(decoder, tokens(6, LENGTH, seed=1))


@pytest.fixture
def clean(decoder):
    return Clean.of(decoder, tokens(1, LENGTH)[0], LAYERS, AT, LABELS)


@pytest.fixture
def trials(clean, fitted):
    return judge(clean, fitted, LAYERS)


def by_hand(typical, method):
    """The stand-in spelled out: block and inputs to outputs."""
    return {
        "mean_and_regression": typical,
        "mean_only": lambda block, y: typical.output_mean[block].expand_as(y).clone(),
        "zero": lambda block, y: torch.zeros_like(y),
    }[method]


def column(trials, name, method, layer) -> torch.Tensor:
    """The column over positions (or states and labels)."""
    own = trials[(trials["method"] == method) & (trials["layer"] == layer) & trials[name].notna()]
    return torch.tensor(own[name].to_numpy())


def test_stand_ins_return_the_mean_or_nothing_whatever_the_input(fitted):
    y = torch.randn(3, fitted.slope.shape[-1], generator=torch.Generator().manual_seed(0))
    for block, output in enumerate(fitted.output_mean):
        assert torch.equal(fitted.mean_only()(block, y), output.expand_as(y))
        assert not fitted.zero()(block, y).any()
        assert not torch.allclose(fitted(block, y), output.expand_as(y))


@pytest.mark.parametrize("method", METHODS)
def test_kl_is_that_of_the_flow_of_order_1_on_the_stand_in(decoder, clean, fitted, trials, method):
    ((_, cuts, last),) = flow(decoder, clean.states, [1], by_hand(fitted, method), LAYERS)
    assert cuts == [1]
    own = decoder.logits(clean.states[-1]).log_softmax(-1)
    expected = kl_div(decoder.logits(last[0]).log_softmax(-1), own, reduction="none", log_target=True).sum(-1)
    found = column(trials, "kl", method, 1)
    assert torch.allclose(found, expected, rtol=1e-3, atol=2e-6)
    assert found[0] < 1e-6  # position 0 has no prefix
    assert column(trials, "kl", method, 3).max() < 1e-5  # one block remains: order 1 is exact


def test_stand_ins_differ_where_order_0_is_read(decoder, trials):
    values = [column(trials, "kl", method, 1).mean() for method in METHODS]
    # Blocks above the cut that use keys from below it do not read order 0.
    different = 1 if any(block.shares is not None for block in decoder.blocks) else 3
    assert len({round(float(value), 6) for value in values}) == different


def test_the_effect_is_that_of_the_whole_model_without_the_block(decoder, clean, trials):
    logits = decoder.coefficients(clean.states[-1])
    top = logits.argmax(-1)
    for layer in LAYERS:
        effect = column(trials, "effect", "zero", layer)
        for at in (1, LENGTH - 1):
            changed = clean.states[layer].clone()
            changed[at] = clean.states[layer - 1, at]
            *_, last = onward(decoder, changed[None], layer, remember(decoder, clean.states))
            without = decoder.coefficients(last[0, at])
            expected = (logits[at, top[at]] - logits[at].mean()) - (without[top[at]] - without.mean())
            assert abs(effect[at - 1] - expected) < 1e-5 * logits.abs().max()


def test_scores_and_directions_are_the_native_ones_where_one_block_remains(trials):
    for method in METHODS:
        assert torch.allclose(column(trials, "score", method, 3), column(trials, "effect", method, 3), atol=1e-4)
        assert column(trials, "cosine", method, 3).min() > 1 - 1e-6


def test_cosines_are_with_the_gradients_of_order_1(decoder, clean, fitted, trials):
    """By autograd through the flow spelled out for one state, the prefix of order 0 as it is."""
    native = native_readouts(decoder, clean.states, AT, covectors(decoder, LABELS))[1]
    for method in METHODS:
        found = column(trials, "cosine", method, 1).unflatten(0, (len(AT), len(LABELS)))
        frame = frames(decoder, clean.states, 1, [1], by_hand(fitted, method))[1]
        for row, at in enumerate(AT.tolist()):
            x = clean.states[1, at].clone().requires_grad_()
            coefficients = frame.normed(x[None], torch.tensor([at]))[0] @ covectors(decoder, LABELS).T
            for place in range(len(LABELS)):
                (gradient,) = torch.autograd.grad(coefficients[place], x, retain_graph=True)
                expected = cosine_similarity(gradient, native[row, place], dim=0)
                assert found[row, place] == pytest.approx(float(expected), abs=1e-5)


def test_the_same_calibration_reads_the_same_and_another_otherwise(decoder, clean, fitted, trials):
    again = reread(clean, fitted, LAYERS, 2)
    assert set(again["calibration"]) == {2}
    assert torch.equal(column(again, "kl", METHODS[0], 1), column(trials, "kl", METHODS[0], 1))
    if all(block.shares is None for block in decoder.blocks):
        other = typical_attention.calibrate(decoder, tokens(6, LENGTH, seed=9))
        assert not torch.equal(
            column(reread(clean, other, LAYERS, 2), "kl", METHODS[0], 1), column(trials, "kl", METHODS[0], 1)
        )


# -- calibration texts


def corpus(blocks: list[int]) -> pd.DataFrame:
    """So many sequences of each document, dealt as the corpus deals them: first ones first."""
    pieces = sorted((block, document) for document, count in enumerate(blocks) for block in range(count))
    return pd.DataFrame({
        "document": [document for _, document in pieces], "role": "calibration", "rank": range(len(pieces)),
    })  # fmt: skip


def test_calibration_texts_share_no_document_and_the_first_is_the_runs_own():
    """Ranks 0..7 are documents 0 1 2 3 4, then 0 1 2 again."""
    table = corpus([2, 2, 2, 1, 1])
    assert disjoint(table, "calibration", 2, 1).equals(take(table, "calibration", 2))
    assert disjoint(table, "calibration", 2, 1)["document"].tolist() == [0, 1]
    assert disjoint(table, "calibration", 2, 2)["document"].tolist() == [2, 2]
    assert disjoint(table, "calibration", 2, 3)["document"].tolist() == [3, 4]
    assert disjoint(corpus([1, 1, 1, 2]), "calibration", 2, 2)["rank"].tolist() == [2, 3]


def test_more_calibration_texts_than_documents_are_refused():
    with pytest.raises(LensproofError, match="8 sequences for calibration, 9 are asked for"):
        disjoint(corpus([2, 2, 2, 1, 1]), "calibration", 3, 3)
    with pytest.raises(LensproofError, match="not 2 sets of 3 sequences .* share no document"):
        disjoint(corpus([4, 2, 2]), "calibration", 3, 2)


# -- estimates


def judged(documents: int = 6, positions: int = 10, seed: int = 0) -> pd.DataFrame:
    """Made-up trials of three stand-ins, and of two further calibration texts."""
    generator = np.random.default_rng(seed)
    rows = []
    for layer, (rank, method) in itertools.product((3, 6), enumerate(METHODS)):
        effect = generator.normal(size=documents * positions)
        place = {"layer": layer, "method": method, "document": np.repeat(np.arange(documents), positions)}
        place["position"] = np.tile(np.arange(positions), documents)
        for text in (1, 2, 3) if rank == 0 else (1,):
            kl = 0.2 + 0.5 * rank + 0.02 * text + 0.01 * generator.random(len(effect))
            read = pd.DataFrame({**place, "calibration": text, "kl": kl, "effect": np.nan, "score": np.nan})
            if text == 1:
                later = read["position"] > 0
                score = effect + (1 + rank) * generator.normal(size=len(effect))
                read["effect"], read["score"] = np.where(later, (effect, score), np.nan)
            rows.append(read)
        rows.append(pd.DataFrame({**place, "calibration": 1, "label": 7, "cosine": 0.9 - 0.2 * rank}))
    return pd.concat(rows, ignore_index=True).assign(checkpoint="toy")


def only(table: pd.DataFrame, **wanted) -> pd.Series:
    plain = {"reference": None, "contrast": None, "setting": None, "summary": "layer_mean"}
    for name, value in {**plain, **wanted}.items():
        table = table[table[name].isna()] if value is None else table[table[name] == value]
    assert len(table) == 1
    return table.iloc[0]


def test_estimates_by_hand():
    trials = judged()
    table = estimate(trials, **SETTINGS)
    assert tuple(table.columns) == COLUMNS
    for method in METHODS:
        own = trials[(trials["method"] == method) & (trials["calibration"] == 1)]
        assert only(table, measure="kl", method=method)["point"] == pytest.approx(own["kl"].mean())
        assert only(table, measure="cosine", method=method)["point"] == pytest.approx(own["cosine"].mean())
        r = [part["effect"].corr(part["score"]) for _, part in own.groupby("layer")]
        assert only(table, measure="attribution", method=method)["point"] == pytest.approx(np.mean(r))
    gap = only(table, measure="kl", method="mean_only", reference="mean_and_regression", contrast="difference")
    assert gap["point"] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("column", ["kl", "cosine", "effect", "score"])
def test_a_value_that_is_missing_is_refused_not_left_out(column):
    trials = judged()
    trials.loc[trials.index[trials[column].notna()][3], column] = np.nan
    with pytest.raises(LensproofError, match=f"{column} is not finite in 1 trials"):
        estimate(trials, **SETTINGS)


def test_calibration_texts_have_a_value_each_and_a_range():
    trials = judged()
    table = estimate(trials, **SETTINGS)
    own = trials[trials["method"] == METHODS[0]]
    values = [own[own["calibration"] == text]["kl"].mean() for text in (1, 2, 3)]
    for text, value in enumerate(values, 1):
        row = only(table, measure="kl", method=METHODS[0], setting=f"calibration_{text}")
        assert row["point"] == pytest.approx(value)
    row = only(table, measure="kl", method=METHODS[0], contrast="relative_range")
    assert row["point"] == pytest.approx((max(values) - min(values)) / np.mean(values))
    assert row["numerator"] == pytest.approx(max(values) - min(values))
    assert row["unit"] == "share"
