"""What captions of figures and tables say of their estimates: documents, layers, intervals. Read from the estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pandas as pd

from lensproof.figures.catalogue import title
from lensproof.statistics.table import span

OTHERWISE = "Layers and states are not those of Table 1, and so the numbers are others."
Words = Callable[[pd.DataFrame, Mapping[str, str] | None], Mapping[str, str]]
"""Of a figure's estimates and the names of checkpoints: what its caption has in braces besides what :func:`said` knows.
"""


def said(rows: pd.DataFrame, titles: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a caption may name of the sample behind ``rows``.

    Args:
        rows: estimates, or a tidy table of them.
        titles: checkpoint -> name to show.

    Returns:
        ``documents``: ``16 documents``; ``instances``: ``200 instances of 32 passages``; ``layers``: ``layers 3, 6,
        ..., 27``, those of means; all with the checkpoint behind them where it matters. ``level``: ``95%``.
        ``checkpoints``: their names. ``resamples``: where the rows hold them.
    """
    titles, groups = titles or {}, dict(list(rows.groupby("checkpoint", sort=False, observed=True)))
    documents = {name: f"{own['clusters'].max()} documents" for name, own in groups.items()}
    sets = {name: instances(own) for name, own in groups.items()}
    layers = {name: " or ".join(dict.fromkeys(own["over"].dropna())) for name, own in groups.items()}
    found = {
        "documents": told(documents, titles),
        "instances": told(sets, titles),
        "layers": of_layers(layers.values(), told(layers, titles)),
        "checkpoints": ", ".join(titles.get(str(name), str(name)) for name in groups),
        "level": f"{rows['level'].iloc[0]:.0%}",
    }
    return found | ({"resamples": f"{rows['resamples'].iloc[0]:,}"} if "resamples" in rows else {})


def instances(rows: pd.DataFrame) -> str:
    """``200 instances of 32 passages``, as the rows of a checkpoint say."""
    n, clusters = int(rows["n"].max()), int(rows["clusters"].max())
    return f"{n} instances" + (f" of {clusters} passages" if clusters < n else "")


def of_layers(lists: Iterable[str], text: str | None = None) -> str:
    """``layers 3, 6``, or ``layer 12`` where all lists of layers together name that one only.

    Args:
        lists: of layers, as :func:`lensproof.statistics.table.span` gives them.
        text: what to say of them; none: the lists themselves.
    """
    found = list(dict.fromkeys(filter(None, lists)))
    alone = len(found) == 1 and found[0].isdecimal()
    return f"layer{'' if alone else 's'} {' or '.join(found) if text is None else text}"


def drawn(rows: pd.DataFrame, titles: Mapping[str, str] | None = None) -> str:
    """Which layers a figure shows: ``0, 6, ..., 30``, with ``of 0 to 30`` where the last of the model is not there."""
    found = {}
    for name, own in rows.dropna(subset="layer").groupby("checkpoint", sort=False, observed=True):
        layers, depth = sorted({int(layer) for layer in own["layer"]}), depth_of(own)
        whole = depth is None or layers[-1] == depth
        found[name] = span(layers) + ("" if whole else f" of 0 to {depth}")
    return told(found, titles or {})


def depth_of(rows: pd.DataFrame) -> int | None:
    """L of a checkpoint's estimates, where they tell it."""
    depth = rows["depth"].max()
    return None if pd.isna(depth) else int(depth)


def shows_last(rows: pd.DataFrame) -> bool:
    """Whether the last layer of every checkpoint is known to be among the layers of ``rows``."""
    groups = rows.dropna(subset="layer").groupby("checkpoint", observed=True)
    return all(own["layer"].max() == depth_of(own) for _, own in groups)


def of_figure(
    name: str, text: str, rows: pd.DataFrame, titles: Mapping[str, str] | None = None, words: Words | None = None
) -> str:
    """A figure's caption as Markdown.

    Args:
        name: of the figure, ``fig4``.
        text: its caption, with what :func:`said` knows in braces.
        rows: the estimates that it shows, none for a drawing.
        titles: checkpoint -> name to show.
        words: what else it has in braces.
    """
    known = said(rows, titles) | dict(words(rows, titles) if words else {}) if len(rows) else {}
    return f"**{title(name)}.** {text.format(**known)}\n"


def told(values: Mapping[str, str], titles: Mapping[str, str]) -> str:
    """One text where it is the same for all checkpoints, else each with its checkpoint."""
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return " and ".join(f"{value} ({titles.get(str(name), str(name))})" for name, value in values.items() if value)
