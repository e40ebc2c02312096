"""What a model answers: logits of the token after a prompt, in padded batches or with a context run once for all arms.

All batches are padded at the end and come with their attention mask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from lensproof.specimens.adapters.prompts import Prompt


def padded(rows: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Ids of several lengths as one batch ``[N, T]``, and its attention mask ``[N, T]``, 1 where there is a token."""
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    return ids.to(device), mask.to(device)


def answer_logits(model: torch.nn.Module, prompts: Sequence[Prompt]) -> Tensor:
    """Logits ``[N, V]`` of the token after each prompt."""
    ids, mask = padded([prompt.ids for prompt in prompts], model.device)
    return _at_ends(model, ids, mask, mask.sum(1) - 1, use_cache=False)


def _at_ends(model: torch.nn.Module, ids: Tensor, mask: Tensor, ends: Tensor, **more) -> Tensor:
    """Logits at one position ``ends`` ``[N]`` of each row; the unembedding sees no others."""
    kept, place = ends.unique(return_inverse=True)
    logits = model(input_ids=ids, attention_mask=mask, logits_to_keep=kept, **more).logits
    return logits[torch.arange(len(ids), device=place.device), place]


def of_like_length(prompts: Sequence[Prompt], size: int) -> Iterator[list[Prompt]]:
    """Groups of ``size`` prompts, the shortest first: little is padded."""
    ordered = sorted(prompts, key=lambda prompt: len(prompt.ids))
    return (ordered[start : start + size] for start in range(0, len(ordered), size))


@torch.no_grad()
def instance_logits(model: torch.nn.Module, prompts: Sequence[Prompt]) -> Tensor:
    """Logits ``[N, V]`` of the token after each prompt of one instance, its context run once."""
    context = torch.tensor([prompts[0].context], device=model.device)
    memory = model(input_ids=context, logits_to_keep=1, use_cache=True).cache
    memory.batch_repeat_interleave(len(prompts))
    ids, mask = padded([prompt.rest for prompt in prompts], model.device)
    whole = torch.cat([mask.new_ones(len(ids), context.shape[1]), mask], 1)
    return _at_ends(model, ids, whole, mask.sum(1) - 1, cache=memory)


def accuracies(model: torch.nn.Module, instances: Sequence[Sequence[Prompt]]) -> dict[str, float]:
    """Arm -> share of its prompts whose right candidate has the highest logit of all candidates."""
    right, total = Counter(), Counter()
    for prompts in instances:
        for prompt, logits in zip(prompts, instance_logits(model, prompts), strict=True):
            total[prompt.arm] += 1
            right[prompt.arm] += int(logits[list(prompt.candidates)].argmax()) == prompt.gold
    return {arm: right[arm] / number for arm, number in total.items()}
