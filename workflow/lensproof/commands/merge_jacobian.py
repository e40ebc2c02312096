"""``lensproof merge-jacobian``: the Jacobian lens from its shards."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options


@click.command()
@click.argument("shards", nargs=-1, required=True, type=options.FILE)
@options.out
def command(shards: tuple[Path, ...], out: Path) -> None:
    """Average shards, each weighted by its prompts; a name in .pt is written in the reference format."""
    from lensproof.errors import LensproofError
    from lensproof.lenses import jacobian
    from lensproof.provenance import record

    lenses = [jacobian.load(shard) for shard in shards]
    weights = {lens.provenance.get("weights") for lens in lenses}
    if len(weights) > 1:
        raise LensproofError("these shards were fitted on different weights: merge shards of one checkpoint only")
    lowest = {lens.provenance.get(jacobian.LOWEST, 0) for lens in lenses}
    if len(lowest) > 1:
        raise LensproofError("these shards have different lowest layers: merge shards of one fit only")
    merged = jacobian.combine(lenses)
    if out.suffix == ".pt":
        jacobian.save_reference(out, merged)
        return
    inputs = {f"shard_{index:03d}": shard for index, shard in enumerate(shards)}
    found = {"weights": weights.pop(), jacobian.LOWEST: lowest.pop()}
    jacobian.save(out, merged, {**record("merge_jacobian", inputs), **found})
