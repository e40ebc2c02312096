"""Ranks, percentile ranks, log ranks and margins of tokens in readings, and the layers at which they are read."""

from __future__ import annotations

import pytest
import torch
from models import ARCHITECTURES, tiny

from lensproof.errors import LensproofError
from lensproof.lenses.band import band, to_paper
from lensproof.lenses.visibility import log_rank, percentile, visibility


def states(decoder, count=7, seed=0):
    return torch.randn(count, decoder.width, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_visibility_is_what_the_whole_distribution_says(architecture):
    decoder = tiny(architecture)
    x, tokens = states(decoder), torch.arange(10, 17)
    rivals = [torch.tensor([1, 2, 3]), *[torch.tensor([20, 21])] * 6]
    found = visibility(decoder, x, tokens, rivals)
    scores, log_p = decoder.coefficients(x), decoder.logits(x).log_softmax(-1)
    for row, token in enumerate(tokens.tolist()):
        others = sorted(scores[row].tolist(), reverse=True)
        assert found.rank[row] == others.index(float(scores[row, token]))
        margin = log_p[row, token] - log_p[row, rivals[row]].mean()
        torch.testing.assert_close(found.margin[row], margin, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.percentile, 1 - found.rank.double() / (decoder.vocabulary - 1))


def test_the_winner_has_rank_0_and_ties_do_not_count():
    decoder = tiny("llama", tied=False)
    with torch.no_grad():
        decoder.unembedding[40:44] = decoder.unembedding[40]
    x = states(decoder, 1)
    top = decoder.coefficients(x).argmax(-1)
    assert visibility(decoder, x, top, [torch.tensor([299])]).rank.item() == 0
    ranks = {visibility(decoder, x, torch.tensor([t]), [torch.tensor([0])]).rank.item() for t in range(40, 44)}
    assert max(ranks) - min(ranks) <= 3  # equal rows may round apart, never by more than one another


def test_percentile_and_log_rank_of_ranks_0_and_24_of_a_large_vocabulary():
    ranks = torch.tensor([0, 24])
    high, low = percentile(ranks, 248_320)
    assert float(high) == 1
    assert float(high - low) == pytest.approx(24 / 248_319, rel=1e-9)
    first, second = log_rank(ranks)
    assert float(first - second) == pytest.approx(1.39794, abs=1e-5)


def test_rivals_are_others():
    decoder = tiny("llama")
    for rivals in ([], [5, 7]):
        with pytest.raises(LensproofError, match="rivals"):
            visibility(decoder, states(decoder, 1), torch.tensor([5]), [torch.tensor(rivals, dtype=torch.int64)])


@pytest.mark.parametrize(("depth", "first", "last"), [(64, 24, 59), (62, 24, 57), (40, 15, 37), (32, 12, 29)])
def test_the_band_is_the_paper_s(depth, first, last):
    layers = band(depth)
    assert (to_paper(layers[0]), to_paper(layers[-1])) == (first, last)
    assert len(layers) == last - first + 1


def test_the_band_of_a_small_model_ends_below_the_last_block():
    assert list(band(4)) == [3, 4]
