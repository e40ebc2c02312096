"""A device that is not the CPU, for machines that have no other: its tensors live on the CPU, say that they are
elsewhere, and refuse what a GPU refuses.

``Elsewhere`` wraps a tensor under the name of torch's ``meta`` device. Every operation on it is run on what it wraps;
one that joins it with a tensor of the CPU is an error, except where a GPU takes one too: numbers without dimensions,
indices into a tensor of the device, copies.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("meta")
MAY_MIX = {"aten::copy_", "aten::_to_copy", "aten::set_"}
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}


class Elsewhere(torch.Tensor):
    """A tensor on the device."""

    @staticmethod
    def __new__(cls, held: torch.Tensor):
        return torch.Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            device=DEVICE, requires_grad=held.requires_grad,
        )  # fmt: skip

    def __init__(self, held: torch.Tensor):
        self.held = held.detach()

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __getitem__(self, key):
        return super().__getitem__(_indices(key))

    def __setitem__(self, key, value):
        super().__setitem__(_indices(key), value)

    def tolist(self):
        return self.held.tolist()

    def numpy(self):
        raise TypeError("a tensor of another device has no numpy array: copy it to the CPU first")

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return _run(function, args, kwargs or {})


def _indices(key):
    """Lists and arrays in a subscript, which torch would put on the device unseen, as tensors of the CPU."""
    if isinstance(key, tuple):
        return tuple(_indices(part) for part in key)
    return torch.as_tensor(key) if isinstance(key, list | np.ndarray) else key


class _Made(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return _run(function, args, kwargs or {})


class _Given(TorchFunctionMode):
    """``torch.tensor`` of Python numbers does not come by :class:`_Made`."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is torch.tensor and kwargs.get("device") is not None:
            device = kwargs["device"]
            return torch.tensor(*args, **{**kwargs, "device": None}).to(device)
        return function(*args, **kwargs)


@contextlib.contextmanager
def reachable() -> Iterator[None]:
    """While it holds, tensors that are made on the device are :class:`Elsewhere`."""
    with _Given(), _Made():
        yield


def reach() -> None:
    """The same for the rest of a thread."""
    for mode in (_Given(), _Made()):
        mode.__enter__()


def _run(function, args, kwargs):
    given = [part for part in tree_flatten((args, kwargs))[0] if isinstance(part, torch.Tensor)]
    there = [part for part in given if isinstance(part, Elsewhere)]
    device = kwargs.get("device")
    wraps = bool(there) if device is None else torch.device(device) == DEVICE
    name = function._schema.name
    if there and name not in MAY_MIX:
        checked = [args[0], *args[2:3]] if name in INDEXED else given
        for part in checked:
            if isinstance(part, torch.Tensor) and part.dim() and not isinstance(part, Elsewhere):
                raise RuntimeError(f"{name}: tensors on the CPU and on another device")
    if device is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    held_args, held_kwargs = tree_map(lambda part: part.held if isinstance(part, Elsewhere) else part, (args, kwargs))
    found = function(*held_args, **held_kwargs)
    if name.endswith("_"):
        return args[0]  # in place
    return tree_map(lambda part: Elsewhere(part) if wraps and type(part) is torch.Tensor else part, found)


def moved(model: torch.nn.Module) -> torch.nn.Module:
    """A copy of a model with every parameter and buffer on the device."""
    model = copy.deepcopy(model)
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    tensors[name] = Elsewhere(tensor.detach())
    return model
