"""``lensproof sequences``: documents to token sequences, shared out among calibration, lens fitting and testing."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options


@click.command()
@options.checkpoint
@click.option("--corpus", type=options.FILE, required=True, help="Documents made by `lensproof corpus`.")
@click.option("--length", type=click.IntRange(8), default=128, show_default=True, help="Tokens in a sequence.")
@click.option("--split", default='{"calibration": 0.6, "lens": 0.1, "test": 0.3}', show_default=True, help="JSON.")
@click.option("--seed", type=int, default=0, show_default=True)
@options.out(".parquet")
def command(checkpoint: Path, corpus: Path, length: int, split: str, seed: int, out: Path) -> None:
    """Cut the documents of a corpus into token sequences for a checkpoint."""
    from lensproof.checkpoints.load import context_length, load_tokenizer
    from lensproof.config import checked_split
    from lensproof.corpora import needs
    from lensproof.corpora.sequences import make
    from lensproof.errors import LensproofError
    from lensproof.files import read_parquet, write_parquet
    from lensproof.provenance import record

    roles = checked_split(options.json_object("--split", split))
    longest = context_length(checkpoint)
    if longest is not None and length > longest:
        raise LensproofError(
            f"sequences of {length} tokens are asked for, {checkpoint.name} takes {longest} at most: "
            "lower sequence_length (--length)"
        )
    tokenizer = load_tokenizer(checkpoint)
    table = make(read_parquet(corpus, ("document", "part", "text")), tokenizer, length=length, split=roles, seed=seed)
    needs.check(table, out)
    inputs = {"corpus": corpus, "tokenizer": checkpoint / "tokenizer.json"}
    write_parquet(out, table, record("sequences", inputs, length=length, split=split, seed=seed))
