"""``lensproof judge``: the verdict on one claim."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options
from lensproof.claims.catalogue import LEVELS, PUBLISHED


@click.command("judge")
@click.argument("claim")
@click.argument("estimates", nargs=-1, required=True, type=options.FILE)
@click.option("--level", required=True, type=click.Choice(LEVELS), help="Level of evidence of the run.")
@click.option("--tied", multiple=True, metavar="CHECKPOINT", help="A checkpoint whose embeddings are one matrix.")
@click.option("--untied", multiple=True, metavar="CHECKPOINT", help="A checkpoint whose embeddings are two matrices.")
@click.option("--published", default=PUBLISHED, type=options.FOLDER, help="Folder of the papers' values.")
@options.out
def command(
    claim: str,
    estimates: tuple[Path, ...],
    level: str,
    tied: tuple[str, ...],
    untied: tuple[str, ...],
    published: Path,
    out: Path,
) -> None:
    """Judge CLAIM on ESTIMATES (one file per checkpoint) by its rule in claims.yaml, and write a record of it."""
    from lensproof.claims.catalogue import known, load
    from lensproof.claims.entry import chain, entry
    from lensproof.claims.models import claims
    from lensproof.claims.verdicts import evidence, judge
    from lensproof.files import read_parquet, write_json
    from lensproof.provenance import record

    rule = claims(published)[known(claim, published)]
    facts = {**dict.fromkeys(tied, True), **dict.fromkeys(untied, False)}
    values = load(rule.paper, published)
    cases, links = [], {}
    for path in estimates:
        for case in evidence(read_parquet(path), values, facts):
            cases.append(case)
            links[case.checkpoint] = chain(path)
    result = judge(claim, rule, cases, level)
    for verdict in result["checkpoints"]:
        found = links[verdict["checkpoint"]]
        verdict["entry"] = entry(found)
        verdict["inputs"] = [
            {"path": link.path, "sha256": link.sha256, "command": f"snakemake --cores 2 {link.path}"}
            for link in found
            if link.depth < 2
        ]
    inputs = {path.stem: path for path in estimates}
    write_json(out, {**result, "provenance": record("judge", inputs, level=level, tied=facts)})
