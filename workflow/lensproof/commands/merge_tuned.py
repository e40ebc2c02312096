"""``lensproof merge-tuned``: the tuned lens from its groups of layers."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options


@click.command()
@options.files("groups")
@options.out(".safetensors")
def command(groups: tuple[Path, ...], out: Path) -> None:
    """Join groups of layers of one checkpoint."""
    from lensproof.errors import LensproofError
    from lensproof.files import read_provenance
    from lensproof.lenses import tuned
    from lensproof.provenance import record

    weights = {read_provenance(group).get("weights") for group in groups}
    if len(weights) > 1:
        raise LensproofError("these groups were trained on different weights: merge groups of one checkpoint only")
    merged = tuned.combine([tuned.load(group) for group in groups])
    inputs = {f"group_{index:03d}": group for index, group in enumerate(groups)}
    tuned.save(out, merged, {**record("merge_tuned", inputs), "weights": weights.pop()})
