"""What a model answers: logits of the token after a prompt, the context run once for all arms of an instance.

Contexts of several instances are one batch, padded in front, so that what follows stands next to them; continuations
are another, padded at the end. Both come with their attention mask, and positions count from the first real token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from lensproof.specimens.adapters.prompts import Instances, Prompt

AT_ONCE = 4
"""Instances that run at once."""


def padded(rows: Sequence[Sequence[int]], side: str = "right") -> tuple[Tensor, Tensor]:
    """Ids of several lengths as one batch ``[N, T]``, and its attention mask ``[N, T]``, 1 where there is a token."""
    ids, mask = (
        torch.nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_side=side)
        for parts in ([torch.tensor(row) for row in rows], [torch.ones(len(row), dtype=torch.long) for row in rows])
    )
    return ids, mask


def _positions(mask: Tensor) -> Tensor:
    return (mask.cumsum(1) - 1).clamp(min=0)


def answer_logits(model: torch.nn.Module, instances: Instances) -> Tensor:
    """Logits ``[N, V]`` of the token after each of the N prompts of some instances, one instance after the other.

    Gradients flow through the contexts too. The unembedding sees no more positions than it must.
    """
    contexts, before = padded([prompts[0].context for prompts in instances], side="left")
    memory = model(
        input_ids=contexts, attention_mask=before, position_ids=_positions(before), use_cache=True, logits_to_keep=1
    ).cache
    rows = torch.tensor([row for row, prompts in enumerate(instances) for _ in prompts])
    memory.batch_select_indices(rows)
    ids, mask = padded([prompt.rest for prompts in instances for prompt in prompts])
    whole = torch.cat([before[rows], mask], 1)
    ends, place = (mask.sum(1) - 1).unique(return_inverse=True)
    at = _positions(whole)[:, before.shape[1] :]
    logits = model(input_ids=ids, attention_mask=whole, position_ids=at, cache=memory, logits_to_keep=ends).logits
    return logits[torch.arange(len(ids)), place]


def of_like_length(instances: Instances) -> Iterator[list[Sequence[Prompt]]]:
    """Instances in groups to run at once, the shortest contexts first: little is padded."""
    ordered = sorted(instances, key=lambda prompts: len(prompts[0].context))
    return (ordered[start : start + AT_ONCE] for start in range(0, len(ordered), AT_ONCE))


@torch.no_grad()
def accuracies(model: torch.nn.Module, instances: Instances) -> dict[str, float]:
    """Arm -> share of its prompts whose right candidate has the highest logit of all candidates."""
    right, total = Counter(), Counter()
    for group in of_like_length(instances):
        prompts = [prompt for own in group for prompt in own]
        for prompt, logits in zip(prompts, answer_logits(model, group), strict=True):
            total[prompt.arm] += 1
            right[prompt.arm] += int(logits[list(prompt.candidates)].argmax()) == prompt.gold
    return {arm: right[arm] / number for arm, number in total.items()}
