"""Where each architecture keeps its parts: one small file per architecture, found by name.

To add one, write a module here with ``ARCHITECTURE`` (the class name in the checkpoint's ``config.json``) and
``take_apart(model) -> Decoder``. Nothing outside this folder names an architecture.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from lensproof.errors import LensproofError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from lensproof.checkpoints.anatomy.decoder import Decoder

_SHARED = {"decoder", "parts"}


def take_apart(model: PreTrainedModel) -> Decoder:
    """A model's parts, with gradients of the weights off.

    Raises:
        LensproofError: the architecture is not one that the project knows; it is never guessed.
    """
    name = type(model).__name__
    modules = known()
    if name not in modules:
        raise LensproofError(f"architecture {name} is not known (known: {', '.join(sorted(modules))})")
    model.requires_grad_(False)
    return importlib.import_module(modules[name]).take_apart(model)


def known() -> dict[str, str]:
    """Class name in ``config.json`` -> module that takes it apart."""
    names = [name for _, name, _ in pkgutil.iter_modules(__path__) if name not in _SHARED]
    modules = {name: f"{__name__}.{name}" for name in names}
    return {importlib.import_module(path).ARCHITECTURE: path for path in modules.values()}
