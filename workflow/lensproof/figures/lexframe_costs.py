"""What reading costs, and what fitting a Jacobian lens costs beside it."""

from __future__ import annotations

import pandas as pd

from lensproof.figures.names import method_title, setting_title
from lensproof.figures.tables import Column, Fitted, Layout, Line
from lensproof.statistics.methods import in_order

PUBLISHED = {
    ("jacobian_lens", "wall", "time_ratio"): "lexframe.text.jacobian_fit_over_calibrate_and_read_orders_0_to_2",
}
CAPTION = (
    "Measured times on the machine of this run, of the processor and by the wall clock; the paper's ratio stands "
    "beside the latter. Brackets: {level} bootstrap intervals over the jobs of a step, where they are two or more. To "
    "read a sequence at all layers takes (n + 1)(L + 1) / 2 forward passes at order n; to fit a Jacobian lens takes P "
    "d backward passes for P prompts and width d. The ratio compares the fit with calibrating and reading the test set"
    " at orders 0 to 2: one comparison of two budgets, whose sizes are the run's, and no ratio of speeds in general."
)
NO_INTERVAL = "A number without an interval: each step behind it was one job, which says nothing of how times scatter."
EMPTY = "An empty cell: only the fit of the Jacobian lens is compared with the rest."


def _layout(rows: pd.DataFrame) -> Layout:
    """A line for each method and setting that was timed, a column for each measure."""
    columns = [Column(measure, stated_digits=0) for measure in dict.fromkeys(rows["measure"])]
    settings = rows["setting"].astype(object).where(rows["setting"].notna(), None)
    found = set(zip(rows["method"], settings, strict=True))
    lines = [
        Line(method, _title(method, setting), setting, paths=_paths(method, setting))
        for method in in_order(rows["method"])
        for setting in dict.fromkeys(settings)
        if (method, setting) in found
    ]
    return Layout("costs", "Costs", "costs", lines, columns, CAPTION, no_interval=NO_INTERVAL, empty=EMPTY)


def _title(method: str, setting: str | None) -> str:
    return method_title(method) if setting is None else f"{method_title(method)}, {setting_title(setting)}"


def _paths(method: str, setting: str | None) -> dict[str, str]:
    return {measure: path for (*line, measure), path in PUBLISHED.items() if line == [method, setting]}


TABLE = Fitted("costs", _layout)
tidy, markdown, latex = TABLE.tidy, TABLE.markdown, TABLE.latex
