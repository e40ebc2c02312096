"""``lensproof sequences``: documents to token sequences, shared out among calibration, lens fitting and testing."""

from __future__ import annotations

import json
from pathlib import Path

import click

from lensproof import options


@click.command()
@options.checkpoint
@click.option("--corpus", type=options.FILE, required=True, help="Documents made by `lensproof corpus`.")
@click.option("--length", type=click.IntRange(8), default=128, show_default=True, help="Tokens in a sequence.")
@click.option("--split", default='{"calibration": 0.6, "lens": 0.1, "test": 0.3}', show_default=True, help="JSON.")
@click.option("--seed", type=int, default=0, show_default=True)
@options.out
def command(checkpoint: Path, corpus: Path, length: int, split: str, seed: int, out: Path) -> None:
    """Cut the documents of a corpus into token sequences for a checkpoint."""
    from lensproof.checkpoints.load import load_tokenizer
    from lensproof.corpora import needs
    from lensproof.corpora.sequences import make
    from lensproof.files import read_parquet, write_parquet
    from lensproof.provenance import record

    tokenizer = load_tokenizer(checkpoint)
    table = make(read_parquet(corpus), tokenizer, length=length, split=json.loads(split), seed=seed)
    needs.check(table, out)
    inputs = {"corpus": corpus, "tokenizer": checkpoint / "tokenizer.json"}
    write_parquet(out, table, record("sequences", inputs, length=length, split=split, seed=seed))
