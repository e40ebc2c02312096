"""Tables: tidy rows of estimates, and Markdown and LaTeX made from them. Nothing is computed here.

A :class:`Layout` says what one table shows: lines (a method, perhaps at a layer or a setting), columns (a measure,
perhaps at a setting), one group of columns per checkpoint, a caption, and where the paper's own values stand, which
are shown below. Where lines or columns depend on the run it is :class:`Fitted`. Any other table of text is a
:class:`Grid`. A table is a module with ``tidy``, ``markdown`` and ``latex``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from lensproof.claims.published import values
from lensproof.errors import LensproofError
from lensproof.figures.captions import documents, said
from lensproof.figures.names import measure_title, method_title

COLUMNS = (
    "checkpoint", "method", "measure", "point", "lo", "hi", "n", "clusters", "layers", "level", "unit", "published",
    "setting", "layer", "over",
)  # fmt: skip
THEIRS = "The paper's own values, on its own checkpoints"
NO_WIDTH = "An interval of no width: every resample gives the same number, or one that rounds to it."
NO_INTERVAL = "A number without an interval: in some resample it has no trials."
EMPTY = "An empty cell: that is not estimated."
DIGITS = {"degrees": 1, "seconds": 1, "ratio": 1}
"""Digits after the point by unit, where they are not three (two for nats above one)."""
LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "^": r"\^{}", "~": r"\~{}",
    "[": "{[}", "]": "{]}",  # a bracket that opens a row would be read as an argument of the line break before
    "²": r"\textsuperscript{2}", "√": r"$\surd$", "κ": r"$\kappa$", "λ": r"$\lambda$", "‖": r"$\Vert$",
    "⟨": r"$\langle$", "⟩": r"$\rangle$", "±": r"$\pm$", "·": r"$\cdot$", "†": r"\dag{}", "×": r"$\times$",
    "−": r"$-$", "Δ": r"$\Delta$",
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One row of a table.

    Attributes:
        method: as estimates name it.
        title: what it is called, if not as the method.
        setting: of its estimates.
        layer: of its estimates; none: the mean over layers or whatever has no layer; ``"own"``: the last, where the
            model itself is read.
        experiment: whose estimates, if not the table's.
        key: its name in the published table, where that is not the method's or a setting or layer is named.
        paths: measure -> dotted path of a published value that stands outside of that table.
    """

    method: str
    title: str | None = None
    setting: str | None = None
    layer: int | Literal["own"] | None = None
    experiment: str | None = None
    key: str | None = None
    paths: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def stated(self) -> str | None:
        """Its name in the published table, if it is there."""
        return self.key or (self.method if self.setting is None and self.layer is None else None)

    @property
    def name(self) -> str:
        """What the first column says."""
        return self.title or method_title(self.method)


@dataclass(frozen=True)
class Column:
    """One column of each checkpoint's group.

    Attributes:
        measure: as estimates name it.
        setting: of its estimates.
        title: what it is called, if not as the measure.
        key: its name in the published table; none where a method holds one value.
        stated_digits: digits after the point of the paper's values.
    """

    measure: str
    setting: str | None = None
    title: str | None = None
    key: str | None = None
    stated_digits: int = 2

    @property
    def name(self) -> str:
        """What the head of the column says."""
        return self.title or measure_title(self.measure)


Index = dict[tuple[str, str, str | None], dict[int | None, Any]]
"""(method, measure, setting) -> layer -> row."""


