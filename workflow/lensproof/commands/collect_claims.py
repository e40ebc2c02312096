"""``lensproof collect-claims``: every claim and its verdict as one table."""

from __future__ import annotations

import os
from pathlib import Path

import click

from lensproof import options, presets
from lensproof.claims.catalogue import PUBLISHED, RUNS


@click.command("collect-claims")
@options.files("records", required=False)
@click.option("--level", required=True, type=click.Choice(RUNS), help="Level of evidence of the run.")
@click.option("--published", default=PUBLISHED, type=options.FOLDER, help="Folder of the papers' values.")
@options.out(".csv")
def command(records: tuple[Path, ...], level: str, published: Path, out: Path) -> None:
    """Write RECORDS (JSON files of `lensproof judge`) as rows; a claim without a record is a row that says not run."""
    import pandas as pd

    from lensproof.claims.catalogue import load
    from lensproof.claims.models import claims
    from lensproof.claims.records import reader
    from lensproof.claims.verdicts import COLUMNS, csv_rows, not_run
    from lensproof.errors import LensproofError
    from lensproof.files import DIGEST_KEY, atomic, provenance_path, write_json
    from lensproof.provenance import record, sha256

    read, judged, files = reader(published), {}, {}
    for path in records:
        item = read(path)
        if item["level"] != level:
            raise LensproofError(f"{path} was judged at the level {item['level']}, not {level}: judge it again")
        if (other := files.setdefault(item["claim"], path)) != path:
            raise LensproofError(f"{other} and {path} are records of one claim: give one")
        judged[item["claim"]] = item
    preset = os.environ.get(presets.VARIABLE)
    rows = []
    for name, claim in claims(published).items():
        item = judged.get(name)
        rows += csv_rows(item) if item else [not_run(name, claim, load(claim.paper, published), level, preset)]
    with atomic(out) as temporary:
        pd.DataFrame(rows, columns=list(COLUMNS)).astype({"n": "Int64"}).to_csv(temporary, index=False)
    made = record("collect_claims", {path.stem: path for path in records})
    write_json(provenance_path(out), {**made, DIGEST_KEY: sha256(out)})
