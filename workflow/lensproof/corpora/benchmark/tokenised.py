"""A prompt in tokens, divided where the arms of an instance part."""

from __future__ import annotations

from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from lensproof.checkpoints.load import encode
from lensproof.corpora.benchmark.record import Record
from lensproof.errors import LensproofError

LONGEST = 512
"""Tokens. A longer prompt is refused: cut off, it would lose its instruction."""


class Tokenised(NamedTuple):
    """Ids of the context, with a BOS where the model uses one, and of the rest of the prompt."""

    context: list[int]
    rest: list[int]


def tokenised(tokenizer: PreTrainedTokenizerBase, record: Record) -> Tokenised:
    """The record's prompt.

    Raises:
        LensproofError: the context's tokens are not the prompt's first ones (a merge across the boundary), or the
            prompt is too long; naming the record.
    """
    context, prompt = encode(tokenizer, record.context), encode(tokenizer, record.prompt)
    if prompt[: len(context)] != context or len(prompt) == len(context):
        raise LensproofError(f"{record.id}: the context's tokens are not the first ones of its prompt")
    if len(prompt) > LONGEST:
        raise LensproofError(f"{record.id}: a prompt of {len(prompt)} tokens is longer than {LONGEST}")
    return Tokenised(context, prompt[len(context) :])
