"""``lensproof checkpoint``: a local checkpoint in safetensors from a source in the registry."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from lensproof import options


@click.command()
@click.argument("name")
@options.registry
@click.option("--file", type=options.FILE, help="What `lensproof fetch` left, for a wheel source.")
@click.option("--base", type=options.FOLDER, help="The checkpoint that this one is made from, untrained or adapted.")
@options.folder_out
def command(
    name: str, spec: str | None, configfile: tuple[Path, ...], file: Path | None, base: Path | None, out: Path
) -> None:
    """Make a local checkpoint of NAME, which is in the registry; dequantise it if its source is quantised."""
    from lensproof.checkpoints import registry
    from lensproof.checkpoints.build import build

    entry = registry.checkpoint(name, spec, configfile)
    options.spare_source(out, entry.source)
    manifest = build(name, entry, out, file, base)
    logging.getLogger("lensproof").info(
        "%s: %s, %s layers, weights and tokenizer in %s", name, manifest["architecture"], manifest["layers"], out
    )
