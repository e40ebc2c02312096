"""The Jacobian lens: one matrix per layer, the model's mean linear response to a state of that layer.

For one prompt of T tokens, with V the positions ``skip .. T-2`` as both sources and targets,

    J_l = 1/|V| * sum over t in V, sum over t' in V with t' >= t of  d h_L(t') / d h_l(t),

and the lens is the mean over prompts. Entry ``[i, j]`` is the derivative of output i by input j, so a state is
transported as ``h @ J.T``. The target is the last block's output, before the final norm; reading applies the
norm and the unembedding to the transported state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder, full
from lensproof.errors import LensproofError
from lensproof.files import (
    JACOBIAN,
    atomic,
    check_shapes,
    damaged,
    layer_number,
    read_provenance,
    read_safetensors,
    write_safetensors,
)
from lensproof.progress import bar
from lensproof.streams.replay import remember
from lensproof.streams.trace import onward, residuals

PROMPTS = "prompts"
"""Name of the tensor that holds the number of prompts."""
LOWEST = "lowest"
"""Key of a file's provenance: the layer from which on the lens is whole, 0 where it is not there."""


@dataclass(frozen=True)
class JacobianLens:
    """A fitted lens.

    ``matrices`` maps a layer (0 the embedding, L the last block's output) to ``J`` ``[d, d]`` in float32.
    """

    matrices: dict[int, Tensor]
    prompts: int
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Width of the residual stream, d."""
        return next(iter(self.matrices.values())).shape[0]

    def transport(self, x: Tensor, layer: int) -> Tensor:
        """Last-layer states ``[..., d]``, in float32 or better, that the lens expects from states ``x`` ``[..., d]`` of
        ``layer``."""
        if layer not in self.matrices:
            raise LensproofError(f"the Jacobian lens has no layer {layer} (it has {_ranges(self.matrices)})")
        x = full(x)
        return x @ self.matrices[layer].to(x).T


def fit(
    decoder: Decoder,
    tokens: Tensor,
    *,
    skip: int = 16,
    cotangents: int = 8,
    lowest: int = 0,
    progress: str | None = None,
) -> JacobianLens:
    """Fit the lens on prompts of one length.

    Positions before ``skip`` serve as context only; the last position is neither source nor target.

    Args:
        tokens: ids ``[P, T]``.
        skip: positions left out at the start of each prompt.
        cotangents: output dimensions differentiated at once; it changes memory and speed, not the result.
        lowest: lowest layer to fit; each layer above it costs a block's backward passes.
        progress: text of a progress bar, or None.

    Raises:
        LensproofError: no prompt is longer than ``skip + 1``, the model is in training mode with dropout, or it has no
            layer ``lowest``.
    """
    if not 0 <= lowest <= decoder.depth:
        raise LensproofError(f"layer {lowest} is out of range: the model has layers 0 to {decoder.depth}")
    settings = {"skip": skip, "cotangents": cotangents, "lowest": lowest, "progress": progress}
    return combine(fit_prompt(decoder, prompt, **settings) for prompt in tokens)


def fit_prompt(
    decoder: Decoder,
    prompt: Tensor,
    *,
    skip: int = 16,
    cotangents: int = 8,
    lowest: int = 0,
    progress: str | None = None,
) -> JacobianLens:
    """The lens of a single prompt ``[T]``; with ``T <= skip + 1`` it is empty and counts no prompt."""
    refuse_dropout(decoder)
    last = len(prompt) - 1
    if last <= skip:
        return JacobianLens({}, 0)
    with torch.no_grad():
        pull = _pull_back(decoder, prompt[:last], skip, lowest)
        layers = range(lowest, decoder.depth + 1)
        return JacobianLens(_mean_jacobians(decoder, pull, layers, last - skip, cotangents, progress), 1)


Pull = Callable[[Tensor], Iterator[tuple[int, Tensor]]]
"""Takes cotangents ``[S, C, d]`` of the last layer's states to those of every layer, from L down; S positions."""


def _pull_back(decoder: Decoder, prompt: Tensor, skip: int, lowest: int) -> Pull:
    """For the positions from ``skip`` on; those before are constants."""
    decoder = decoder.on(prompt)
    states = residuals(decoder, prompt[None])[:, 0]
    shares = any(block.shares is not None for block in decoder.blocks[lowest:])
    return (_through_one_graph if shares else _block_by_block)(decoder, states, skip, lowest)


