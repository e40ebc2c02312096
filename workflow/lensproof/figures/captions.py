"""What captions of figures and tables say of their estimates: documents, layers, intervals. Read from the estimates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import pandas as pd

from lensproof.figures.catalogue import title
from lensproof.figures.names import measure_title, method_title, setting_title
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
        ``documents``: as :func:`documents`; ``instances``: ``200 instances of 32 passages``; ``layers``: ``layers 3, 6,
        ..., 27``, those of means, with the checkpoint behind them where it matters; ``mean`` and ``Mean``: ``mean
        over`` these, or ``at`` the only one, and ``equally``, how layers weigh in a mean. ``level``: ``95%``.
        ``checkpoints``: their names. ``resamples``: where the rows hold them.
    """
    titles, groups = titles or {}, dict(list(rows.groupby("checkpoint", sort=False, observed=True)))
    sets = {name: instances(own) for name, own in groups.items()}
    layers = {name: " or ".join(dict.fromkeys(own["over"].dropna())) for name, own in groups.items()}
    over, several = of_layers(layers.values(), told(layers, titles)), not alone(layers.values())
    found = {
        "documents": documents(rows, titles),
        "instances": told(sets, titles),
        "layers": over,
        "mean": mean_over(over, several),
        "Mean": mean_over(over, several, capital=True),
        "equally": ", each layer weighing the same" if several else "",
        "checkpoints": ", ".join(titles.get(str(name), str(name)) for name in groups),
        "level": f"{rows['level'].iloc[0]:.0%}",
    }
    return found | ({"resamples": f"{rows['resamples'].iloc[0]:,}"} if "resamples" in rows else {})


def instances(rows: pd.DataFrame) -> str:
    """``200 instances of 32 passages``, as the rows of a checkpoint say."""
    n, clusters = int(rows["n"].max()), int(rows["clusters"].max())
    return f"{n} instances" + (f" of {clusters} passages" if clusters < n else "")


def documents(rows: pd.DataFrame, titles: Mapping[str, str] | None = None) -> str:
    """How many documents stand behind ``rows``, and whose are others.

    Args:
        rows: of one or more checkpoints, those that are shown and no others.
        titles: checkpoint -> name to show.

    Returns:
        ``16 documents``, or ``5 documents; Tuned lens: 4 (Toy) and 2 (Other)``.
    """
    titles, most, others = titles or {}, {}, {}
    for name, own in rows.groupby("checkpoint", sort=False, observed=True):
        most[str(name)], fewer = _kinds(own, "clusters")
        for count, labels in fewer.items():
            others.setdefault(", ".join(labels), {})[str(name)] = str(count)
    parts = [told({name: f"{count} documents" for name, count in most.items()}, titles)]
    parts += [f"{labels}: {told(counts, titles, whole=len(counts) == len(most))}" for labels, counts in others.items()]
    return "; ".join(parts)


def sample(rows: pd.DataFrame) -> str:
    """How many documents and trials stand behind each point of one checkpoint's curves, and whose are others:
    ``5 documents, 640 trials per point (Tuned lens: 4, 512)``."""
    methods = rows.groupby("method", sort=False, observed=True)
    behind = {name: (f"{own['clusters'].max()}", spread(own["n"])) for name, own in methods}
    usual = Counter(behind.values()).most_common(1)[0][0]
    others: dict[tuple[str, str], list[str]] = {}
    for name, own in behind.items():
        others.setdefault(own, []).append(method_title(str(name)))
    del others[usual]
    parts = [f"{', '.join(names)}: {_other(own, usual)}" for own, names in others.items()]
    return f"{usual[0]} documents, {usual[1]} trials per point" + (f" ({'; '.join(parts)})" if parts else "")


def spread(values: pd.Series) -> str:
    """``1,024``, or ``12 to 16``."""
    return " to ".join(f"{value:,}" for value in sorted({int(values.min()), int(values.max())}))


def _other(own: tuple[str, str], usual: tuple[str, str]) -> str:
    """Documents where they differ, and trials."""
    return own[1] if own[0] == usual[0] else ", ".join(own)


def _kinds(rows: pd.DataFrame, count: str) -> tuple[int, dict[int, list[str]]]:
    """The largest count, and what has fewer: methods if that tells them apart, else measures, else settings."""
    most, named = int(rows[count].max()), {"method": method_title, "measure": measure_title, "setting": setting_title}
    if (rows[count] == most).all():
        return most, {}
    parts = next((by for by in named if rows.groupby(by, dropna=False)[count].nunique().max() == 1), None)
    fewer: dict[int, list[str]] = {}
    for row in rows[rows[count] < most].to_dict("records"):
        names = [named[by](str(row[by])) for by in ([parts] if parts else named) if pd.notna(row[by])]
        if (label := " ".join(names)) not in (own := fewer.setdefault(int(row[count]), [])):
            own.append(label)
    return most, fewer


def alone(lists: Iterable[str]) -> bool:
    """Whether all lists of layers together name one layer only."""
    found = set(filter(None, lists))
    return len(found) == 1 and found.pop().isdecimal()


def mean_over(layers: str, several: bool, *, capital: bool = False) -> str:
    """``mean over layers 3, 6``, or ``at layer 12``, of which there is no mean over layers."""
    words = f"mean over {layers}" if several else f"at {layers}"
    return words[0].upper() + words[1:] if capital else words


def of_layers(lists: Iterable[str], text: str | None = None) -> str:
    """``layers 3, 6``, or ``layer 12`` where all lists of layers together name that one only.

    Args:
        lists: of layers, as :func:`lensproof.statistics.table.span` gives them.
        text: what to say of them; none: the lists themselves.
    """
    found = list(dict.fromkeys(filter(None, lists)))
    return f"layer{'' if alone(found) else 's'} {' or '.join(found) if text is None else text}"


def drawn(rows: pd.DataFrame, titles: Mapping[str, str] | None = None) -> str:
    """Which layers a figure shows: ``0, 6, ..., 30``, with ``of 0 to 30`` where the last of the model is not there."""
    found = {}
    for name, own in rows.dropna(subset="layer").groupby("checkpoint", sort=False, observed=True):
        layers, depth = sorted({int(layer) for layer in own["layer"]}), depth_of(own)
        whole = depth is None or layers[-1] == depth
        found[name] = span(layers) + ("" if whole else f" of 0 to {depth}")
    return told(found, titles or {})


def listed(rows: pd.DataFrame, titles: Mapping[str, str] | None = None, *, whole: bool = True) -> str:
    """Which layers ``rows`` are of: ``layers 9, 12``, with the checkpoint behind them where it matters, as it does
    where they are not of all checkpoints that are shown (``whole``)."""
    groups = rows.groupby("checkpoint", sort=False, observed=True)["layer"]
    found = {str(name): span(sorted({int(layer) for layer in own})) for name, own in groups}
    return of_layers(found.values(), told(found, titles or {}, whole=whole))


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


def told(values: Mapping[str, str], titles: Mapping[str, str], *, whole: bool = True) -> str:
    """One text where it is the same for all checkpoints, which ``values`` are if ``whole``; else each with its own."""
    if whole and len(set(values.values())) == 1:
        return next(iter(values.values()))
    return " and ".join(f"{value} ({titles.get(str(name), str(name))})" for name, value in values.items() if value)
