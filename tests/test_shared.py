"""Prompts that share a context: what runs once for all equals what runs one by one."""

from __future__ import annotations

import pytest
import torch
from models import ARCHITECTURES, tiny, tokens

from lensproof.errors import LensproofError
from lensproof.streams.shared import continued
from lensproof.streams.trace import residuals

CONTEXT = tokens(1, 21)[0]
ARMS = [tokens(1, length, seed=length)[0] for length in (5, 1, 9)]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("window", [4, 64])
def test_arms_that_share_the_pass_over_their_context_equal_those_run_one_by_one(architecture, window):
    decoder = tiny(architecture, window=window)
    shared = continued(decoder, CONTEXT, ARMS)
    for arm, states in zip(ARMS, shared, strict=True):
        alone = residuals(decoder, torch.cat((CONTEXT, arm))[None])[:, 0, len(CONTEXT) :]
        tolerance = 1e-4 if architecture.startswith("qwen") else 1e-5
        torch.testing.assert_close(states, alone, rtol=tolerance, atol=tolerance * float(alone.abs().max()))


def test_an_arm_does_not_depend_on_the_others():
    decoder = tiny("llama")
    (alone,) = continued(decoder, CONTEXT, ARMS[:1])
    together = continued(decoder, CONTEXT, [ARMS[0], ARMS[2], ARMS[2] + 1])
    torch.testing.assert_close(together[0], alone)
    assert not torch.allclose(together[1], together[2])


@pytest.mark.parametrize(("context", "arms"), [(CONTEXT[:0], ARMS), (CONTEXT, [ARMS[0], ARMS[0][:0]])])
def test_what_is_empty_is_refused(context, arms):
    with pytest.raises(LensproofError, match="at least one token"):
        continued(tiny("llama"), context, arms)
