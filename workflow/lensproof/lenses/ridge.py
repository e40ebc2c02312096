"""Ridge regression from sums, its strength chosen by two-fold cross-validation.

Outputs a (one or many) are predicted from inputs y as a_mean + G (y - y_mean). The strength comes from the grid
``ridge * trace(Y Y') / d`` of all text, ridge from 1e-7 to 1e3, eight per decade, one for all outputs: the strength
that is tested on the folds is the one that the final fit uses. Sums are in float64.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

RIDGES = torch.logspace(-7, 3, 81, dtype=torch.float64)


@dataclass
class Moments:
    """Sums over positions, in float64, from which any ridge regression of a on y follows.

    ``yy`` ``[d, d]``, ``ay`` ``[d, d]`` (rows a, columns y), ``y``, ``a`` ``[d]``, ``aa`` (sum of squares), ``n``.
    """

    yy: Tensor
    ay: Tensor
    y: Tensor
    a: Tensor
    aa: Tensor
    n: int

    @classmethod
    def of(cls, y: Tensor, a: Tensor) -> Moments:
        """Moments of inputs ``y`` and outputs ``a``, each ``[M, d]``."""
        y, a = y.double(), a.double()
        return cls(y.T @ y, a.T @ y, y.sum(0), a.sum(0), a.square().sum(), len(y))

    def __add__(self, other: Moments) -> Moments:
        return Moments(*(getattr(self, name) + getattr(other, name) for name in ("yy", "ay", "y", "a", "aa", "n")))

    def about(self, y_mean: Tensor, a_mean: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``yy``, ``ay`` and ``aa`` about the given means instead of zero."""
        yy = self.yy - torch.outer(self.y, y_mean) - torch.outer(y_mean, self.y) + self.n * torch.outer(y_mean, y_mean)
        ay = self.ay - torch.outer(self.a, y_mean) - torch.outer(a_mean, self.y) + self.n * torch.outer(a_mean, y_mean)
        aa = self.aa - 2 * self.a @ a_mean + self.n * a_mean @ a_mean
        return yy, ay, aa

    @property
    def means(self) -> tuple[Tensor, Tensor]:
        """Mean input and mean output."""
        return self.y / self.n, self.a / self.n


@dataclass(frozen=True)
class Folds:
    """Two halves of a text, each to predict the other; decomposed once, whatever strengths are tried on them."""

    even: Moments
    odd: Moments

    def solve(self, ridges: Tensor = RIDGES) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Slope, input mean, output mean, chosen ridge and cross-validated unexplained share.

        The ridge has the smallest summed squared error of each fold predicted from the other; the slope is then fitted
        on both folds with it.
        """
        both = self.even + self.odd
        y_mean, a_mean = both.means
        yy, ay, aa = both.about(y_mean, a_mean)
        strengths = ridges.to(yy) * yy.trace() / len(yy)
        one, other = self._held_out
        loss = one.error(strengths) + other.error(strengths)
        best = int(loss.argmin())
        strength = strengths[best]
        slope = torch.linalg.solve(yy + strength * torch.eye(len(yy), dtype=yy.dtype, device=yy.device), ay.T).T
        return slope, y_mean, a_mean, ridges[best].to(yy), loss[best] / aa

    @functools.cached_property
    def _held_out(self) -> tuple[_HeldOut, _HeldOut]:
        return _HeldOut.of(self.even, self.odd), _HeldOut.of(self.odd, self.even)


def solve(even: Moments, odd: Moments, ridges: Tensor = RIDGES) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """As :meth:`Folds.solve`, of folds that are tried once."""
    return Folds(even, odd).solve(ridges)


@dataclass(frozen=True)
class _HeldOut:
    """What the error on one fold of a regression fitted on the other depends on: its strength's weights, and sums.

    ``values`` ``[d]`` and, in the basis of their directions, ``cross`` ``[d]`` and ``gram`` ``[d, d]``; ``aa`` is the
    sum of squares that is to be explained.
    """

    values: Tensor
    cross: Tensor
    gram: Tensor
    aa: Tensor

    @classmethod
    def of(cls, train: Moments, test: Moments) -> _HeldOut:
        means = train.means
        yy, ay, _ = train.about(*means)
        values, basis = torch.linalg.eigh(yy)
        test_yy, test_ay, test_aa = test.about(*means)
        slope = ay @ basis  # G = slope diag(weight) basis'
        cross = ((test_ay @ basis) * slope).sum(0)
        return cls(values, cross, (basis.T @ test_yy @ basis) * (slope.T @ slope), test_aa)

    def error(self, strengths: Tensor) -> Tensor:
        """Summed squared error for every absolute strength."""
        weight = 1 / (self.values.clamp_min(0) + strengths[:, None])
        return self.aa - 2 * weight @ self.cross + ((weight @ self.gram) * weight).sum(-1)
