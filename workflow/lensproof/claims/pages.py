"""A claim, or all of them, in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lensproof.claims.evidence import number
from lensproof.claims.records import levels, preset_of, presets
from lensproof.claims.verdicts import over, published_words

STYLES = {
    "reproduced": "bold green",
    "contradicted": "bold red",
    "inconclusive": "yellow",
    "not testable": "dim",
    "not run": "dim",
}
LEVELS = {
    "planted": "planted: models whose answer is known, because their weights were written by hand",
    "smoke": "smoke: tiny random models; shows that the pipeline runs, and says nothing of language models",
    "desk": "desk: small real models; the qualitative claim is tested, not the paper's number",
    "paper": "paper: the paper's own checkpoints",
}


def interval(estimate: dict[str, Any] | None) -> str:
    """``0.16 [0.15, 0.17]`` for an estimate of a record."""
    if estimate is None:
        return "none"
    if estimate["point"] is None:
        return f"not defined (numerator {number(estimate['numerator'])})"
    if estimate["lo"] is None:
        return f"{number(estimate['point'])} [not defined]"
    return f"{number(estimate['point'])} [{number(estimate['lo'])}, {number(estimate['hi'])}]"


DETAILS = ("layers", "interval", "point", "verdict")
"""What a verdict in the overview may stand with: the estimate that it hangs on with interval and layers, and less."""


def overview(records: dict[str, Any], detail: str = DETAILS[0]) -> Table:
    """One line per claim and one column per checkpoint: verdict and the estimate that it hangs on.

    Args:
        records: claim id -> record, or None where it has not been judged.
        detail: how much of the estimate, one of :data:`DETAILS`.
    """
    judged = [record for record in records.values() if record]
    checkpoints = list(dict.fromkeys(case["checkpoint"] for record in judged for case in record["checkpoints"]))
    presets = list(dict.fromkeys(filter(None, map(preset_of, judged)))) or ["not recorded" if judged else "none"]
    title = f"Claims (preset: {', '.join(presets)}; level: {', '.join(levels(judged)) or 'none'})"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for head in ("claim", *(checkpoints or ["verdict"])):
        table.add_column(head, overflow="fold")  # where even the least is too wide, nothing is cut off
    for name, record in records.items():
        cases = {case["checkpoint"]: case for case in record["checkpoints"]} if record else {}
        absent = Text() if record else Text("not run", style=STYLES["not run"])  # none of its paper's, or none at all
        cells = (_cell(cases[name], detail) if name in cases else absent for name in checkpoints or [""])
        table.add_row(name, *cells)
    return table


def mixed(records: dict[str, Any]) -> str:
    """Which claims were judged on estimates of which preset, where these are several; else nothing.

    Args:
        records: as for :func:`overview`.
    """
    of = presets(records)
    if len(of) < 2:
        return ""
    usual, *others = of
    lines = [f"{preset}: {', '.join(of[preset])}" for preset in others]
    first = "Estimates of several presets, not to be compared with each other:"
    return "\n".join([first, *lines, f"{usual}: all else"])


def _cell(case: dict[str, Any], detail: str) -> Text:
    verdict = case["verdict"]
    text = Text(verdict, style=STYLES[verdict])
    if detail != "verdict" and verdict in ("reproduced", "contradicted", "inconclusive"):
        text.append(f"  {_estimate(case, detail)}", style="default not bold")
    return text


def _estimate(case: dict[str, Any], detail: str) -> str:
    whole = interval(case["estimate"])
    if detail == "point":
        return whole.partition(" [")[0]
    layers = _layers(case["estimate"], case["layers"])
    spread = case["apart"].partition(",")[0] if case["apart"] else ""
    words = "; ".join(filter(None, (layers, spread))) if detail == "layers" else ""
    return f"{whole} ({words})" if words else whole


def _layers(estimate: dict[str, Any], layers: list[int]) -> str:
    """``29 layers``, ``layer 15``, or nothing where layers have no part in it."""
    if estimate["layer"] is not None and len(layers) < 2:
        return f"layer {estimate['layer']}"
    return f"{estimate['layers']} layers" if estimate["layers"] > 1 else ""


def page(record: dict[str, Any]) -> Group:
    """All that a reviewer needs to check one claim."""
    parts: list[RenderableType] = [Text(record["claim"], style="bold"), _about(record)]
    for case in record["checkpoints"]:
        parts += [_heading(case), _evidence(case), _guards(case), _rebuild(case)]
    parts.append(_provenance(record["provenance"]))
    return Group(*parts)


def _about(record: dict[str, Any]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    grid.add_row("claim", record["statement"])
    grid.add_row("stated in", f"{record['paper']}: {record['location']}")
    grid.add_row("published", published_words(record["published"]) or "no number")
    for words in dict.fromkeys(case["rule"] for case in record["checkpoints"]):
        grid.add_row("rule", words)
    for level in levels([record]):
        grid.add_row("level", LEVELS[level])
    gates = dict.fromkeys(case["level"] for case in record["checkpoints"] if case["expected"])
    gate = f"`lensproof verify` fails unless reproduced ({', '.join(gates)})" if gates else "none at this level"
    grid.add_row("gate", gate)
    return grid


def _heading(case: dict[str, Any]) -> Text:
    text = Text(f"\n{case['checkpoint']}: ", style="bold")
    text.append(case["verdict"], style=STYLES[case["verdict"]])
    made = f"preset {case['preset']}" if case["preset"] else "preset not recorded"
    text.append(f" ({made}, {case['level']}, {case['entry']})", style="default not bold")
    return text.append(f"\n{case['reason']}", style="default not bold")


def _evidence(case: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("estimate", r"value \[interval]", "n", "documents", "rule says"):
        table.add_column(name, justify="right" if name in ("n", "documents") else "left", no_wrap=name == "rule says")
    for part in case["parts"]:
        verdict = Text(part["verdict"], STYLES[part["verdict"]])
        table.add_row(part["quantity"], *evidence_cells(part["estimate"], part["layers"], part["by_layer"]), verdict)
    for value in case["values"]:
        numbers = evidence_cells(value["estimate"], value["layers"], value["by_layer"])
        table.add_row(Text(value["quantity"], "dim"), *numbers, "")
    return table


def evidence_cells(
    estimate: dict[str, Any] | None, layers: Sequence[int], by_layer: Sequence[dict[str, Any]]
) -> tuple[str, ...]:
    """Value with its layers and the range over them below it, n, and documents."""
    counts = (str(estimate[name]) if estimate else "" for name in ("n", "clusters"))
    where = over(estimate, layers)
    if where:
        where = f"over {where}" if where.endswith("layers") else f"layer{'' if where.isdecimal() else 's'} {where}"
    return "\n".join(filter(None, (interval(estimate), where, _range(by_layer)))), *counts


def _range(by_layer: Sequence[dict[str, Any]]) -> str:
    """``by layer 0.02 (3) to 1.00 (15)``: the lowest and the highest of the layers' points, each with its layer."""
    defined = [item for item in by_layer if item["point"] is not None]
    if len(defined) < 2:
        return ""
    low, high = (end(defined, key=lambda item: item["point"]) for end in (min, max))
    return f"by layer {number(low['point'])} ({low['layer']}) to {number(high['point'])} ({high['layer']})"


def _guards(case: dict[str, Any]) -> Text:
    lines = [
        f"guard {'passed' if guard['passes'] else 'FAILED'}: {guard['asks']} (here: {guard['found']})"
        for guard in case["guards"]
    ]
    return Text("\n".join(lines), style="dim")


def _rebuild(case: dict[str, Any]) -> Text:
    commands = "\n".join(item["command"] for item in case["inputs"])
    return Text(f"rebuild:\n{commands}", style="dim", no_wrap=True, overflow="ignore")


def _provenance(provenance: dict[str, Any]) -> Text:
    parts = [provenance["package"], f"commit {provenance['commit'] or 'unknown'}", f"code {provenance['code']}"]
    parts += [f"{name} {provenance[name]}" for name in ("preset", "config") if provenance[name]]
    return Text("\n" + ", ".join(parts), style="dim")
