"""Records of both families for a checkpoint's tokenizer, every invariant enforced; no peer builds them."""

import numpy as np
from serve import serve


def prepare(job):
    """Load the tokenizer and the passages; the work is the building only."""
    from lensproof.checkpoints.load import load_tokenizer
    from lensproof.corpora.benchmark import sets
    from lensproof.corpora.benchmark.passages import OWN, load

    tokenizer = load_tokenizer(job["checkpoint"])
    passages = [passage for passage in load(OWN) if not passage.training]

    def work():
        given = {"count": job["instances"], "seed": 0, "passages": passages}
        built = {family: sets.build(family, tokenizer, **given) for family in ("language", "tracking")}
        return {family: np.array(made.attrition.instances) for family, made in built.items()}

    return work


if __name__ == "__main__":
    serve(prepare)
