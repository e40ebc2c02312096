"""Basis directions: how to move a state so that the model's output moves along one token.

LexFrame, sections 3.1 and 3.2 and appendix A.1. At the output, s_v = W^+ e_v is the d-vector whose logits come closest
to those of token v alone. At a state with Jacobian J = d N(T(x)) / d x, the basis direction of v is

    argmin over delta of |J delta - s_v|^2 + ridge |delta|^2,   ridge = 1e-3 |J' s_v|^2 / |s_v|^2,

found in closed form where J is at hand and many tokens are wanted (:func:`closed_form`), and by 30 steps of LSMR,
which only needs products with J and its transpose, where few are (:func:`lsmr`). The direction for a difference
u - v is the difference of the two directions, each with its own ridge. All in float32 or better.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.checkpoints.anatomy.parts import Linearised

RELATIVE_RIDGE = 1e-3
CUTOFF = 1e-10
STEPS = 30


@dataclass(frozen=True)
class OutputBasis:
    """The output basis s_v = W^+ e_v = (W' W)^+ w_v, through the eigenbasis of W' W in float64.

    ``inverse`` is (W' W)^+ ``[d, d]``, eigenvalues below ``cutoff`` times the largest left out.
    """

    unembedding: Tensor
    inverse: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, decoder: Decoder, cutoff: float = CUTOFF, rows: int = 16384) -> OutputBasis:
        """Of a model; ``rows`` of W are summed at once."""
        weight = decoder.unembedding
        gram = sum(part.double().T @ part.double() for part in weight.split(rows))
        values, vectors = torch.linalg.eigh(gram)
        kept = values > cutoff * values[-1]
        inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
        return cls(weight, inverse)

    def __call__(self, tokens: Tensor) -> Tensor:
        """s_v ``[C, d]`` in float32 of token ids ``[C]``."""
        return (self.unembedding[tokens].double() @ self.inverse).float()


def covectors(decoder: Decoder, tokens: Tensor) -> Tensor:
    """w_v - w_mean ``[C, d]`` in float32 of token ids ``[C]``: what reads a centred coefficient off N(T(x))."""
    return decoder.unembedding[tokens].float() - mean_row(decoder)


def mean_row(decoder: Decoder, rows: int = 1024) -> Tensor:
    """w_mean ``[d]``: the mean of the unembedding's rows, summed in float64, as float32.

    So many ``rows`` are converted at once: they stay in cache, which is ten times as fast as all together.
    """
    weight = decoder.unembedding
    return (sum(part.double().sum(0) for part in weight.split(rows)) / len(weight)).float()


def closed_form(jacobian: Tensor, targets: Tensor, relative_ridge: float = RELATIVE_RIDGE) -> Tensor:
    """Basis directions from explicit Jacobians, by one eigendecomposition of J J' per state, in float64.

    Args:
        jacobian: J ``[R, d, d]``.
        targets: s_v ``[C, d]`` or ``[R, C, d]``.
        relative_ridge: ridge in units of ``|J' s|^2 / |s|^2``.

    Returns:
        ``[R, C, d]`` in float32.
    """
    matrix, target = jacobian.double(), targets.double()
    values, vectors = torch.linalg.eigh(matrix @ matrix.mT)
    pulled = target @ matrix
    ridge = relative_ridge * pulled.square().sum(-1, keepdim=True) / target.square().sum(-1, keepdim=True)
    spread = (target @ vectors) / (values.clamp_min(0).unsqueeze(-2) + ridge)
    return (spread @ vectors.mT @ matrix).float()


def oriented(directions: Tensor, readouts: Tensor) -> Tensor:
    """Directions ``[..., d]``, those turned round along which the coefficient falls that readouts ``[..., d]`` are of;
    one that is orthogonal to its readout stays."""
    rise = (directions.double() * readouts.double()).sum(-1, keepdim=True)
    return torch.where(rise < 0, -directions, directions)


def lsmr(through: Linearised, targets: Tensor, steps: int = STEPS, relative_ridge: float = RELATIVE_RIDGE) -> Tensor:
    """Basis directions by LSMR (Fong and Saunders 2011), every row and direction on its own.

    Args:
        through: J of R rows.
        targets: s_v ``[R, C, d]``.
        steps: iterations.
        relative_ridge: as for :func:`closed_form`.

    Returns:
        ``[R, C, d]`` in float32, or in float64 where the targets are.
    """
    targets = targets if targets.dtype == torch.float64 else targets.float()
    u, beta = _normalised(targets)
    v = through.vjp(u * beta)
    pulled = v.square().sum(-1, keepdim=True)
    damp = (relative_ridge * pulled / targets.square().sum(-1, keepdim=True)).sqrt()
    v, alpha = _normalised(v)
    alpha = alpha / beta  # A' u, with u of length one
    x, h, h_bar = torch.zeros_like(v), v, torch.zeros_like(v)
    zeta_bar, alpha_bar = alpha * beta, alpha
    rho = rho_bar = c_bar = torch.ones_like(alpha)
    s_bar = torch.zeros_like(alpha)
    for _ in range(steps):
        u, beta = _normalised(through.jvp(v) - alpha * u)
        v, alpha = _normalised(through.vjp(u) - beta * v)
        alpha_hat = torch.hypot(alpha_bar, damp)
        rho_old, rho = rho, torch.hypot(alpha_hat, beta)
        c, s = alpha_hat / rho, beta / rho
        theta_new, alpha_bar = s * alpha, c * alpha
        rho_bar_old, theta_bar = rho_bar, s_bar * rho
        rho_temp = c_bar * rho
        rho_bar = torch.hypot(rho_temp, theta_new)
        c_bar, s_bar = rho_temp / rho_bar, theta_new / rho_bar
        zeta, zeta_bar = c_bar * zeta_bar, -s_bar * zeta_bar
        h_bar = h - (theta_bar * rho / (rho_old * rho_bar_old)) * h_bar
        x = x + (zeta / (rho * rho_bar)) * h_bar
        h = v - (theta_new / rho) * h
    return x


def _normalised(x: Tensor) -> tuple[Tensor, Tensor]:
    """Unit vectors and lengths; the zero vector keeps its length zero and stays zero."""
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / length.clamp_min(torch.finfo(x.dtype).tiny), length
