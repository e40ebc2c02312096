"""The weights of a planted model: the circuit among spare parts, and the seed's choice of everything that a method must
not depend on.

Junk gives readings a floor to stand out from: every token, spare head and spare neuron writes at random where nothing
of the circuit is kept, and every row of the output head reads some of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from lensproof.corpora.benchmark.record import ARMS
from lensproof.corpora.benchmark.wording import VERDICTS
from lensproof.specimens.planted.circuit import Circuit, Head, Neurons, Space, circuit
from lensproof.specimens.planted.plan import COPY, Plan
from lensproof.specimens.planted.world import LANGUAGES, SYMBOLS, VOCABULARY, Token

LABEL, SYMBOL, OTHER = 18.0, 54.0, 24.0
"""Logits of the right label, symbol, and opener or Yes and No: a symbol's stands far above a label's, whose word must
stay visible while the table's answer is given."""
SPARE = 0.1
"""About the norm of what a block's spare heads write, and its spare neurons; that of a token's junk is 1."""


def weights(plan: Plan) -> dict[str, Tensor]:
    """The state dict of a ``LlamaForCausalLM``, in float32; norms have gain 1.

    Computed in float64, so that the same plan gives the same bytes whatever the number of threads.
    """
    space, draw = Space(plan.width), Draw(plan.seed)
    turn = draw.rotation(plan.width)
    parts = {
        "model.embed_tokens.weight": embedding(space, draw) @ turn,
        "model.norm.weight": torch.ones(plan.width),
        "lm_head.weight": unembedding(space, draw) @ turn,
    }
    built = circuit(plan, space)
    for block in range(plan.layers):
        heads = hidden_heads(plan, block, built, space, draw)
        group = hidden_neurons(plan, block, built, space, draw)
        parts |= {f"model.layers.{block}.{name}": part for name, part in _block(heads, group, turn).items()}
    return {name: part.to(torch.float32).contiguous() for name, part in parts.items()}


class Draw:
    """Everything that a seed decides, in the order in which it is asked."""

    def __init__(self, seed: int):
        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int) -> Tensor:
        """Independent standard normal numbers."""
        return torch.randn(*shape, generator=self._generator, dtype=torch.float64)

    def order(self, count: int) -> list[int]:
        """0 .. count - 1, shuffled."""
        return torch.randperm(count, generator=self._generator).tolist()

    def rotation(self, size: int) -> Tensor:
        """An orthogonal matrix ``[size, size]``, uniformly: QR of a normal one, with the signs that make it unique."""
        q, r = torch.linalg.qr(self.normal(size, size))
        return q * r.diagonal().sign()


def embedding(space: Space, draw: Draw) -> Tensor:
    """Rows ``[V, d]``: the carrier, what the token is, and junk of norm 1."""
    junk = torch.nn.functional.normalize(draw.normal(len(VOCABULARY), len(space["junk"])))
    meaning = torch.stack([sum(_meaning(space, token), space["carrier"][0] * space.amplitude) for token in VOCABULARY])
    return meaning + junk @ space["junk"]


def _meaning(space: Space, token: Token) -> list[Tensor]:
    match token.kind:
        case "word" | "opener":
            return [space["word"][0], space["z at source"][LANGUAGES.index(token.value)]]
        case "label":
            return [space["label"][0], space["label id"][LANGUAGES.index(token.value)]]
        case "symbol":
            return [space["symbol"][0], space["symbol id"][SYMBOLS.index(token.value)]]
        case "keyword":
            return [space["keyword"][0], space["arm at source"][ARMS.index(token.value)]]
        case "bos" | "question":
            return [space[token.kind][0]]
    return []


def unembedding(space: Space, draw: Draw) -> Tensor:
    """Rows ``[V, d]``: what an answer is read from, and noise, about one logit each from junk and from the carrier.

    Without noise all other tokens tie, and a rank that counts tokens strictly above calls any of them visible.
    """
    noise = draw.normal(len(VOCABULARY), len(space["junk"])) @ space["junk"]
    noise += draw.normal(len(VOCABULARY), 1) * space.one
    for row, token in zip(noise, VOCABULARY, strict=True):
        row += _reading(space, token)
    return noise


def _reading(space: Space, token: Token) -> Tensor:
    """Only words with their leading space are answers."""
    if token.text.startswith(" "):
        match token.kind:
            case "label":
                return LABEL * space["readable"][LANGUAGES.index(token.value)]
            case "symbol":
                return SYMBOL * space["answer symbol"][SYMBOLS.index(token.value)]
            case "verdict":
                return OTHER * space["answer yes or no"][VERDICTS.index(token.value)]
            case "opener":
                return OTHER * space["answer opener"][LANGUAGES.index(token.value)]
    return torch.zeros(space.width, dtype=torch.float64)


