"""``lensproof merge-jacobian``: the Jacobian lens from its shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from lensproof import options


@click.command()
@options.files("shards")
@options.out(".safetensors", ".pt")
def command(shards: tuple[Path, ...], out: Path) -> None:
    """Average shards, each weighted by its prompts; a name in .pt is written in the reference format."""
    from lensproof.errors import LensproofError
    from lensproof.lenses import jacobian
    from lensproof.provenance import record

    lenses = [jacobian.load(shard) for shard in shards]
    weights = {lens.provenance.get("weights") for lens in lenses}
    if len(weights) > 1:
        raise LensproofError("these shards were fitted on different weights: merge shards of one checkpoint only")
    _refuse_twice(shards, [lens.provenance for lens in lenses])
    merged = jacobian.combine(lenses)
    if out.suffix == ".pt":
        jacobian.save_reference(out, merged)
        return
    inputs = {f"shard_{index:03d}": shard for index, shard in enumerate(shards)}
    jacobian.save(out, merged, {**record("merge_jacobian", inputs), "weights": weights.pop()})


def _refuse_twice(shards: Sequence[Path], provenances: Sequence[Mapping[str, Any]]) -> None:
    """A prompt in two shards would count twice. Shards that do not say what they are of are taken as they come."""
    from lensproof.errors import LensproofError

    seen: dict[tuple[str, int], Path] = {}
    for shard, provenance in zip(shards, provenances, strict=True):
        settings = provenance.get("settings", {})
        text = provenance.get("inputs", {}).get("sequences", {}).get("sha256", "")
        first = settings.get("first", 0)
        for prompt in range(first, first + settings.get("count", 0)):
            if (other := seen.setdefault((text, prompt), shard)) != shard:
                raise LensproofError(f"{other} and {shard} both hold prompt {prompt}: give each shard once")
