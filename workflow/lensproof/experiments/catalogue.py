"""What each experiment reads, without anything heavy: the Snakefile looks here.

An experiment is a module of this folder with ``observe(run) -> DataFrame``, its section of the configuration
(``experiments.<name>``) and a module of the same name in ``lensproof.statistics``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Experiment:
    """Files that an experiment reads.

    Attributes:
        inputs: names of files in ``results/artifacts/<checkpoint>/``, all safetensors.
        corpora: registry keys in the configuration of corpora that it reads besides the run's own.
        float32: whether its model is loaded in float32 whatever the run's precision, as directions ask for.
    """

    inputs: tuple[str, ...] = ()
    corpora: tuple[str, ...] = ()
    float32: bool = True


EXPERIMENTS = {
    "directions": Experiment(inputs=("typical_attention", "jacobian_lens", "ridge_probe")),
    "coherence": Experiment(),
    "substitution": Experiment(inputs=("typical_attention", "jacobian_lens")),
    "subspaces": Experiment(),
    "composition": Experiment(inputs=("typical_attention",)),
    "decomposition": Experiment(inputs=("typical_attention", "jacobian_lens"), float32=False),
    "steering": Experiment(inputs=("typical_attention", "jacobian_lens")),
    "attribution": Experiment(inputs=("typical_attention", "jacobian_lens")),
    "stand_ins": Experiment(inputs=("typical_attention",)),
}
