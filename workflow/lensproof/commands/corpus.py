"""``lensproof corpus``: the documents of a corpus in the registry."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from lensproof import options


@click.command()
@click.argument("name")
@options.registry
@click.option("--file", type=click.Path(path_type=Path), help="What `lensproof fetch` left, for a wheel source.")
@options.out(".parquet")
def command(name: str, spec: str | None, configfile: tuple[Path, ...], file: Path | None, out: Path) -> None:
    """Write the documents of NAME, a corpus in the registry, as one table."""
    from lensproof.checkpoints import registry
    from lensproof.checkpoints.scratch import scratch
    from lensproof.corpora.collect import collect
    from lensproof.files import write_parquet

    entry = registry.corpus(name, spec, configfile)
    options.spare_source(out, entry.source)
    with scratch(out) as folder:
        table, provenance = collect(name, entry, folder, file)
    write_parquet(out, table, provenance)
    logging.getLogger("lensproof").info("%s: %d documents in %s", name, len(table), out)
