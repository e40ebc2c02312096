"""Where each architecture keeps its parts: one small file per architecture, found by name.

To add one, write a module here with ``ARCHITECTURE`` (the class name in the checkpoint's ``config.json``) and
``take_apart(model) -> Decoder``, and name it in :func:`known`. Nothing outside this folder names an architecture.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from lensproof.errors import LensproofError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from lensproof.checkpoints.anatomy.decoder import Decoder


def take_apart(model: PreTrainedModel) -> Decoder:
    """A model's parts, with gradients of the weights off.

    Raises:
        LensproofError: the architecture is not one that the project knows (it is never guessed), or it is configured
            in a way that is not supported.
    """
    name, modules = type(model).__name__, known()
    if name not in modules:
        raise LensproofError(f"architecture {name} is not known (known: {', '.join(sorted(modules))})")
    model.requires_grad_(False)
    return modules[name].take_apart(model)


def known() -> dict[str, ModuleType]:
    """Class name in ``config.json`` -> the module that takes it apart."""
    # Named one by one, not found by listing the folder: what a step runs is read from its imports.
    from lensproof.checkpoints.anatomy import gemma3, gemma4, gpt_neox, llama, olmo3, phi3, qwen3_5, smollm3

    modules = (gemma3, gemma4, gpt_neox, llama, olmo3, phi3, qwen3_5, smollm3)
    return {module.ARCHITECTURE: module for module in modules}