def _block_by_block(decoder: Decoder, states: Tensor, skip: int, lowest: int) -> Pull:
    back = {
        layer: decoder.blocks[layer].linearise(
            states[layer, skip:], decoder.blocks[layer].remember(states[layer, None, :skip])
        )
        for layer in range(lowest, decoder.depth)
    }

    def pull(gradient: Tensor) -> Iterator[tuple[int, Tensor]]:
        yield decoder.depth, gradient
        for layer in reversed(back):
            gradient = back[layer](gradient)
            yield layer, gradient

    return pull


def _through_one_graph(decoder: Decoder, states: Tensor, skip: int, lowest: int) -> Pull:
    """Where blocks use the keys and values of earlier ones, a layer's state acts through them too, so the cotangents
    of the next layer's states do not say all."""
    with torch.enable_grad():
        x = states[lowest, None].clone().requires_grad_()
        met = [x, *onward(decoder, x, lowest, remember(decoder, states[: lowest + 1]))]

    def pull(gradient: Tensor) -> Iterator[tuple[int, Tensor]]:
        yield decoder.depth, gradient
        last = torch.nn.functional.pad(gradient.transpose(0, 1), (0, 0, skip, 0))[:, None]  # C 1 T d
        found = torch.autograd.grad(met[-1], met[:-1], last, retain_graph=True, is_grads_batched=True)
        for layer, part in enumerate(found, lowest):
            yield layer, part[:, 0, skip:].transpose(0, 1)

    return pull


def _mean_jacobians(
    decoder: Decoder, pull: Pull, layers: Iterable[int], sources: int, cotangents: int, progress: str | None
) -> dict[int, Tensor]:
    """Sum over targets, mean over sources: one backward pass per output dimension serves all layers."""
    width, like = decoder.width, decoder.unembedding
    matrices = {layer: like.new_empty(width, width, dtype=torch.float32) for layer in layers}

    @torch.no_grad()
    def rows_from(start: int) -> None:
        rows = torch.arange(start, min(start + cotangents, width), device=like.device)
        gradient = like.new_zeros(sources, len(rows), width)
        gradient[:, torch.arange(len(rows)), rows] = 1.0
        for layer, found in pull(gradient):
            matrices[layer][rows] = found.float().mean(0)

    starts = range(0, width, cotangents)
    with _workers(like.device) as pool:
        done = pool.map(rows_from, starts)
        for _ in bar(done, progress, total=len(starts), unit="batch") if progress else done:
            pass
    return {layer: matrix.cpu() for layer, matrix in matrices.items()}


@contextlib.contextmanager
def _workers(device: torch.device) -> Iterator[ThreadPoolExecutor]:
    """Batches of cotangents need nothing of one another: on a CPU each of torch's threads takes whole batches, instead
    of all of them waiting for each other in every product."""
    threads = torch.get_num_threads()
    try:
        if device.type == "cpu":
            torch.set_num_threads(1)
        with ThreadPoolExecutor(threads if device.type == "cpu" else 1) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)


def combine(lenses: Iterable[JacobianLens]) -> JacobianLens:
    """The mean over prompts of lenses fitted on different prompts, each weighted by the prompts it saw.

    Raises:
        LensproofError: none of them saw a prompt long enough.
    """
    lenses = [lens for lens in lenses if lens.prompts]
    total = sum(lens.prompts for lens in lenses)
    if not total:
        raise LensproofError("no prompt is long enough for the Jacobian lens: use longer prompts or a smaller skip")
    matrices = {
        layer: sum(lens.matrices[layer].double() * lens.prompts for lens in lenses).div(total).float()
        for layer in lenses[0].matrices
    }
    return JacobianLens(matrices, total)


def refuse_dropout(decoder: Decoder) -> None:
    """Refuse a model any part of which is in training mode and drops activations.

    Raises:
        LensproofError: naming the first such module.
    """
    for name, module in decoder.model.named_modules() if decoder.model is not None else ():
        rates = (getattr(module, "p", 0), getattr(module, "attention_dropout", 0))
        if module.training and any(isinstance(rate, float) and rate > 0 for rate in rates):
            raise LensproofError(f"{name or 'the model'} is in training mode with dropout: call model.eval() first")


def save(path: str | Path, lens: JacobianLens, provenance: Mapping[str, Any]) -> None:
    """Write a lens as safetensors, in float32.

    Raises:
        LensproofError: an entry is not finite, naming the layer.
    """
    _refuse_nonfinite(lens, path)
    tensors = {f"layer_{layer:03d}": matrix.float() for layer, matrix in lens.matrices.items()}
    write_safetensors(path, tensors | {PROMPTS: torch.tensor(lens.prompts)}, provenance)


