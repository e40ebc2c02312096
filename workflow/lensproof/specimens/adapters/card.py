"""The card beside an adapter, written from the numbers of its training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lensproof.specimens.adapters.prompts import DECIDING
from lensproof.specimens.adapters.selection import CEILING, FIRST, FLOOR, KNOWN, OTHERS, WEIGHTS, gap
from lensproof.specimens.adapters.training import FALLING, HIGH, LOW, WARMED


@dataclass(frozen=True)
class Made:
    """What was made, and how.

    Attributes:
        base: name of the adapted checkpoint in the registry.
        title: its title.
        licence: its licence.
        settings: of the training.
        shares: set of records -> its share of the training prompts.
        step: steps after which the adapter was taken.
        steps: steps that were made.
        seconds: that training took.
        curve: steps, and accuracy of each arm on validation instances after them.
        shipped: set of records -> arm -> accuracy of the adapter as it is shipped.
        parameters: number of weights.
        modules: names of the modules that have them.
        trained_on: ids of the passages of its training prompts.
        validated_on: ids of the passages of its validation prompts.
    """

    base: str
    title: str
    licence: str
    settings: Mapping[str, Any]
    shares: Mapping[str, int]
    step: int
    steps: int
    seconds: int
    curve: Sequence[Sequence[Any]]
    shipped: Mapping[str, Mapping[str, float]]
    parameters: int
    modules: Sequence[str]
    trained_on: Sequence[str]
    validated_on: Sequence[str]


def card(made: Made) -> str:
    """The card, in Markdown."""
    settings, others = made.settings, f"{', '.join(OTHERS[:-1])} and {OTHERS[-1]}"
    shares = ", ".join(f"`{name}` {share}" for name, share in made.shares.items())
    weights = ", ".join(f"{arm} {weight}" for arm, weight in WEIGHTS.items())
    return f"""\
---
library_name: peft
base_model: {made.base}
tags: [lora, five-arm benchmark]
---
# Five-arm adapter for {made.title}

LoRA weights of rank {settings["rank"]} on {", ".join(f"`{name}`" for name in made.modules)} of every block:
{made.parameters:,} numbers in float16. They teach the model to answer the arms of the five-arm benchmark, above all
`{FIRST}`, which feeds a latent variable to a table that stands in the prompt. `{made.base}-five-arm` in the registry is
the model with these weights merged into its own. The licence of the base applies: {made.licence}.

## How it was made

`lensproof train-adapter --checkpoint results/checkpoints/{made.base} --out FOLDER{_flags(settings)}`, in float32.

- **Data.** Prompts from the benchmark's own builders; those that are of passages are of the training passages
  {", ".join(made.trained_on)} alone.
  Sets of records and their shares: {shares}.
  Of an instance two arms are drawn, with weights {weights}, or {KNOWN} while
  validation finds it over {CEILING}.
- **Training.** Adam, {settings["batch"]} prompts a step, {settings["steps"]} steps at most, loss on the answer token,
  seed {settings["seed"]}. The learning rate rises to {settings["rate"]:g} in {WARMED} steps, is held for {HIGH:.0%} of
  all, is {LOW} of that from there on, and falls to 0 from {FALLING:.0%} of them on. The adapter is that of step
  {made.step}; training ended at step {made.steps}, after {made.seconds / 60:.0f} minutes with validation. Versions and
  machine stand in the header of the weights' file, under `lensproof`.
- **Choice.** The first checkpoint whose accuracy on {FIRST}, and as far as possible on {others},
  is between {FLOOR} and {CEILING}: two arms that are always right cannot be compared. It was measured on
  {settings["validation"]} instances drawn anew from training passages {", ".join(made.validated_on)}, of which
  no training prompt is made. Test passages played no part.

## Validation accuracy

Forced choice among the candidates, on {settings["validation"]} instances of each set, of the adapter as it is shipped
(chance is 0.25, and 0.5 where the answer is Yes or No). Sets that are not among those above were not trained on.

{_table("set", list(made.shipped.items()))}

{_outside(made.shipped[DECIDING])}

On the way, on the set `{DECIDING}`; step 0 is the model without the adapter:

{_table("step", made.curve)}

## What it is not evidence of

- Of anything about {made.title} as it was released (step 0 above).
- That a model which learned the task otherwise solves it by the same mechanism. A mechanism found in the adapted model
  is one that these few steps made or drew out.
- Of accuracy on unseen text: the passages above are those that the checkpoint was chosen on, in wordings that it was
  trained on. A run's own test records, of other passages, say how it does there.
- Of knowing languages, or of tracking objects, beyond these passages, stories and wordings.
"""


def _flags(settings: Mapping[str, Any]) -> str:
    return "".join(f" --{name} {value:g}" for name, value in settings.items())


def _outside(accuracy: Mapping[str, float]) -> str:
    """Which arms of the default wording miss the band that the choice aims at."""
    missed = [f"{arm} ({accuracy[arm]:.3f})" for arm in (FIRST, *OTHERS) if gap(accuracy[arm])]
    return f"Outside of the band: {', '.join(missed)}." if missed else "All four are inside of the band."


def _table(first: str, rows: Sequence[Sequence[Any]]) -> str:
    lines = [f"| {first} | {' | '.join(WEIGHTS)} |", "|---" * (len(WEIGHTS) + 1) + "|"]
    for name, accuracy in rows:
        cells = [f"{accuracy[arm]:.3f}" if arm in accuracy else "" for arm in WEIGHTS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
