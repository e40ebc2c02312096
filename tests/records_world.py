"""Small records by hand, for tests that need some: a made-up world in a byte-level tokenizer's vocabulary."""

from __future__ import annotations

from lensproof.corpora.benchmark.record import Record

ARMS = ("automatic", "report", "flexible", "control", "supplied")
VALUES = ("alpha", "beta", "gamma")


def record(instance: int, arm: str, *, value: int = 0, passage: str | None = None, **changes) -> Record:
    """A record of ``instance`` in ``arm``; token ids are plain numbers."""
    context = f"The key is one, two and three.\nStory {instance}: the boat left the harbour and nobody saw it again, so"
    fields = {
        "id": f"i{instance:03d}-{arm}",
        "family": "language",
        "condition": arm,
        "semantic_instance_id": f"i{instance:03d}",
        "template_id": "default",
        "context": context,
        "instruction": f"{arm.capitalize()} it now, please.\nAnswer:",
        "latent_name": "language",
        "latent_value": VALUES[value],
        "latent_token_id": 40 + value,
        "control_token_ids": tuple(40 + other for other in range(3) if other != value),
        "gold_answer": "A",
        "candidate_answers": ("A", "B"),
        "candidate_token_ids": (33, 34),
        "meta": {"passage": passage or str(instance)},
    }
    return Record(**{**fields, **changes})


def instances(count: int, arms=ARMS, **more) -> list[Record]:
    """Records of ``count`` instances, values of z in turn."""
    return [record(number, arm, value=number % 3, **more) for number in range(count) for arm in arms]
