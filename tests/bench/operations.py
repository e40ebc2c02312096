"""How many floating-point operations a job needs, and how many this machine does in a second.

A multiply-add is two operations. Only products of matrices count: norms, softmaxes and activations are left out, so a
job's share of the machine's rate is what it spends on work that cannot be avoided.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from lensproof.files import read_json


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder with gated MLPs: width d, MLP width, heads, key-value heads, head size, blocks, tokens."""

    width: int
    mlp: int
    heads: int
    key_value_heads: int
    head: int
    depth: int
    vocabulary: int

    @classmethod
    def of(cls, checkpoint: Path) -> Shape:
        """From a checkpoint's ``config.json``."""
        config = read_json(checkpoint / "config.json")
        heads = config["num_attention_heads"]
        return cls(
            width=config["hidden_size"],
            mlp=config["intermediate_size"],
            heads=heads,
            key_value_heads=config.get("num_key_value_heads", heads),
            head=config.get("head_dim") or config["hidden_size"] // heads,
            depth=config["num_hidden_layers"],
            vocabulary=config["vocab_size"],
        )

    @property
    def keys_values(self) -> int:
        """Weights of the key and value projections of one block."""
        return 2 * self.width * self.key_value_heads * self.head

    @property
    def gated_mlp(self) -> int:
        """Weights of the MLP of one block."""
        return 3 * self.width * self.mlp

    @property
    def block(self) -> int:
        """Weights of one block: query and output, key and value, MLP."""
        return 2 * self.width * self.heads * self.head + self.keys_values + self.gated_mlp


def reading(shape: Shape, length: int, top: int = 2) -> int:
    """Operations to read every layer of one sequence at orders 0 .. ``top``.

    The flow of order n from layer l is the model's own for the first n blocks after the cut, and runs the other
    L - l - n; its prefix is the flow of order n-1, so one pass of ``top`` + 1 flows gives all orders. A position of
    order 0 costs typical attention (d x d), its key and value, and the MLP; of a higher order, the block's weights and
    the products of attention with the positions before it. Then one row of logits per order, layer and position where
    the reading is not the model's own, and the model itself once.
    """
    attention = (
        shape.heads * shape.head * (length + 1)
    )  # scores and mixture, over (length + 1) / 2 positions on average
    typical = shape.width**2 + shape.keys_values + shape.gated_mlp
    per_position = shape.depth * (shape.block + attention) + shape.vocabulary * shape.width
    for order in range(top + 1):
        read = range(1, shape.depth - order + 1)  # blocks left to run, for each layer that is not exact
        per_position += sum(read) * (shape.block + attention if order else typical)
        per_position += len(read) * shape.vocabulary * shape.width
    return 2 * length * per_position


def jacobian_fit(shape: Shape, length: int, prompts: int, skip: int, lowest: int = 0) -> int:
    """Operations to fit the Jacobian lens at layers ``lowest`` .. L.

    For each of d output dimensions one cotangent goes back through all weights of the blocks, at the positions
    ``skip`` .. T-2. Products of attention are left out (2% here), and so is the forward pass (one in d).
    """
    positions = length - 1 - skip
    return 2 * prompts * positions * shape.width * (shape.depth - lowest) * shape.block


def basis(shape: Shape, states: int, tokens: int, layer: int, steps: int = 30) -> int:
    """Operations to solve for basis directions by LSMR: each step takes every direction through the blocks that are
    left and back, and one more goes back at the start. Products of attention are left out."""
    return 2 * states * tokens * (2 * steps + 1) * (shape.depth - layer) * shape.block


def attribution(shape: Shape, length: int) -> int:
    """Operations to attribute the blocks' additions at positions 1 .. T-1 of a text in the frame of order 1.

    From every layer but the embedding the order 0 flow of all positions runs to the last, and two states of every
    position that is attributed: with what the block added and without. Products of attention are left out.
    """
    typical = shape.width**2 + shape.keys_values + shape.gated_mlp
    left = shape.depth * (shape.depth - 1) // 2  # blocks, summed over layers 1 .. L
    return 2 * left * (length * typical + 2 * (length - 1) * shape.block)


def matrix_rate(threads: int, size: int = 3072, repeats: int = 3) -> float:
    """Operations per second of a large product in float32: the median of several."""
    import torch

    torch.set_num_threads(threads)
    a, b = torch.randn(2, size, size)
    out = a @ b
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        torch.mm(a, b, out=out)
        seconds.append(time.perf_counter() - start)
    return 2 * size**3 / statistics.median(seconds)
