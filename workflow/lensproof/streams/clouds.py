"""Clouds: the states of one layer over many sequences as points, and what geometry alone says of them.

LexFrame, section 4.2, holds the effect of exchanging two states against such distances. Nothing here knows of a
model but :func:`collect`; all else are functions over arrays: ``n`` points of a cloud ``[n, d]``, ``R`` rows that are
compared, computed in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from sklearn.covariance import LedoitWolf
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.errors import LensproofError
from lensproof.streams.trace import residuals

BLOCK = 64
"""Local subspaces made at once."""
SMALLEST = 1e-12
"""A direction with less than this share of the largest variance is rounding: the points do not spread along it."""


def collect(decoder: Decoder, tokens: Tensor, layers: Sequence[int]) -> dict[int, np.ndarray]:
    """Layer -> states ``[N, T, d]`` in float32 of the sequences ``tokens`` ``[N, T]``."""
    found = {layer: np.empty((*tokens.shape, decoder.width), dtype=np.float32) for layer in layers}
    for number, ids in enumerate(tokens):
        states = residuals(decoder, ids[None])[:, 0]
        for layer, kept in found.items():
            kept[number] = states[layer].float().cpu().numpy()
    return found


class Cloud(NamedTuple):
    """The different points among the states of one layer, from position 1 on.

    Position 0 has no prefix and a state like no other. At the embedding all occurrences of a token are one point.
    """

    points: np.ndarray
    """[n, d]."""
    place: np.ndarray
    """[N, T] the point of each state; -1 at position 0."""

    @classmethod
    def of(cls, states: np.ndarray) -> Cloud:
        """Of states ``[N, T, d]``."""
        points, found = np.unique(flat(states), axis=0, return_inverse=True)
        place = np.full(states.shape[:2], -1)
        place[:, 1:] = found.reshape(len(states), -1)
        return cls(points, place)


def flat(states: np.ndarray) -> np.ndarray:
    """States ``[N, T, d]`` from position 1 on, as points ``[N (T - 1), d]``."""
    return states[:, 1:].reshape(-1, states.shape[-1])


class Neighbours(NamedTuple):
    """The nearest other points of each point, nearest first: distances and indices, each ``[n, count]``."""

    distance: np.ndarray
    index: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, count: int) -> Neighbours:
        """By Euclidean distance, among different points ``[n, d]``.

        Raises:
            LensproofError: there are not so many others.
        """
        if len(points) <= count:
            raise LensproofError(
                f"{count} neighbours are asked for, a layer has only {len(points)} different states: raise sequences "
                "or lower neighbours"
            )
        search = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(points)
        return cls(*search.kneighbors())

    def nearest(self, count: int) -> Neighbours:
        """The ``count`` nearest of them."""
        return Neighbours(self.distance[:, :count], self.index[:, :count])


def cosine(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """1 - cos of rows ``[R, d]``: ``[R]``."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    return 1 - (x * y).sum(-1) / (np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1))


