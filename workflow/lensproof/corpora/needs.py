"""Whether a corpus has the sequences that the configuration asks for, said before any long step starts.

What is asked for comes through the environment, not as an argument: asking for more must not make steps stale that
it does not change.
"""

from __future__ import annotations

import json
import os

import pandas as pd

from lensproof.errors import LensproofError

VARIABLE = "LENSPROOF_NEEDS"
"""JSON: checkpoint -> key of the configuration -> number of sequences. Set by the workflow; may be absent."""

ROLES = {"calibration.sequences": "calibration", "jacobian_lens.prompts": "lens"}
"""The role that a key's sequences play; of every other key, ``test``."""


def check(sequences: pd.DataFrame, checkpoint: str) -> pd.DataFrame:
    """The table itself, if it has enough sequences in every role.

    Raises:
        LensproofError: it has not, naming the key.
    """
    available = sequences["role"].value_counts()
    for key, asked in json.loads(os.environ.get(VARIABLE, "{}")).get(checkpoint, {}).items():
        role = ROLES.get(key, "test")
        have = int(available.get(role, 0))
        if asked > have:
            raise LensproofError(
                f"config: {key} asks for {asked} sequences, the corpus gives {checkpoint} {have} for {role}: "
                f"lower {key} or choose a longer corpus"
            )
    return sequences
