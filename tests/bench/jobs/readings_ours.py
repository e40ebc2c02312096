"""Orders 0, 1 and 2 of every layer, by this project: the same numbers as ``readings_peer.py``."""

import numpy as np
import torch
from serve import serve, tokens


def prepare(job):
    """Calibrate; the work is the reading only."""
    from lensproof import options
    from lensproof.checkpoints.load import load
    from lensproof.frames.typical import calibrate

    options.use_threads(job["threads"])  # as every command does
    decoder = load(job["checkpoint"])
    typical = calibrate(decoder, tokens(job, "calibration"))
    test = tokens(job, "test")

    def work():
        read = [_read(decoder, ids, job["orders"], typical) for ids in test]
        return {name: np.stack([one[name] for one in read]) for name in read[0]}

    return work


def _read(decoder, ids, orders, typical):
    """KL, top token and its probability at layers 0 .. L of one sequence; an exact order reads as the model itself."""
    from lensproof.frames.flow import flow
    from lensproof.lenses.reading import NativeReading, compare
    from lensproof.streams.trace import residuals

    states = residuals(decoder, ids[None])[:, 0]
    native = NativeReading.of(decoder, states[-1])
    own = (torch.zeros(len(ids)), native.summary.top, native.summary.log_probability.exp())
    found = {}
    for order, cuts, last in flow(decoder, states, orders, typical):
        parts = [part.repeat(decoder.depth + 1, 1) for part in own]
        for part, value in zip(parts, compare(decoder, native, last), strict=True):
            part[cuts] = value
        found |= {
            f"{name}_{order}": part.numpy() for name, part in zip(("kl", "top", "confidence"), parts, strict=True)
        }
    return found


if __name__ == "__main__":
    serve(prepare)
