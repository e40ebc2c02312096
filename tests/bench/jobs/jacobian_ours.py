"""The Jacobian lens, by this project: layers 1 .. L-1 as ``jacobian_peer.py`` gives them."""

import numpy as np
from serve import serve, tokens


def prepare(job):
    """Load the model; the work is the whole fit."""
    from lensproof import options
    from lensproof.checkpoints.load import load
    from lensproof.lenses.jacobian import fit

    options.use_threads(job["threads"])  # as every command does
    decoder, prompts = load(job["checkpoint"]), tokens(job, "prompts")

    def work():
        lens = fit(decoder, prompts, **{key: job[key] for key in ("skip", "cotangents", "lowest")})
        return {"jacobians": np.stack([lens.matrices[layer].numpy() for layer in range(1, decoder.depth)])}

    return work


if __name__ == "__main__":
    serve(prepare)