def load(path: str | Path, decoder: Decoder | None = None, weights: str | None = None) -> JacobianLens:
    """Read a lens written by :func:`save`, or one in the reference ``.pt`` format.

    Args:
        decoder: the model it will be used with; its width and depth must fit.
        weights: sha256 of that model's weights; compared where the lens records one.

    Raises:
        LensproofError: an entry is not finite (naming the layer), or the lens is another model's.
    """
    lens = load_reference(path) if Path(path).suffix == ".pt" else _load_safetensors(path)
    _refuse_nonfinite(lens, path)
    if decoder is not None:
        _refuse_other_model(lens, decoder, weights, path)
    return lens


def _load_safetensors(path: str | Path) -> JacobianLens:
    tensors, provenance = read_safetensors(path, JACOBIAN), read_provenance(path)
    prompts = tensors.pop(PROMPTS, None)
    # Files of earlier versions say it in their header only.
    prompts = provenance.get("jacobian_lens", {}).get("prompts") if prompts is None else int(prompts.sum())
    if prompts is None:
        raise LensproofError(f"{path} does not say how many prompts it was fitted on: fit it again")
    matrices = {layer_number(path, name): matrix.float() for name, matrix in sorted(tensors.items())}
    check_shapes(path, tensors, dict.fromkeys(tensors, ("width", "width")))
    if not matrices or prompts < 1:
        raise damaged(path, f"it has {len(matrices)} layers from {prompts} prompts")
    return JacobianLens(matrices, prompts, provenance)


def save_reference(path: str | Path, lens: JacobianLens) -> None:
    """Write a lens in the reference ``.pt`` format: ``J``, ``n_prompts``, ``source_layers``, ``d_model``.

    That format counts layers by block: its layer k is block k's output, our layer k + 1, so our layer 0 (the
    embedding) has no place in it and is left out. Matrices stay float32.
    """
    _refuse_nonfinite(lens, path)
    layers = [layer for layer in lens.matrices if layer > 0]
    content = {
        "J": {layer - 1: lens.matrices[layer].float() for layer in layers},
        "n_prompts": lens.prompts,
        "source_layers": [layer - 1 for layer in layers],
        "d_model": lens.width,
    }
    with atomic(path) as temporary:
        torch.save(content, temporary)


def load_reference(path: str | Path) -> JacobianLens:
    """Read the reference ``.pt`` format; nothing in it is executed."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        given, layers = content["J"], [int(layer) for layer in content["source_layers"]]
        matrices = {layer + 1: given[layer if isinstance(given, dict) else i] for i, layer in enumerate(layers)}
        matrices = {layer: matrix.float() for layer, matrix in matrices.items()}
        shapes = {tuple(matrix.shape) for matrix in matrices.values()}
        if len(shapes) != 1 or len(set(*shapes)) != 1:
            raise ValueError(f"J must be square matrices of one width, not {sorted(shapes)}")
        return JacobianLens(matrices, int(content["n_prompts"]))
    except FileNotFoundError as error:
        raise LensproofError(f"{path} does not exist") from error
    except Exception as error:
        raise LensproofError(f"{path} is not a Jacobian lens in the reference format ({error})") from error


def _refuse_nonfinite(lens: JacobianLens, path: str | Path) -> None:
    for layer, matrix in lens.matrices.items():
        if not torch.isfinite(matrix).all():
            raise LensproofError(f"{path}: layer {layer} of the Jacobian lens has an entry that is not finite")


def _refuse_other_model(lens: JacobianLens, decoder: Decoder, weights: str | None, path: str | Path) -> None:
    if lens.width != decoder.width:
        raise LensproofError(f"{path} was fitted on a model of width {lens.width}, this one has {decoder.width}")
    if max(lens.matrices) > decoder.depth:
        raise LensproofError(f"{path} has a layer {max(lens.matrices)}, this model ends at layer {decoder.depth}")
    lowest = int(lens.provenance.get(LOWEST, 0))
    if lens.provenance and set(lens.matrices) != set(range(lowest, decoder.depth + 1)):
        expected = f"a lens from layer {lowest} on" if lowest else "this model"
        found = f"{path} covers {_ranges(lens.matrices)}"
        raise LensproofError(f"{found}, {expected} has layers {lowest} to {decoder.depth}")
    recorded = lens.provenance.get("weights")
    if recorded and weights and recorded != weights:
        raise LensproofError(f"{path} was fitted on other weights (sha256 {recorded[:12]}, here {weights[:12]})")


def _ranges(layers: Iterable[int]) -> str:
    layers = sorted(layers)
    if len(layers) < 2:
        return f"layer {layers[0]}" if layers else "no layer"
    return f"layers {layers[0]} to {layers[-1]}"
