"""Donors and targets: whose state is put into whose run (Gathered sections 6 and 8 of the method).

A pairing depends on its seed and on the instances alone, so it is the same in every arm that they are complete in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lensproof.corpora.benchmark.draws import Draws
from lensproof.corpora.benchmark.record import Record
from lensproof.errors import LensproofError


class Pair(NamedTuple):
    """Two records of one arm with different z."""

    donor: Record
    target: Record


class Counterfactual(NamedTuple):
    """Two records that look z up, and what the answer is if only the donor's z travels."""

    donor: Record
    target: Record
    predicted: str
    """What the target's own table gives for the donor's z; a candidate of the target."""

    @property
    def distractors(self) -> tuple[str, ...]:
        """The target's candidates that are neither right nor predicted."""
        right = {self.target.gold_answer, self.predicted}
        return tuple(answer for answer in self.target.candidate_answers if answer not in right)


def mismatched(
    records: Sequence[Record], *, seed: int, count: int | None = None, as_published: bool = False
) -> list[Pair]:
    """For each target a donor with another z, drawn from all that may be.

    Args:
        records: of one arm; every one is a target, in the order of instance ids.
        seed: of the pairing.
        count: pairs to take, the first.
        as_published: let the donor's z stand in the target's legend, where it is half installed already.

    Raises:
        LensproofError: no target has such a donor, or the records are not of one arm.
    """

    def allowed(donor: Record, target: Record) -> bool:
        apart = donor.latent_token_id != target.latent_token_id
        return apart and (as_published or donor.latent_token_id not in target.control_token_ids)

    chosen = _pairs(records, "mismatched", seed, count, allowed)
    if not chosen:
        raise LensproofError("empty set: no target has a donor with another z that is not in its own legend")
    return chosen


def counterfactual(
    records: Sequence[Record], *, seed: int, count: int | None = None, as_published: bool = False
) -> list[Counterfactual]:
    """For each target a donor whose z stands in the target's table, so that what its z alone would answer is known.

    Donors whose own answer is that very symbol are left out: with them, a patch that carries the donor's finished
    answer cannot be told from one that carries its z.

    Args:
        records: of one arm that looks z up, with the table as ``symbols`` in ``meta``.
        seed: of the pairing.
        count: pairs to take, the first.
        as_published: do not leave them out.

    Raises:
        LensproofError: no pair can be built, a record without its table, or records that are not of one arm.
    """
    tables = {record.id: _table(record) for record in _of_one_arm(records)}

    def allowed(donor: Record, target: Record) -> bool:
        predicted = tables[target.id].get(donor.latent_value)
        if predicted is None or predicted == target.gold_answer:
            return False
        return as_published or predicted != donor.gold_answer

    chosen = _pairs(records, "counterfactual", seed, count, allowed)
    if not chosen:
        raise LensproofError("empty set: no target's table has the z of a donor")
    return [Counterfactual(*pair, tables[pair.target.id][pair.donor.latent_value]) for pair in chosen]


def _pairs(
    records: Sequence[Record], kind: str, seed: int, count: int | None, allowed: Callable[[Record, Record], bool]
) -> list[Pair]:
    """The first ``count`` targets that have an allowed donor, each with one of them."""
    ordered = sorted(_of_one_arm(records), key=lambda record: record.semantic_instance_id)
    chosen: list[Pair] = []
    for target in ordered:
        if len(chosen) == count:
            break
        donors = [donor for donor in ordered if donor is not target and allowed(donor, target)]
        if donors:
            chosen.append(Pair(Draws(seed, kind, target.semantic_instance_id).choice(donors), target))
    return chosen


def _of_one_arm(records: Sequence[Record]) -> Sequence[Record]:
    arms = sorted({record.condition for record in records})
    if len(arms) > 1:
        raise LensproofError(f"pairs are of one arm, not of {', '.join(arms)}")
    return records


def _table(record: Record) -> dict[str, str]:
    table = record.meta.get("symbols")
    if not isinstance(table, dict) or table.get(record.latent_value) != record.gold_answer:
        raise LensproofError(f"{record.id}: `symbols` in its meta is not the table that its answer comes from")
    return table
