"""Words as tokens: what a tokenizer makes of a word with its leading space, and of a prompt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lensproof.checkpoints.load import encode
from lensproof.errors import LensproofError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Vocabulary:
    """A tokenizer, asked about words; every answer is kept."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self._words: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self.tokenizer)

    def pieces(self, word: str) -> list[int]:
        """Tokens of `` word``, a space in front; none if there are unknown ones among them."""
        if word not in self._words:
            ids = self.tokenizer(f" {word}", add_special_tokens=False, verbose=False)["input_ids"]
            self._words[word] = [] if self.tokenizer.unk_token_id in ids else ids
        return self._words[word]

    def single(self, word: str) -> int | None:
        """The token that `` word`` is, or None where it is several or unknown."""
        pieces = self.pieces(word)
        return pieces[0] if len(pieces) == 1 else None

    def first(self, word: str) -> int | None:
        """The first token of `` word``, or None where it is unknown."""
        return next(iter(self.pieces(word)), None)

    def token(self, word: str) -> int:
        """The token that `` word`` is.

        Raises:
            LensproofError: it is several or unknown.
        """
        found = self.single(word)
        if found is None:
            raise LensproofError(f"{word!r} with its leading space is not one token of this tokenizer")
        return found

    def opening(self, word: str) -> int:
        """The first token of `` word``.

        Raises:
            LensproofError: it is unknown.
        """
        found = self.first(word)
        if found is None:
            raise LensproofError(f"{word!r} is not in the vocabulary of this tokenizer")
        return found

    def suited(self, words: Iterable[str], at_least: int, what: str) -> list[str]:
        """Those of ``words`` that are one token.

        Raises:
            LensproofError: fewer than ``at_least`` are; ``what`` they are is named.
        """
        words = list(words)
        found = [word for word in words if self.single(word) is not None]
        if len(found) < at_least:
            raise LensproofError(
                f"{len(found)} of {len(words)} {what} are one token of this tokenizer with their leading space, "
                f"{at_least} are needed"
            )
        return found

    def encode(self, text: str) -> list[int]:
        """Tokens of a prompt, with a BOS in front where the model uses one."""
        return encode(self.tokenizer, text)

    def shown(self, token: int) -> str:
        """A token as text, for messages."""
        return repr(self.tokenizer.decode([token])) if 0 <= token < len(self) else "outside of the vocabulary"
