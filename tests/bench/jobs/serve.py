"""The far end of a :class:`tests.bench.worker.Worker`: prepare once, then do the job each time it is asked for.

It runs in the peers' environment too, so it needs numpy and torch only. The job description is the first argument, as
JSON. Each line on standard input asks for one run; the answer is one line of JSON on standard output.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Work = Callable[[], dict[str, np.ndarray]]


def serve(prepare: Callable[[dict[str, Any]], Work]) -> None:
    """Prepare the job, then answer every request with the seconds it took; the result goes to ``job["result"]``."""
    job = json.loads(sys.argv[1])
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a package prints must not be taken for an answer
    work = prepare(job)
    print(json.dumps({"torch": torch.__version__}), file=answers)
    for _ in sys.stdin:
        start = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - start
        np.savez(job["result"], **result)
        print(json.dumps({"seconds": seconds}), file=answers)


def tokens(job: dict[str, Any], name: str) -> torch.Tensor:
    """Token ids ``[N, T]`` that the job carries."""
    return torch.tensor(job[name], dtype=torch.long)


def hugging_face_model(job: dict[str, Any]) -> torch.nn.Module:
    """The job's checkpoint as the peers take it, in float32 and evaluation mode."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(job["checkpoint"], dtype=torch.float32, local_files_only=True)
    return model.eval()
