"""``lensproof readings``: one shard of the observations behind LexFrame's Table 1 and figure 4."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options


@click.command()
@options.checkpoint
@options.sequences
@click.option("--typical", type=options.FILE, required=True, help="Typical attention made by `lensproof calibrate`.")
@click.option("--lens", type=options.FILE, required=True, help="Jacobian lens made by `lensproof merge-jacobian`.")
@options.shard
@click.option("--orders", default="0,1,2", show_default=True, help="Orders of the frames, with commas.")
@click.option("--layers", default="all", show_default=True, help="`all`, or layers with commas.")
@options.machine
@options.out(".parquet")
def command(
    checkpoint: Path,
    sequences: Path,
    typical: Path,
    lens: Path,
    first: int,
    count: int,
    orders: str,
    layers: str,
    device: str,
    precision: str,
    threads: int | None,
    out: Path,
) -> None:
    """Read every layer of test sequences by every method and compare with the model's own output."""
    import pandas as pd

    from lensproof.checkpoints.load import load
    from lensproof.checkpoints.manifest import MANIFEST, digest
    from lensproof.corpora import needs
    from lensproof.corpora.sequences import take, tokens
    from lensproof.experiments.readings import observe
    from lensproof.files import write_parquet
    from lensproof.frames import typical as typical_attention
    from lensproof.lenses import jacobian
    from lensproof.progress import bar
    from lensproof.provenance import record

    options.use_threads(threads)
    chosen = take(needs.sequences_for(checkpoint, sequences), "test", count, first)
    decoder = load(checkpoint, device, precision)
    manifest = checkpoint / MANIFEST
    weights = digest(checkpoint)
    fixed = {
        "orders": options.numbers(orders),
        "layers": options.layers(layers, decoder.depth),
        "typical": typical_attention.load(typical, decoder, weights),
        "lens": jacobian.load(lens, decoder, weights),
    }
    tables = []
    rows = list(chosen.itertuples())
    for row, ids in zip(bar(rows, f"readings, {checkpoint.name}", unit="sequence"), tokens(chosen), strict=True):
        tables.append(observe(decoder, ids, **fixed).assign(document=row.document, sequence=row.sequence))
    table = pd.concat(tables).assign(checkpoint=checkpoint.name, precision=precision, batch_size=1)
    table = table.astype({"checkpoint": "category", "method": "category", "precision": "category"})
    inputs = {"weights": manifest, "sequences": sequences, "typical": typical, "lens": lens}
    settings = {"first": first, "count": count, "orders": orders, "layers": layers, "device": str(decoder.device)}
    write_parquet(out, table, record("readings", inputs, precision=precision, **settings))
