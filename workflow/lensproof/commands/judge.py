"""``lensproof judge``: the verdict on one claim."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lensproof import options, presets
from lensproof.claims.catalogue import PUBLISHED, RUNS
from lensproof.errors import LensproofError

if TYPE_CHECKING:
    import pandas as pd

    from lensproof.claims.entry import Link


@click.command("judge")
@click.argument("claims")
@options.files("estimates")
@click.option("--level", required=True, type=click.Choice(RUNS), help="Level of evidence of the run.")
@click.option("--planted", multiple=True, metavar="CHECKPOINT", help="A planted model, judged at the level planted.")
@click.option("--tied", multiple=True, metavar="CHECKPOINT", help="A checkpoint whose embeddings are one matrix.")
@click.option("--untied", multiple=True, metavar="CHECKPOINT", help="A checkpoint whose embeddings are two matrices.")
@click.option("--published", default=PUBLISHED, type=options.FOLDER, help="Folder of the papers' values.")
@options.out(".json", required=False, help="File to write, for one claim.")
@click.option("--into", type=options.FOLDER, help="Folder to write ID.json to, for each of one or more claims.")
def command(
    claims: str,
    estimates: tuple[Path, ...],
    level: str,
    planted: tuple[str, ...],
    tied: tuple[str, ...],
    untied: tuple[str, ...],
    published: Path,
    out: Path | None,
    into: Path | None,
) -> None:
    """Judge CLAIMS on ESTIMATES by their rules in claims.yaml, and write a record of each.

    CLAIMS is the id of one, or of several that need the same estimates, with commas. ESTIMATES are one file per
    checkpoint of the claims' own experiment, and of the others that their rules or their guards ask for (the readings
    say how good the model itself is).
    """
    import pandas as pd

    from lensproof.claims import models
    from lensproof.claims.catalogue import known, load
    from lensproof.claims.verdicts import evidence, judge
    from lensproof.files import write_sealed
    from lensproof.provenance import record
    from lensproof.statistics.estimates import read

    if (out is None) == (into is None) or (out is not None and "," in claims):
        raise LensproofError("say --out FILE for the record of one claim, or --into FOLDER for those of several")
    names = claims.split(",")
    if into is not None:
        options.spare([into / f"{name}.json" for name in names], {"estimates": estimates})
    rules = models.claims(published)
    facts = {**dict.fromkeys(tied, True), **dict.fromkeys(untied, False)}
    tables = {path: read(path) for path in estimates}
    everything = pd.concat(tables.values())
    origins = [_Origin.of(path, table) for path, table in tables.items()]
    provenance = record("judge", options.named(estimates), level=level, planted=list(planted), tied=facts)
    found = {}
    for name in (known(name, published) for name in names):
        rule = rules[name]
        cases = evidence(everything, load(rule.paper, published), facts, rule.experiment)
        result = judge(name, rule, cases, level, planted)
        for verdict in result["checkpoints"]:
            verdict |= _origin(origins, verdict["checkpoint"], rule.experiment)
        found[name] = {**result, "provenance": provenance}
    for name, result in found.items():
        write_sealed(out or into / f"{name}.json", result)


@dataclass(frozen=True)
class _Origin:
    """Where an estimates table comes from: the preset of the run that made it, and all that it rests on."""

    checkpoints: frozenset[str]
    experiments: frozenset[str]
    preset: str | None
    links: list[Link]

    @classmethod
    def of(cls, path: Path, table: pd.DataFrame) -> _Origin:
        from lensproof.claims.entry import chain
        from lensproof.files import read_provenance

        names = (frozenset(map(str, table[column])) for column in ("checkpoint", "experiment"))
        return cls(*names, read_provenance(path).get("preset"), chain(path))


def _origin(origins: list[_Origin], checkpoint: str, experiment: str) -> dict[str, Any]:
    """Preset, entry level and inputs of the verdict on a checkpoint."""
    from lensproof.claims.entry import entry, weakest

    own = [origin for origin in origins if checkpoint in origin.checkpoints]
    near = {link.path: (link, origin.preset) for origin in own for link in origin.links if link.depth < 2}
    return {
        "preset": next((origin.preset for origin in own if experiment in origin.experiments), None),
        "entry": weakest(entry(origin.links) for origin in own),
        "inputs": [
            {"path": path, "sha256": link.sha256, "command": presets.command(path, preset=preset)}
            for path, (link, preset) in near.items()
        ],
    }
