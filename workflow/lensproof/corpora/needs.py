"""Whether a corpus has the sequences that the configuration asks for, said before any long step starts.

What is asked for comes through the environment, not as an argument: asking for more must not make steps stale that
it does not change.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd

from lensproof.corpora.sequences import read
from lensproof.errors import LensproofError
from lensproof.files import read_provenance
from lensproof.provenance import sha256

VARIABLE = "LENSPROOF_NEEDS"
"""JSON: file of sequences -> key of the configuration -> [role, number]. Set by the workflow; may be absent."""


def sequences_for(checkpoint: Path, file: Path) -> pd.DataFrame:
    """The sequences of a file, to run a checkpoint on.

    Raises:
        LensproofError: the file is missing or damaged, has too few sequences, or was made for another tokenizer.
    """
    table = check(read(file), file)
    made_with = read_provenance(file).get("inputs", {}).get("tokenizer", {}).get("sha256")
    tokenizer = checkpoint / "tokenizer.json"
    if made_with and tokenizer.is_file() and sha256(tokenizer) != made_with:
        raise LensproofError(
            f"{file} was made with another tokenizer than {checkpoint} has: give this checkpoint's own"
        )
    return table


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
                f"lower {key} or sequence_length, or choose a longer corpus"
            )
    return sequences
