"""``lensproof judge``: the verdict on one claim."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options
from lensproof.claims.catalogue import LEVELS, PUBLISHED


@click.command("judge")
@click.argument("claim")
@options.files("estimates")
@click.option("--level", required=True, type=click.Choice(LEVELS), help="Level of evidence of the run.")
@click.option("--tied", multiple=True, metavar="CHECKPOINT", help="A checkpoint whose embeddings are one matrix.")
@click.option("--untied", multiple=True, metavar="CHECKPOINT", help="A checkpoint whose embeddings are two matrices.")
@click.option("--published", default=PUBLISHED, type=options.FOLDER, help="Folder of the papers' values.")
@options.out(".json")
def command(
    claim: str,
    estimates: tuple[Path, ...],
    level: str,
    tied: tuple[str, ...],
    untied: tuple[str, ...],
    published: Path,
    out: Path,
) -> None:
    """Judge CLAIM on ESTIMATES by its rule in claims.yaml, and write a record of it.

    ESTIMATES are one file per checkpoint of the claim's own experiment, and of the others that its rule or its
    guards ask for (the readings say how good the model itself is).
    """
    import pandas as pd

    from lensproof.claims.catalogue import known, load
    from lensproof.claims.entry import Link, chain, entry, weakest
    from lensproof.claims.models import claims
    from lensproof.claims.verdicts import checked, evidence, judge
    from lensproof.files import read_parquet, write_json
    from lensproof.provenance import record

    rule = claims(published)[known(claim, published)]
    facts = {**dict.fromkeys(tied, True), **dict.fromkeys(untied, False)}
    values = load(rule.paper, published)
    tables = {path: checked(read_parquet(path)) for path in estimates}
    result = judge(claim, rule, evidence(pd.concat(tables.values()), values, facts, rule.experiment), level)
    chains: dict[str, list[list[Link]]] = {}
    for path, table in tables.items():
        for checkpoint in table["checkpoint"].unique():
            chains.setdefault(str(checkpoint), []).append(chain(path))
    for verdict in result["checkpoints"]:
        found = chains[verdict["checkpoint"]]
        verdict["entry"] = weakest(map(entry, found))
        near = {link.path: link for links in found for link in links if link.depth < 2}
        verdict["inputs"] = [
            {"path": path, "sha256": link.sha256, "command": f"snakemake --cores 2 {path}"}
            for path, link in near.items()
        ]
    provenance = record("judge", options.named(estimates), level=level, tied=facts)
    write_json(out, {**result, "provenance": provenance})
