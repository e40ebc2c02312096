"""``lensproof enough``: whether a corpus has the sequences that a configuration asks for."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options

ROLES = {"calibration.sequences": "calibration", "jacobian_lens.prompts": "lens", "readings.sequences": "test"}


@click.command()
@options.sequences
@click.option("--need", "needs", multiple=True, required=True, help="KEY=COUNT, KEY a key of the configuration.")
@options.out
def command(sequences: Path, needs: tuple[str, ...], out: Path) -> None:
    """Fail, naming the key, where the configuration asks for more sequences than the corpus has."""
    from lensproof.errors import LensproofError
    from lensproof.files import read_parquet, write_json

    roles = read_parquet(sequences, columns=["role"])["role"].value_counts()
    counts = {}
    for need in needs:
        key, _, asked = need.partition("=")
        available = int(roles.get(ROLES[key], 0))
        if int(asked) > available:
            raise LensproofError(
                f"config: {key} asks for {asked} sequences, {sequences} has {available} for {ROLES[key]}: "
                f"lower {key} or choose a longer corpus"
            )
        counts[key] = {"asked": int(asked), "available": available}
    write_json(out, counts)
