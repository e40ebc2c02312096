"""LexFrame's Table 1: KL, Top-1 and calibration error of each reading as layer means, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from lensproof.errors import LensproofError
from lensproof.figures.names import MEASURES, method_title
from lensproof.statistics.methods import MODEL, in_order

COLUMNS = (
    "checkpoint", "method", "measure", "point", "lo", "hi", "n", "clusters", "layers", "level", "unit", "published",
)  # fmt: skip
THEIRS = "The paper's own values, on its own checkpoints"


def tidy(estimates: pd.DataFrame, published: Mapping[str, Any]) -> pd.DataFrame:
    """The table as rows (``workflow/schemas/table.schema.yaml``); ``published`` where the paper has this checkpoint.

    Raises:
        LensproofError: there are no layer means in the estimates.
    """
    own = (estimates["method"] == MODEL) & (estimates["measure"] == "ece")
    means = (estimates["summary"] == "layer_mean") & estimates["measure"].isin(MEASURES)
    rows = estimates[estimates["contrast"].isna() & (means | own)].copy()
    if rows.empty:
        raise LensproofError("the estimates hold no layer means: give those of the readings experiment")
    stated = _published(published)
    keys = zip(rows["checkpoint"], rows["method"], rows["measure"], strict=True)
    rows["published"] = pd.Series([stated.get(key) for key in keys], index=rows.index, dtype="float64")
    rank = {"checkpoint": list(dict.fromkeys(rows["checkpoint"])), "method": in_order(rows["method"])}
    rank["measure"] = list(MEASURES)
    return rows.sort_values(list(rank), key=lambda column: column.map(rank[column.name].index))[list(COLUMNS)]


def _published(published: Mapping[str, Any]) -> dict[tuple[str, str, str], float]:
    """(checkpoint, method, measure) -> the paper's value."""
    checkpoints = list(published["checkpoints"])
    values = {}
    for method, measures in {**published["table1"], MODEL: {"ece": published["text"]["model_ece"]}}.items():
        for measure, pair in measures.items() if method != "columns" else ():
            values |= {(name, method, measure): value for name, value in zip(checkpoints, pair, strict=True)}
    return values


@dataclass(frozen=True)
class Block:
    """A table as text: one group of columns (KL, Top-1, ECE) per checkpoint, one row per method."""

    checkpoints: list[str]
    rows: list[list[str]]  # title of the method, then the cells


def markdown(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as Markdown, the paper's own values below it.

    Args:
        table: from :func:`tidy`.
        published: the paper's file.
        titles: checkpoint -> name to show.
    """
    ours, theirs = _blocks(table, published, titles or {})
    return f"**Table 1.** {_caption(table)}\n\n{_markdown(ours)}\n\n{THEIRS}:\n\n{_markdown(theirs)}\n"


def latex(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as LaTeX for ``booktabs``; arguments as for :func:`markdown`."""
    ours, theirs = _blocks(table, published, titles or {})
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table*}",
        r"\centering\small",
        rf"\caption{{{_escape(_caption(table))} Below: {THEIRS[0].lower()}{THEIRS[1:]}.}}",
        r"\label{tab:lexframe-table1}",
        _latex(ours),
        "",
        r"\medskip",
        _latex(theirs),
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def _caption(table: pd.DataFrame) -> str:
    sample = table.drop_duplicates("checkpoint")
    clusters = " and ".join(map(str, dict.fromkeys(sample["clusters"])))
    return (
        "Readings against the model's own output: mean over layers 1 to L-1, each layer weighing the same, with "
        f"{sample['level'].iloc[0]:.0%} bootstrap intervals over {clusters} documents. KL from the model to the "
        "reading, lower is better; Top-1 is agreement with the model's top token; ECE is against the true next token. "
        "Resampling can only add to a sum of absolute values such as ECE: its intervals lean upwards, the model's own "
        "alike, and can begin above the estimate."
    )


def _blocks(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str]) -> tuple[Block, Block]:
    ours = {(row.checkpoint, row.method, row.measure): _interval(row) for row in table.itertuples()}
    theirs = {key: f"{value:.{3 if key[2] == 'ece' else 2}f}" for key, value in _published(published).items()}
    return _block(ours, titles), _block(theirs, titles)


def _block(cells: Mapping[tuple[str, str, str], str], titles: Mapping[str, str]) -> Block:
    checkpoints = list(dict.fromkeys(checkpoint for checkpoint, _, _ in cells))
    columns = [(checkpoint, measure) for checkpoint in checkpoints for measure in MEASURES]
    rows = [
        [method_title(method), *(cells.get((checkpoint, method, measure), "") for checkpoint, measure in columns)]
        for method in in_order(method for _, method, _ in cells)
    ]
    return Block([titles.get(name, name) for name in checkpoints], rows)


def _interval(row: Any) -> str:
    digits = 2 if row.measure == "kl" and abs(row.point) >= 1 else 3
    return f"{row.point:.{digits}f} [{row.lo:.{digits}f}, {row.hi:.{digits}f}]"


def _markdown(block: Block) -> str:
    header = ["Method", *(f"{name}: {title}" for name in block.checkpoints for title in MEASURES.values())]
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *block.rows))


def _latex(block: Block) -> str:
    width = len(MEASURES)
    groups = [rf"\multicolumn{{{width}}}{{c}}{{{_escape(name)}}}" for name in block.checkpoints]
    starts = [2 + width * index for index in range(len(groups))]
    lines = [
        rf"\begin{{tabular}}{{l{'r' * width * len(groups)}}}",
        r"\toprule",
        " & ".join(["", *groups]) + r" \\",
        " ".join(rf"\cmidrule(lr){{{start}-{start + width - 1}}}" for start in starts),
        " & ".join(["Method", *[*MEASURES.values()] * len(groups)]) + r" \\",
        r"\midrule",
        *(" & ".join(map(_escape, row)) + r" \\" for row in block.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines)


def _escape(text: str) -> str:
    """Text as LaTeX shows it; a bracket that opens a row would be read as an argument of the line break before."""
    for character in "&%$#_":
        text = text.replace(character, rf"\{character}")
    return text.replace("[", "{[}").replace("]", "{]}")
