"""The sets of records that a run is made of, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lensproof.corpora.benchmark import language, tracking, wording
from lensproof.corpora.benchmark.build import MATCHED, UNMATCHED, Built
from lensproof.corpora.benchmark.passages import Passage
from lensproof.corpora.benchmark.wording import Wording
from lensproof.errors import LensproofError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class RecordSet:
    """How a set is made; see the builders of the two families."""

    family: str
    variant: str = MATCHED
    wording: str = "default"
    as_published: bool = False
    swaps: int = 3


SETS: dict[str, RecordSet] = {
    "language": RecordSet("language"),
    "language_unmatched": RecordSet("language", variant=UNMATCHED),
    "language_length": RecordSet("language", wording="length"),
    "language_as_published": RecordSet("language", as_published=True),
    "tracking": RecordSet("tracking"),
    "tracking_unmatched": RecordSet("tracking", variant=UNMATCHED),
    "tracking_length": RecordSet("tracking", wording="length"),
    "tracking_1swap": RecordSet("tracking", swaps=1),
}
WORDINGS: dict[str, Mapping[str, Wording]] = {"language": wording.LANGUAGE, "tracking": wording.TRACKING}


def build(
    name: str,
    tokenizer: PreTrainedTokenizerBase,
    *,
    count: int,
    seed: int,
    passages: Sequence[Passage] = (),
    languages: Sequence[str] | None = None,
    wordings: Mapping[str, Mapping[str, Wording]] = WORDINGS,
) -> Built:
    """The records of a set.

    Args:
        name: of the set.
        tokenizer: that the records are for.
        count: instances.
        seed: of all draws.
        passages: of the language family.
        languages: of the language family; those of the passages by default.
        wordings: family -> name -> wording.

    Raises:
        LensproofError: there is no such set or wording, or what the builders refuse.
    """
    if name not in SETS:
        raise LensproofError(f"there is no set of records {name!r} (there is {', '.join(SETS)})")
    chosen = SETS[name]
    words = wordings.get(chosen.family, {})
    if chosen.wording not in words:
        raise LensproofError(
            f"{name} needs a {chosen.wording} wording of the {chosen.family} family, which is not there"
        )
    common = {"count": count, "seed": seed, "variant": chosen.variant, "as_published": chosen.as_published}
    if chosen.family == "tracking":
        return tracking.build(words[chosen.wording], tokenizer, swaps=chosen.swaps, **common)
    if not passages:
        raise LensproofError(f"{name} needs passages")
    return language.build(passages, words[chosen.wording], tokenizer, languages=languages, **common)
