"""Whether a corpus has the sequences that the configuration asks for, said before any long step starts.

What is asked for comes through the environment, not as an argument: asking for more must not make steps stale that
it does not change.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd

from lensproof.errors import LensproofError

VARIABLE = "LENSPROOF_NEEDS"
"""JSON: file of sequences -> key of the configuration -> [role, number]. Set by the workflow; may be absent."""


def check(sequences: pd.DataFrame, file: str | Path) -> pd.DataFrame:
    """The table itself, if it has enough sequences in every role.

    Args:
        sequences: the table.
        file: where it stands or is to stand.

    Raises:
        LensproofError: it has not, naming the key.
    """
    available = sequences["role"].value_counts()
    for key, (role, asked) in json.loads(os.environ.get(VARIABLE, "{}")).get(str(file), {}).items():
        have = int(available.get(role, 0))
        if asked > have:
            raise LensproofError(
                f"config: {key} asks for {asked} sequences, {file} has {have} for {role}: "
                f"lower {key} or choose a longer corpus"
            )
    return sequences