@dataclass(frozen=True)
class Layout:
    """What a table shows.

    Attributes:
        name: id of the table, ``table1``.
        number: what the caption starts with, ``Table 1``.
        experiment: whose estimates.
        lines: rows in their order; those without any estimate are left out.
        columns: columns of each checkpoint's group.
        caption: text; ``{level}``, ``{layers}`` and the like stand for what the table's own rows say
            (:func:`lensproof.figures.captions.said`), ``{documents}`` for what all rows say, ``{other_layers}`` for the
            layers of another experiment's lines.
        no_width: what an interval of no width means here.
        no_interval: why a number has none.
        empty: why a cell is empty.
        published: dotted path of the published table.
    """

    name: str
    number: str
    experiment: str
    lines: Sequence[Line]
    columns: Sequence[Column]
    caption: str
    published: str | None = None
    no_width: str = NO_WIDTH
    no_interval: str = NO_INTERVAL
    empty: str = EMPTY

    def tidy(self, estimates: pd.DataFrame, published: Mapping[str, Any]) -> pd.DataFrame:
        """The table as rows (``workflow/schemas/table.schema.yaml``).

        Args:
            estimates: rows of one or more checkpoints and experiments.
            published: the paper's file; its values stand beside the paper's own checkpoints.

        Raises:
            LensproofError: the estimates hold nothing of the table.
        """
        estimates, stated, rows = of_estimates(estimates, self.experiment), self._stated(published), []
        for checkpoint, own in estimates[estimates["contrast"].isna()].groupby("checkpoint", sort=False, observed=True):
            indices = {name: _index(part) for name, part in own.groupby("experiment", sort=False, observed=True)}
            for line, column in self._cells():
                found = _find(indices.get(line.experiment or self.experiment, {}), line, column)
                if found is not None:
                    row = {name: found.get(name) for name in COLUMNS}
                    rows.append({**row, "published": stated.get((str(checkpoint), line, column))})
        if not rows:
            raise LensproofError(f"the estimates hold nothing of {self.number}: give those of {self.experiment}")
        types = {"published": "float64", "layer": "Int64", "n": "int64", "clusters": "int64", "layers": "int64"}
        return pd.DataFrame(rows, columns=list(COLUMNS)).astype(types)

    def markdown(
        self, table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None
    ) -> str:
        """The table as Markdown, the paper's own values below it.

        Args:
            table: from :meth:`tidy`.
            published: the paper's file.
            titles: checkpoint -> name to show.
        """
        titles = checkpoint_titles(published, titles)
        parts = [f"**{self.number}.** {self._caption(table, titles)}", self._ours(table, titles).markdown()]
        if theirs := self._theirs(published, titles):
            parts += [f"{THEIRS}:", theirs.markdown()]
        return "\n\n".join(parts) + "\n"

    def latex(self, table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
        """The table as LaTeX for ``booktabs``; arguments as for :meth:`markdown`."""
        titles = checkpoint_titles(published, titles)
        grids, caption = [self._ours(table, titles)], self._caption(table, titles)
        if theirs := self._theirs(published, titles):
            grids.append(theirs)
            caption += f" Below: {THEIRS[0].lower()}{THEIRS[1:]}."
        return latex_table(self.name, caption, grids)

    def _cells(self) -> Iterator[tuple[Line, Column]]:
        return ((line, column) for line in self.lines for column in self.columns)

    def _caption(self, table: pd.DataFrame, titles: Mapping[str, str]) -> str:
        others = table["method"].isin([line.method for line in self.lines if line.experiment])
        own, other = (said(rows, titles) if len(rows) else {} for rows in (table[~others], table[others]))
        known = {**other, **own, "documents": documents(table, titles), "other_layers": other.get("layers", "")}
        text = self.caption.format(**known)
        empty = any("" in line for line in self._ours(table, titles).rows)
        return text + notes(table, self.no_width, self.no_interval) + (f" {self.empty}" if empty else "")

    def _stated(self, published: Mapping[str, Any]) -> dict[tuple[str, Line, Column], float]:
        """The paper's values by checkpoint, line and column."""
        found = {}
        for line, column in self._cells():
            path = line.paths.get(column.measure)
            if path is None and self.published and line.stated:
                path = ".".join(filter(None, (self.published, line.stated, column.key)))
            for checkpoint, value in published_values(published, path).items():
                found[checkpoint, line, column] = value
        return found

    def _ours(self, table: pd.DataFrame, titles: Mapping[str, str]) -> Grid:
        cells = {}
        for checkpoint, own in table.groupby("checkpoint", sort=False):
            index = _index(own)
            for line, column in self._cells():
                if (row := _find(index, line, column)) is not None:
                    cells[str(checkpoint), line, column] = interval(row)
        return self._grid(cells, titles)

    def _theirs(self, published: Mapping[str, Any], titles: Mapping[str, str]) -> Grid | None:
        stated = self._stated(published)
        cells = {key: f"{value:.{key[2].stated_digits}f}" for key, value in stated.items()}
        names = list(published["checkpoints"])  # in the paper's order
        ordered = {key: cells[key] for key in sorted(cells, key=lambda key: names.index(key[0]))}
        return self._grid(ordered, titles) if ordered else None

    def _grid(self, cells: Mapping[tuple[str, Line, Column], str], titles: Mapping[str, str]) -> Grid:
        checkpoints = list(dict.fromkeys(checkpoint for checkpoint, _, _ in cells))
        shown = [line for line in self.lines if any(key[1] is line for key in cells)]
        rows = [
            [line.name, *(cells.get((name, line, column), "") for name in checkpoints for column in self.columns)]
            for line in shown
        ]
        groups = [(titles.get(name, name), [column.name for column in self.columns]) for name in checkpoints]
        return Grid("Method", groups, rows)


@dataclass(frozen=True)
class Fitted:
    """A table whose lines or columns depend on what was estimated.

    Attributes:
        experiment: whose estimates decide.
        layout: makes the layout from these estimates, or from the tidy table.
    """

    experiment: str
    layout: Callable[[pd.DataFrame], Layout]

    def tidy(self, estimates: pd.DataFrame, published: Mapping[str, Any]) -> pd.DataFrame:
        """As :meth:`Layout.tidy`."""
        own = of_estimates(estimates, self.experiment)
        return self.layout(own[own["experiment"] == self.experiment]).tidy(estimates, published)

    def markdown(
        self, table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None
    ) -> str:
        """As :meth:`Layout.markdown`."""
        return self.layout(table).markdown(table, published, titles)

    def latex(self, table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
        """As :meth:`Layout.latex`."""
        return self.layout(table).latex(table, published, titles)


@dataclass(frozen=True)
class Grid:
    """A table as text.

    Attributes:
        first: head of the first column.
        groups: groups of columns, each with its title (empty: none) and the heads of its columns.
        rows: cells, as many as the first column and all groups have.
        align: LaTeX's column type of all columns but the first.
        first_align: of the first.
    """

    first: str
    groups: Sequence[tuple[str, Sequence[str]]]
    rows: Sequence[Sequence[str]]
    align: str = "r"
    first_align: str = "l"

    def markdown(self) -> str:
        """As Markdown, the groups' titles in every head."""
        heads = [f"{title}: {head}" if title else head for title, group in self.groups for head in group]
        rule = ["---", *["---:" if self.align == "r" else "---"] * len(heads)]
        lines = ([self.first, *heads], rule, *self.rows)
        return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)

    def latex(self) -> str:
        """As a LaTeX ``tabular``."""
        heads = [head for _, group in self.groups for head in group]
        lines = [rf"\begin{{tabular}}{{{self.first_align}{self.align * len(heads)}}}", r"\toprule"]
        if any(title for title, _ in self.groups):
            lines += list(self._titles())
        lines += [
            _line([self.first, *heads]),
            r"\midrule",
            *map(_line, self.rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        return "\n".join(lines)

    def _titles(self) -> Iterator[str]:
        spans, start = [], 2
        for title, group in self.groups:
            if title:
                spans.append(rf"\cmidrule(lr){{{start}-{start + len(group) - 1}}}")
            start += len(group)
        heads = [rf"\multicolumn{{{len(group)}}}{{c}}{{{escape(title)}}}" for title, group in self.groups]
        yield " & ".join(["", *heads]) + r" \\"
        yield " ".join(spans)


def of_estimates(table: pd.DataFrame, experiment: str) -> pd.DataFrame:
    """The table, if it is one of estimates.

    Raises:
        LensproofError: a column is missing; the line names the experiment whose estimates are needed.
    """
    missing = [name for name in ("experiment", "contrast", *COLUMNS) if name not in table and name != "published"]
    if missing:
        raise LensproofError(f"the estimates lack {', '.join(missing)}: give those of {experiment}")
    return table


def tidied(
    rows: Iterable[Mapping[str, Any]],
    published: Mapping[str, Any],
    path: Callable[[Mapping[str, Any]], str | None],
    *more: str,
) -> pd.DataFrame:
    """Rows of estimates as a tidy table (``workflow/schemas/table.schema.yaml``), the paper's values beside them.

    Args:
        rows: of estimates.
        published: the paper's file.
        path: a row -> dotted path of the published value that it is to stand beside, if there is one.
        more: further columns to keep.
    """
    named = [{**row, "published": published_values(published, path(row)).get(str(row["checkpoint"]))} for row in rows]
    types = {"published": "float64", "layer": "Int64", "n": "int64", "clusters": "int64", "layers": "int64"}
    return pd.DataFrame(named)[[*COLUMNS, *more]].astype(types)


def checkpoint_titles(published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> dict[str, str]:
    """What checkpoints are called: the run's as it says, the paper's as the paper does."""
    of_paper = {name: about.get("title", name) for name, about in published["checkpoints"].items()}
    return of_paper | dict(titles or {})


def latex_table(name: str, caption: str, grids: Iterable[Grid], paper: str = "lexframe") -> str:
    """A LaTeX table of one grid or more, below one another; one that is too wide is made to fit."""
    bodies = [grid.latex() for grid in grids]
    bodies = [
        rf"\begin{{adjustbox}}{{max width=\textwidth}}{chr(10)}{body}{chr(10)}\end{{adjustbox}}" for body in bodies
    ]
    lines = [
        r"% needs \usepackage{booktabs,adjustbox}",
        r"\begin{table*}",
        r"\centering\small",
        rf"\caption{{{escape(caption)}}}",
        rf"\label{{tab:{paper}-{name}}}",
        "\n\n\\medskip\n".join(bodies),
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def interval(row: Mapping[str, Any]) -> str:
    """``0.160 [0.151, 0.171]``, also where the interval has no width; the number alone where there is none."""
    point, *ends = _rounded(row)
    return f"{point} [{', '.join(ends)}]" if ends else point


def notes(rows: pd.DataFrame, no_width: str = NO_WIDTH, no_interval: str = NO_INTERVAL) -> str:
    """Sentences on intervals that are there but have no width, or are not there; none where all are as usual."""
    shown = [_rounded(row) for row in rows[rows["point"].notna()].to_dict("records")]
    parts = [no_width] * any(len(set(cell)) == 1 < len(cell) for cell in shown)
    parts += [no_interval] * any(len(cell) == 1 for cell in shown)
    return "".join(f" {part}" for part in parts if part)


def _rounded(row: Mapping[str, Any]) -> list[str]:
    """Point and, where there is an interval, its ends, as printed."""
    point, lo, hi = (row[name] for name in ("point", "lo", "hi"))
    if pd.isna(point):
        return ["not defined"]
    digits = DIGITS.get(row["unit"], 2 if row["unit"] == "nats" and abs(point) >= 1 else 3)
    values = [point] if pd.isna(lo) or pd.isna(hi) else [point, lo, hi]
    return [f"{round(value, digits) + 0.0:.{digits}f}" for value in values]  # no minus before nothing


def escape(text: str) -> str:
    """Text as LaTeX shows it."""
    return "".join(LATEX.get(character, character) for character in text)


def _line(cells: Sequence[str]) -> str:
    return " & ".join(map(escape, cells)) + r" \\"


def _index(rows: pd.DataFrame) -> Index:
    """Rows by what names them, nulls as None."""
    found: Index = {}
    for row in rows.to_dict("records"):
        plain = {name: None if pd.isna(value) else value for name, value in row.items()}
        key = (str(row["method"]), str(row["measure"]), plain.get("setting"))
        found.setdefault(key, {}).setdefault(plain["layer"], row)
    return found


def _find(index: Index, line: Line, column: Column) -> Mapping[str, Any] | None:
    rows = index.get((line.method, column.measure, line.setting or column.setting), {})
    if line.layer == "own":
        last = max((layer for layer in rows if layer is not None), default=None)
        return rows.get(last)
    return rows.get(line.layer)


def published_values(published: Mapping[str, Any], path: str | None) -> dict[str, float]:
    """The paper's values at a path, none where it states none."""
    if path is None:
        return {}
    try:
        return values(published, path)
    except LensproofError:
        return {}
