"""What every block adds to the logit of the model's top token in the frame of order 1, by this project: as
``attribution_peer.py`` gives it."""

import torch
from serve import serve, tokens


def prepare(job):
    """Calibrate; the work is the states, the prefixes and the attribution."""
    from lensproof import options
    from lensproof.checkpoints.load import load
    from lensproof.frames.typical import calibrate

    options.use_threads(job["threads"])  # as every command does
    decoder = load(job["checkpoint"])
    typical, text = calibrate(decoder, tokens(job, "calibration")), tokens(job, "passage")
    return lambda: {"attribution": _attribute(decoder, text, typical).numpy()}


@torch.no_grad()
def _attribute(decoder, text, typical):
    """c(x) - c(x - q) ``[L, T - 1]`` at the output x of each block, to which the block adds q."""
    from lensproof.frames.basis import covectors
    from lensproof.frames.frame import frames, transports
    from lensproof.lenses.reading import summarise
    from lensproof.streams.trace import residuals

    states, at = residuals(decoder, text[None])[:, 0], torch.arange(1, len(text))
    covector = covectors(decoder, summarise(decoder, states[-1, at]).top)
    made = list(frames(decoder, states, 1, range(1, decoder.depth + 1), typical).values())
    last = transports(made, torch.cat((states[1:, at], states[:-1, at]), 1), at.repeat(2))
    kept, removed = (decoder.final_norm(last) * covector.repeat(2, 1)).sum(-1).chunk(2, 1)
    return kept - removed


if __name__ == "__main__":
    serve(prepare)
