"""What captions of figures and tables say of their estimates: documents, layers, intervals. Read from the estimates."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from lensproof.figures.catalogue import title

OTHERWISE = "Layers and states are not those of Table 1, and so the numbers are others."


def said(rows: pd.DataFrame, titles: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a caption may name of the sample behind ``rows``.

    Args:
        rows: estimates, or a tidy table of them.
        titles: checkpoint -> name to show.

    Returns:
        ``documents``: ``16 documents``; ``layers``: ``layers 3, 6, ..., 27``; both with the checkpoint behind them
        where it matters. ``level``: ``95%``. ``checkpoints``: their names. ``resamples``: where the rows hold them.
    """
    titles, groups = titles or {}, dict(list(rows.groupby("checkpoint", sort=False, observed=True)))
    documents = {name: f"{own['clusters'].max()} documents" for name, own in groups.items()}
    layers = {name: " or ".join(dict.fromkeys(own["over"].dropna())) for name, own in groups.items()}
    found = {
        "documents": _told(documents, titles),
        "layers": f"layers {_told(layers, titles)}",
        "checkpoints": ", ".join(titles.get(str(name), str(name)) for name in groups),
        "level": f"{rows['level'].iloc[0]:.0%}",
    }
    return found | ({"resamples": f"{rows['resamples'].iloc[0]:,}"} if "resamples" in rows else {})


def of_figure(name: str, text: str, rows: pd.DataFrame, titles: Mapping[str, str] | None = None) -> str:
    """A figure's caption as Markdown.

    Args:
        name: of the figure, ``fig4``.
        text: its caption, with what :func:`said` knows in braces.
        rows: the estimates that it shows, none for a drawing.
        titles: checkpoint -> name to show.
    """
    return f"**{title(name)}.** {text.format(**said(rows, titles)) if len(rows) else text}\n"


def _told(values: Mapping[str, str], titles: Mapping[str, str]) -> str:
    """One text where it is the same for all checkpoints, else each with its checkpoint."""
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return " and ".join(f"{value} ({titles.get(str(name), str(name))})" for name, value in values.items() if value)
