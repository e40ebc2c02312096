"""``lensproof read``: what every layer of a model reads at every position of a prompt."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options


@click.command()
@click.argument("prompt")
@click.option("--checkpoint", required=True, help="A name in the registry, or the folder of a checkpoint.")
@click.option(
    "--lens", "name", required=True, help="logit, jacobian, lexframe:N (N = 0, 1, 2, ...) or native (the model's own)."
)
@click.option("--layers", default="all", show_default=True, help="`all`, or layers with commas.")
@click.option("--results", type=options.FOLDER, default=Path("results"), show_default=True, help="Where artifacts are.")
@click.option("--longest", type=click.IntRange(1), default=256, show_default=True, help="Tokens of the longest prompt.")
@options.out(".pdf", ".svg", ".png", required=False, help="Draw a heatmap into this .png, .pdf or .svg instead.")
@options.machine
def command(
    prompt: str,
    checkpoint: str,
    name: str,
    layers: str,
    results: Path,
    longest: int,
    out: Path | None,
    device: str,
    precision: str,
    threads: int | None,
) -> None:
    """Show the top token of each layer's reading of PROMPT and its probability, by layer and position."""
    from lensproof.experiments.prompt import read
    from lensproof.figures.reading import draw, show

    options.use_threads(threads)
    table = read(prompt, checkpoint, name, layers, results, device, precision, longest)
    title = f"{table.attrs['checkpoint']}, {name}"
    if out is None:
        show(table, title)
    else:
        draw(table, title, out)
        click.echo(f"{out} written")