def euclidean(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """|x - y| of rows ``[R, d]``: ``[R]``."""
    return np.linalg.norm(x.astype(np.float64) - y, axis=-1)


def mahalanobis(points: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Mahalanobis distance of rows ``[R, d]`` under the covariance of a cloud ``[n, d]``: ``[R]``.

    Chosen: one covariance about one mean, pooled over all documents, shrunk towards a multiple of the identity by
    the share of Ledoit and Wolf (2004).
    """
    precision = LedoitWolf().fit(points.astype(np.float64)).precision_
    gap = x.astype(np.float64) - y
    return np.sqrt(np.einsum("rd,rd->r", gap @ precision, gap).clip(0))


def geodesic(points: np.ndarray, near: Neighbours, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Length of the shortest path between points on the graph of nearest neighbours.

    Two points are joined where either is among the other's neighbours; an edge is as long as their distance.
    Chosen: where the graph is not connected, each part is joined to the point outside it that is nearest to any of
    its own, until it is (Borůvka's step towards the minimum spanning tree), so every distance is finite.

    Args:
        points: the cloud ``[n, d]``.
        near: its neighbours.
        a: indices of points ``[R]``.
        b: of the others ``[R]``.

    Returns:
        ``[R]``.
    """
    starts, row = np.unique(a, return_inverse=True)
    graph = _connected(points, near)
    return dijkstra(graph, directed=False, indices=starts)[row, b]


def _connected(points: np.ndarray, near: Neighbours) -> csr_array:
    count = len(points)
    edges = [np.repeat(np.arange(count), near.index.shape[1]), near.index.ravel(), near.distance.ravel()]
    while True:
        graph = csr_array((edges[2], (edges[0], edges[1])), shape=(count, count))
        parts, part = connected_components(graph, directed=False)
        if parts == 1:
            return graph
        bridges = {_bridge(points, part == number) for number in range(parts)}
        one, other = (np.array(ends) for ends in zip(*sorted(bridges), strict=True))
        lengths = euclidean(points[one], points[other])
        edges = [np.r_[old, new] for old, new in zip(edges, (one, other, lengths), strict=True)]


def _bridge(points: np.ndarray, inside: np.ndarray) -> tuple[int, int]:
    """The nearest two points of which only one is inside, by rising index."""
    (own,), (others,) = np.nonzero(inside), np.nonzero(~inside)
    nearest, distance = pairwise_distances_argmin_min(points[own], points[others])
    best = distance.argmin()
    one, other = sorted((int(own[best]), int(others[nearest[best]])))
    return one, other


def principal_subspace(points: np.ndarray, leading: int) -> np.ndarray:
    """The span of the first principal directions of points about their mean.

    Args:
        points: ``[..., n, d]``, clouds of n points each.
        leading: number of directions, k.

    Returns:
        Orthonormal columns ``[..., d, k]``, the direction of most variance first.

    Raises:
        LensproofError: the points do not spread in so many directions.
    """
    count, width = points.shape[-2:]
    if leading > min(count - 1, width):
        raise LensproofError(f"{count} states of width {width} have no {leading} principal directions: lower leading")
    centred = points.astype(np.float64)
    centred -= centred.mean(axis=-2, keepdims=True)
    across = count < width
    gram = centred @ centred.mT if across else centred.mT @ centred  # the smaller one has the same spectrum
    values, vectors = (part[..., ::-1][..., :leading] for part in np.linalg.eigh(gram))
    if (values[..., -1] <= SMALLEST * values[..., 0]).any():
        raise LensproofError(f"states next to one another spread in fewer than {leading} directions: lower leading")
    return centred.mT @ vectors / np.sqrt(values)[..., None, :] if across else vectors


def subspace_angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One angle between subspaces with orthonormal columns ``[..., d, k]``, in degrees.

    Chosen, of the many that k principal angles allow: the one whose squared cosine is the mean of theirs. It is 0 for
    equal subspaces, 90 for orthogonal ones, and orders pairs as the projection (chordal) distance does.
    """
    shared = np.square(a.mT @ b).sum((-2, -1)) / a.shape[-1]
    return np.degrees(np.arccos(np.sqrt(shared.clip(0, 1))))


def local_angles(points: np.ndarray, near: Neighbours, a: np.ndarray, b: np.ndarray, leading: int) -> np.ndarray:
    """Angle, in degrees, between the principal subspaces of two points' nearest neighbours.

    Args:
        points: the cloud ``[n, d]``.
        near: its neighbours; the point itself is none of them.
        a: indices of points ``[R]``.
        b: of the others ``[R]``.
        leading: principal directions.

    Returns:
        ``[R]``.
    """
    found = np.empty(len(a))
    for start in range(0, len(a), BLOCK):
        rows = slice(start, start + BLOCK)
        one, other = (principal_subspace(points[near.index[ends[rows]]], leading) for ends in (a, b))
        found[rows] = subspace_angle(one, other)
    return found


def energy(directions: np.ndarray, subspace: np.ndarray) -> np.ndarray:
    """Share of the squared length of directions ``[..., C, d]`` inside a subspace ``[..., d, k]``: ``[..., C]``."""
    directions = directions.astype(np.float64)
    return np.square(directions @ subspace).sum(-1) / np.square(directions).sum(-1)
