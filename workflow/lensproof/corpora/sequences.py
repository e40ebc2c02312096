"""Documents to token sequences of one length, each inside one document, shared out among roles.

A document plays one role only (calibration, lens fitting, testing), whatever the sizes asked for, so nothing is
ever tested on text that it was fitted on. Within a role, sequences come in an order that spreads over documents:
the first of every document, then the second of every document that has one, and so on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from lensproof.checkpoints.load import starts_with_bos
from lensproof.errors import LensproofError
from lensproof.files import damaged, read_parquet

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

ROLES = ("calibration", "lens", "test")
COLUMNS = ("sequence", "document", "role", "rank", "tokens")


def read(path: str | Path) -> pd.DataFrame:
    """A file of sequences.

    Raises:
        LensproofError: it is missing, damaged or something else.
    """
    table = read_parquet(path, COLUMNS)
    if table["tokens"].map(len).nunique() != 1:
        raise damaged(path, "its sequences differ in length, or there is none")
    return table


def make(
    documents: pd.DataFrame,
    tokenizer: PreTrainedTokenizerBase,
    *,
    length: int,
    split: Mapping[str, float | str],
    seed: int = 0,
) -> pd.DataFrame:
    """Sequences of exactly ``length`` tokens, BOS first where the model uses one; a document's rest is dropped.

    Args:
        documents: columns ``document``, ``part``, ``text``.
        split: role -> share of the documents, or role -> the part of the corpus that it takes them from.
        seed: of the order in which documents are dealt out.

    Returns:
        One row per sequence: ``sequence`` (running number), ``document``, ``block`` (which piece of the document),
        ``role``, ``rank`` (order within the role), ``tokens`` (ids).

    Raises:
        LensproofError: no document is long enough.
    """
    bos = [tokenizer.bos_token_id] if starts_with_bos(tokenizer) else []
    rows = []
    for role, chosen in _deal(documents, split, seed).items():
        pieces = []
        for place, (document, text) in enumerate(zip(chosen["document"], chosen["text"], strict=True)):
            blocks = _blocks(tokenizer, text, bos, length)
            order = _shuffled(range(len(blocks)), f"{seed}/{document}")
            pieces += [(turn, place, document, block, blocks[block]) for turn, block in enumerate(order)]
        pieces.sort(key=lambda piece: piece[:2])
        rows += [(document, block, role, rank, ids) for rank, (_, _, document, block, ids) in enumerate(pieces)]
    if not rows:
        longest = max((len(tokenizer(text, verbose=False)["input_ids"]) for text in documents["text"]), default=0)
        raise LensproofError(
            f"no document is {length} tokens long, the longest has {longest}: lower sequence_length (--length), or "
            "choose a corpus of longer documents"
        )
    table = pd.DataFrame(rows, columns=["document", "block", "role", "rank", "tokens"])
    table.insert(0, "sequence", np.arange(len(table), dtype=np.int32))
    return table.astype({"document": "int32", "block": "int32", "rank": "int32"})


def _deal(documents: pd.DataFrame, split: Mapping[str, float | str], seed: int) -> dict[str, pd.DataFrame]:
    """The documents of each role; roles that name the same part of the corpus share its documents equally."""
    order = _shuffled(range(len(documents)), str(seed), [str(text) for text in documents["text"]])
    shuffled = documents.iloc[order]
    if all(isinstance(value, str) for value in split.values()):
        dealt = {}
        for part in set(split.values()):
            roles = [role for role in ROLES if split[role] == part]
            dealt |= _divide(shuffled[shuffled["part"] == part], dict.fromkeys(roles, 1 / len(roles)))
        return {role: dealt[role] for role in ROLES}
    return _divide(shuffled, {role: split[role] for role in ROLES})


def _divide(documents: pd.DataFrame, shares: Mapping[str, float]) -> dict[str, pd.DataFrame]:
    ends = np.rint(np.cumsum(list(shares.values())) * len(documents)).astype(int)
    return {role: documents.iloc[start:end] for role, start, end in zip(shares, [0, *ends[:-1]], ends, strict=True)}


def _shuffled(items: Sequence[int], key: str, contents: Sequence[str] | None = None) -> list[int]:
    """An order that depends on the key and each item's content, and on nothing else."""
    contents = contents or [str(item) for item in items]
    return sorted(items, key=lambda item: hashlib.sha256(f"{key}/{contents[item]}".encode()).digest())


def _blocks(tokenizer: PreTrainedTokenizerBase, text: str, bos: list[int], length: int) -> list[list[int]]:
    ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    room = length - len(bos)
    return [bos + ids[start : start + room] for start in range(0, len(ids) - room + 1, room)]


def take(sequences: pd.DataFrame, role: str, count: int, first: int = 0) -> pd.DataFrame:
    """``count`` sequences of a role, in order, from rank ``first``.

    Raises:
        LensproofError: there are not so many.
    """
    chosen = sequences[sequences["role"] == role].sort_values("rank").iloc[first : first + count]
    if len(chosen) < count:
        raise LensproofError(
            f"the corpus has {(sequences['role'] == role).sum()} sequences for {role}, {first + count} are asked for"
        )
    return chosen


def disjoint(sequences: pd.DataFrame, role: str, count: int, part: int) -> pd.DataFrame:
    """The ``part``-th, from 1, of sets of ``count`` sequences of a role that share no document.

    The first is that of :func:`take`, spread over documents. Each later one takes whole documents, in order of their
    first sequence, from those that no set before it has: spread as the first is, sets would use up the documents.

    Raises:
        LensproofError: there are not so many, or their documents too few.
    """
    chosen = take(sequences, role, count * part)
    left = sequences[sequences["role"] == role].sort_values("rank")
    first = left.groupby("document")["rank"].transform("min")
    whole = left.assign(first=first).sort_values(["first", "rank"]).drop(columns="first")
    for number in range(part):
        chosen = (whole if number else left).iloc[:count]
        whole = whole[~whole["document"].isin(chosen["document"])]
    if len(chosen) < count:
        raise LensproofError(
            f"the corpus has not {part} sets of {count} sequences for {role} that share no document: "
            "ask for fewer or smaller ones, or choose a longer corpus"
        )
    return chosen


def tokens(sequences: pd.DataFrame) -> Tensor:
    """Token ids ``[N, T]`` of sequences."""
    import torch

    return torch.from_numpy(np.stack(sequences["tokens"].to_list()).astype(np.int64))
