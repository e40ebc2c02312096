"""LexFrame's Table 9: what each reading says of a few prefixes, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from lensproof.errors import LensproofError
from lensproof.figures.names import method_title
from lensproof.figures.tables import Grid, latex_table
from lensproof.figures.tokens import SPACE, visible
from lensproof.statistics.methods import MODEL, in_order

NAME, TITLE = "table9", "Table 9"
COLUMNS = ("checkpoint", "prefix", "layer", "method", "rank", "token", "probability")
CAPTION = (
    "The top token of each reading, and its probability, of what follows a prefix; what the model itself says above. "
    f"{SPACE} stands for a space at either end of a token. Single prefixes: an illustration without intervals."
)


def tidy(estimates: pd.DataFrame, published: Mapping[str, Any]) -> pd.DataFrame:
    """One row per checkpoint, prefix, layer, method and rank of the token (:data:`COLUMNS`; 0 is the top).

    Args:
        estimates: of the experiment ``examples``, which hold the tokens.
        published: the paper's file.

    Raises:
        LensproofError: the estimates given are not these.
    """
    missing = [name for name in COLUMNS if name not in estimates]
    if missing:
        raise LensproofError(f"the estimates lack {', '.join(missing)}: give those of examples")
    said = estimates[estimates["token"].notna()]
    return said[list(COLUMNS)].astype({"layer": "int64", "rank": "int64"}).reset_index(drop=True)


def markdown(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as Markdown, what the paper says of its example below it."""
    parts = [f"**{TITLE}.** {CAPTION}"]
    for head, grid in _examples(table, titles or {}):
        parts += [f"{head}:", grid.markdown()]
    return "\n\n".join([*parts, _theirs(published)]) + "\n"


def latex(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as LaTeX for ``booktabs``."""
    found = list(_examples(table, titles or {}))
    heads = " ".join(f"({number}) {head}." for number, (head, _) in enumerate(found, start=1))
    return latex_table(NAME, f"{CAPTION} From the top: {heads} {_theirs(published)}", [grid for _, grid in found])


def _examples(table: pd.DataFrame, titles: Mapping[str, str]) -> Iterator[tuple[str, Grid]]:
    """Each checkpoint's prefixes: what the model says, and the readings by layer."""
    for (checkpoint, prefix), rows in table.groupby(["checkpoint", "prefix"], sort=False, observed=True):
        own = rows[rows["method"] == MODEL].sort_values("rank")
        says = ", ".join(_cell(row) for row in own.to_dict("records"))
        yield f"{titles.get(checkpoint, checkpoint)}, “{prefix}”, the model: {says}", _grid(rows)


def _grid(rows: pd.DataFrame) -> Grid:
    top = rows[(rows["rank"] == 0) & (rows["method"] != MODEL)]
    cells = {(row["layer"], row["method"]): _cell(row) for row in top.to_dict("records")}
    methods = in_order(top["method"])
    lines = [[str(layer), *(cells.get((layer, name), "") for name in methods)] for layer in sorted(set(top["layer"]))]
    return Grid("Layer", [("", [method_title(name) for name in methods])], lines, align="l")


def _cell(row: Mapping[str, Any]) -> str:
    return f"{visible(str(row['token']))} {row['probability']:.2f}"


def _theirs(published: Mapping[str, Any]) -> str:
    stated = published["table9"]
    says = ", ".join(f"{token} {value:.2f}" for token, value in stated["model_top"].items())
    first = ", ".join(f"{method_title(name)} at {layer}" for name, layer in stated["first_read_guardian"].items())
    return (
        f"The paper, with Olmo 3 7B, on “{stated['prefix']}”: the model says {says}; of the layers 4, 8, ..., 28 the "
        f"first to read {next(iter(stated['model_top']))} are {first}; LexFrame[1] reads "
        f"{stated['lexframe_1_layer12']} at 12."
    )
