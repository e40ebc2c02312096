"""Basis directions of order 1 at every position of a short text, by this project: as ``basis_peer.py`` gives them."""

import math

import torch
from serve import serve, tokens


def prepare(job):
    """Calibrate; the work is the states and the solutions."""
    from lensproof import options
    from lensproof.checkpoints.load import load
    from lensproof.frames.basis import OutputBasis
    from lensproof.frames.typical import calibrate

    options.use_threads(job["threads"])  # as every command does
    decoder = load(job["checkpoint"])
    typical = calibrate(decoder, tokens(job, "calibration"))
    text, targets = tokens(job, "text"), OutputBasis.of(decoder)(tokens(job, "labels"))
    return lambda: {"basis": _solve(decoder, text, job["layer"], targets, typical).numpy()}


@torch.no_grad()
def _solve(decoder, text, layer, targets, typical):
    """``[T, C, d]``; position 0 has no prefix, so its frame is the native one."""
    from lensproof.frames.basis import lsmr
    from lensproof.frames.frame import frames
    from lensproof.streams.trace import residuals

    states, found = residuals(decoder, text[None])[:, 0], []
    for order, at in ((math.inf, torch.arange(1)), (1, torch.arange(1, len(text)))):
        frame = frames(decoder, states, order, [layer], typical)[layer]
        found.append(lsmr(frame.linearise(states[layer, at], at), targets.expand(len(at), -1, -1)))
    return torch.cat(found)


if __name__ == "__main__":
    serve(prepare)
