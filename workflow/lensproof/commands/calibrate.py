"""``lensproof calibrate``: typical attention of every block, from one pass over calibration text."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options


@click.command()
@options.checkpoint
@options.sequences
@click.option("--count", type=click.IntRange(2), required=True, help="Calibration sequences to use.")
@options.machine
@options.out
def command(
    checkpoint: Path, sequences: Path, count: int, device: str, precision: str, threads: int | None, out: Path
) -> None:
    """Calibrate typical attention on the first sequences of the calibration role."""
    from lensproof.checkpoints.load import load
    from lensproof.corpora import needs
    from lensproof.corpora.sequences import take, tokens
    from lensproof.files import read_json, read_parquet
    from lensproof.frames import typical
    from lensproof.provenance import record

    options.use_threads(threads)
    text = tokens(take(needs.check(read_parquet(sequences), sequences), "calibration", count))
    decoder = load(checkpoint, device, precision)
    fitted = typical.calibrate(decoder, text, progress=f"typical attention, {checkpoint.name}")
    manifest = checkpoint / "checkpoint.json"
    inputs = {"weights": manifest, "sequences": sequences}
    settings = {"count": count, "device": str(decoder.device), "precision": precision}
    typical.save(out, fitted, {**record("calibrate", inputs, **settings), "weights": read_json(manifest)["sha256"]})