def hidden_heads(plan: Plan, block: int, built: Circuit, space: Space, draw: Draw) -> list[Head]:
    """The heads of a block: its part of the circuit at places that the plan or the seed chooses, spare ones elsewhere.

    A planted head has the rows of the spare one whose place it takes wherever it needs none itself, so that no row of
    zeros gives it away. Values are rotated within each head, queries and keys together within each rotary pair: nothing
    changes by that.
    """
    heads = [spare_head(plan, space, draw) for _ in range(plan.heads)]
    for place, head in _placed(plan, block, built.heads.get(block, {}), draw).items():
        _fill(head, heads[place])
        heads[place] = head
    for head in heads:
        _turn_values(head, draw.rotation(plan.head_width))
        _turn_pairs(head, 2 * math.pi * draw.normal(plan.head_width // 2))
    return heads


def _placed(plan: Plan, block: int, own: Mapping[str, Head], draw: Draw) -> dict[int, Head]:
    chosen = {"gather": (plan.block, "gather"), "gate": (COPY, "copy")}[plan.variant]
    places = draw.order(plan.heads)
    if block == chosen[0]:
        places.remove(plan.head)
    return {plan.head if (block, name) == chosen else places.pop(): head for name, head in own.items()}


def spare_head(plan: Plan, space: Space, draw: Draw) -> Head:
    """Attends at random by junk, with scores of about 1, and moves a little junk."""
    head, junk = Head(space, plan.head_width), space["junk"]
    size, width = len(junk), plan.head_width
    head.query, head.key = (draw.normal(width, size) @ junk for _ in range(2))
    head.value = draw.normal(width, size) @ junk / math.sqrt(width)
    head.output = junk.T @ draw.normal(size, width) * SPARE / math.sqrt(size * plan.heads)
    return head


def _fill(head: Head, spare: Head) -> None:
    """Give the rotary pairs that a head does not use those of a spare one: scores of about 1, beside its own of 20 to
    60."""
    used = (head.query.any(1) | head.key.any(1)).view(2, -1).any(0).repeat(2)
    for name in ("query", "key"):
        setattr(head, name, torch.where(used[:, None], getattr(head, name), getattr(spare, name)))


def hidden_neurons(plan: Plan, block: int, built: Circuit, space: Space, draw: Draw) -> Neurons:
    """The neurons of a block: its part of the circuit and spare ones, shuffled."""
    groups = built.neurons.get(block, [])
    groups = [*groups, spare_neurons(plan.neurons - sum(len(group.gate) for group in groups), space, draw)]
    order = draw.order(plan.neurons)
    gate, up = (torch.cat([getattr(group, name) for group in groups])[order] for name in ("gate", "up"))
    return Neurons(gate, up, torch.cat([group.down for group in groups], 1)[:, order])


def spare_neurons(count: int, space: Space, draw: Draw) -> Neurons:
    """Open at random by junk, pass a constant, and write a little junk."""
    junk = space["junk"]
    down = junk.T @ draw.normal(len(junk), count) * SPARE / math.sqrt(len(junk) * max(count, 1))
    return Neurons(draw.normal(count, len(junk)) @ junk, space.one.expand(count, -1), down)


def _turn_values(head: Head, rotation: Tensor) -> None:
    head.value, head.output = rotation @ head.value, head.output @ rotation.T


def _turn_pairs(head: Head, angles: Tensor) -> None:
    """Turn each rotary pair (i, i + width / 2) of queries and keys by an angle of its own."""
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    for name in ("query", "key"):
        first, second = getattr(head, name).chunk(2)
        setattr(head, name, torch.cat((cos * first - sin * second, sin * first + cos * second)))


def _block(heads: list[Head], group: Neurons, turn: Tensor) -> dict[str, Tensor]:
    """A block's part of the state dict, in the rotated basis."""
    width = len(turn)
    return {
        "self_attn.q_proj.weight": torch.cat([head.query for head in heads]) @ turn,
        "self_attn.k_proj.weight": torch.cat([head.key for head in heads]) @ turn,
        "self_attn.v_proj.weight": torch.cat([head.value for head in heads]) @ turn,
        "self_attn.o_proj.weight": turn.T @ torch.cat([head.output for head in heads], 1),
        "mlp.gate_proj.weight": group.gate @ turn,
        "mlp.up_proj.weight": group.up @ turn,
        "mlp.down_proj.weight": turn.T @ group.down,
        "input_layernorm.weight": torch.ones(width),
        "post_attention_layernorm.weight": torch.ones(width),
    }
