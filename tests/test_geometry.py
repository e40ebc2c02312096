"""Point clouds: distances, neighbours, paths and principal subspaces of small clouds worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from models import ARCHITECTURES, tiny, tokens

from lensproof.errors import LensproofError
from lensproof.streams import clouds
from lensproof.streams.clouds import Cloud, Neighbours
from lensproof.streams.trace import residuals


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_states_are_those_of_single_sequences(architecture):
    decoder, ids = tiny(architecture), tokens(3, 12)
    found = clouds.collect(decoder, ids, [0, 2])
    assert list(found) == [0, 2]
    for layer, states in found.items():
        for number in range(3):
            assert np.array_equal(states[number], residuals(decoder, ids[number][None])[layer, 0].numpy())


def test_equal_states_are_one_point_and_position_0_is_none():
    states = np.array([[[9.0, 9], [1, 0], [2, 0]], [[8, 8], [2, 0], [3, 0]]])
    points, place = Cloud.of(states)
    assert points.tolist() == [[1, 0], [2, 0], [3, 0]]
    assert place.tolist() == [[-1, 0, 1], [-1, 1, 2]]
    assert clouds.flat(states).tolist() == [[1, 0], [2, 0], [2, 0], [3, 0]]


def test_nearest_first_and_never_the_point_itself():
    near = Neighbours.of(np.array([[0.0, 0], [1, 0], [3, 0], [7, 0]]), 2)
    assert near.index.tolist() == [[1, 2], [0, 2], [1, 0], [2, 1]]
    assert near.distance.tolist() == [[1, 3], [1, 2], [2, 3], [4, 6]]
    assert near.nearest(1).index.tolist() == [[1], [0], [1], [2]]


def test_more_neighbours_than_points_are_refused():
    with pytest.raises(LensproofError, match="3 neighbours are asked for, a layer has only 3 different states"):
        Neighbours.of(normal(3, 2), 3)


def test_cosine_and_euclidean():
    x, y = np.array([[3.0, 4], [1, 0], [2, 0]]), np.array([[6.0, 8], [0, 2], [-1, 0]])
    assert np.allclose(clouds.cosine(x, y), [0, 1, 2])
    assert np.allclose(clouds.euclidean(x, y), [5, 5**0.5, 3])


# -- Mahalanobis


def test_mahalanobis_counts_each_axis_in_its_own_deviations():
    """Ten thousand times the corners ±2 and ±1 of two axes: variances 2 and 1/2, and hardly anything to shrink."""
    points = np.tile([[2.0, 0], [-2, 0], [0, 1], [0, -1]], (10_000, 1)) + 5
    origin = np.zeros((3, 2))
    found = clouds.mahalanobis(points, origin, np.array([[2.0, 0], [0, 2], [2, 2]]))
    assert np.allclose(found, [2**0.5, 8**0.5, 10**0.5], rtol=1e-4)


def test_mahalanobis_shrinks_as_ledoit_and_wolf_do():
    """Four points, by hand: S = diag(2, 1/2), mean variance 5/4, |S - 5/4|² = 9/8, mean |xx' - S|² / 4 = 17/16, hence
    shrunk by 17/18."""
    points = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    variances = np.array([2, 0.5]) / 18 + 1.25 * 17 / 18
    found = clouds.mahalanobis(points, np.zeros((2, 2)), np.eye(2))
    assert np.allclose(found, variances**-0.5)


def test_mahalanobis_does_not_care_for_turns_of_all_points():
    points, turn = normal(50, 4) * [1, 2, 3, 4], np.linalg.qr(normal(4, 4, seed=1))[0]
    ends = points[:5], points[5:10]
    turned = clouds.mahalanobis(points @ turn, *(part @ turn for part in ends))
    assert np.allclose(turned, clouds.mahalanobis(points, *ends))


# -- paths


def path(points, graph, a, b):
    return clouds.geodesic(points, Neighbours.of(points, graph), np.array(a), np.array(b))


def test_on_a_ring_the_path_goes_the_shorter_way_round():
    angle = 2 * np.pi * np.arange(12) / 12
    ring, chord = np.c_[np.cos(angle), np.sin(angle)], 2 * np.sin(np.pi / 12)
    assert np.allclose(path(ring, 2, [0, 0, 0, 3, 5], [1, 6, 10, 3, 0]), chord * np.array([1, 6, 2, 0, 5]))


def test_with_all_points_joined_the_path_is_the_straight_line():
    points = normal(9, 3)
    a, b = np.arange(8), np.arange(1, 9)
    assert np.allclose(path(points, 8, a, b), clouds.euclidean(points[a], points[b]))


def test_an_edge_joins_both_ways():
    """From 3 the nearest is 1, from 1 it is 0: the edge that 3 asks for serves 1 too."""
    line = np.array([[0.0], [1], [3]])
    assert path(line, 1, [1, 0], [2, 2]).tolist() == [2, 3]


def test_parts_are_joined_by_their_nearest_points():
    """Three pairs: each joins the nearest, so the far ends go through the middle pair."""
    points = np.array([[0.0, 0], [1, 0], [5, 0], [5, 1], [6, 8], [6, 9]])
    near = 1 + 4 + 1 + np.hypot(1, 7)
    assert np.allclose(path(points, 1, [0, 2, 0], [2, 4, 4]), [5, 1 + np.hypot(1, 7), near])


def test_two_parts_that_choose_the_same_bridge_have_it_once():
    points = np.array([[0.0], [1], [4], [5]])
    assert path(points, 1, [0, 1], [3, 2]).tolist() == [5, 3]


# -- subspaces


@pytest.mark.parametrize("count", [5, 200])
def test_principal_directions_of_a_flat_cloud(count):
    """Points in the plane of the first two axes, far from the origin; fewer and more of them than dimensions."""
    points = np.zeros((count, 8))
    points[:, :2] = normal(count, 2) * [10, 1]
    found = clouds.principal_subspace(points + 100, 2)
    assert found.shape == (8, 2)
    assert np.allclose(found.T @ found, np.eye(2))
    assert np.allclose(found[2:], 0)
    centred = points[:, :2] - points[:, :2].mean(0)
    first = np.linalg.svd(centred)[2][0]
    assert np.isclose(abs(found[:2, 0] @ first), 1)


def test_clouds_in_a_batch_are_on_their_own():
    batch = normal(4, 6, 20)
    found = clouds.principal_subspace(batch, 3)
    for points, columns in zip(batch, found, strict=True):
        alone = clouds.principal_subspace(points, 3)
        assert np.allclose(alone @ alone.T, columns @ columns.T)


@pytest.mark.parametrize(
    "points", [normal(3, 8), np.outer(normal(9), normal(4, seed=1)), np.outer(normal(4), normal(9, seed=1))]
)
def test_more_directions_than_the_points_spread_in_are_refused(points):
    with pytest.raises(LensproofError, match="lower leading"):
        clouds.principal_subspace(points, 3)


def plane(*vectors):
    return np.array(vectors, dtype=float).T


@pytest.mark.parametrize(
    ("other", "cosines"),
    [
        (plane([1, 0, 0, 0], [0, 1, 0, 0]), (1, 1)),
        (plane([0, 0, 1, 0], [0, 0, 0, 1]), (0, 0)),
        (plane([1, 0, 0, 0], [0, 0, 1, 0]), (1, 0)),
        (plane([0.8, 0, 0.6, 0], [0, 0.6, 0, 0.8]), (0.8, 0.6)),
    ],
)
def test_angle_of_planes(other, cosines):
    """Its squared cosine is the mean of those of the principal angles, which are known here."""
    basis = plane([1, 0, 0, 0], [0, 1, 0, 0])
    turn = np.linalg.qr(normal(2, 2))[0]  # another basis of the same plane
    expected = np.degrees(np.arccos(np.sqrt(np.mean(np.square(cosines)))))
    assert np.isclose(clouds.subspace_angle(basis, other @ turn), expected, atol=1e-5)


def test_angle_of_lines_is_their_angle():
    slope = np.radians(35)
    assert np.isclose(clouds.subspace_angle(plane([1, 0]), plane([np.cos(slope), np.sin(slope)])), 35)


def test_local_angles_of_an_l_shape():
    """Along each arm the neighbours lie on its line."""
    arm = np.arange(1.0, 9)
    points = np.r_[np.c_[arm * 100, 0 * arm], np.c_[0 * arm, arm * 100 + 2000]]
    near = Neighbours.of(points, 3)
    a, b = np.array([1, 1, 9]), np.array([6, 14, 12])
    assert np.allclose(clouds.local_angles(points, near, a, b, 1), [0, 90, 0], atol=1e-5)


def test_energy_inside_a_plane():
    basis = plane([1, 0, 0], [0, 1, 0])
    directions = np.array([[3.0, 4, 0], [0, 0, 2], [1, 0, 1], [-1, 1, 2**0.5]])
    assert np.allclose(clouds.energy(directions, basis), [1, 0, 0.5, 0.5])


def test_energy_of_a_random_direction_is_the_share_of_dimensions():
    subspace = np.linalg.qr(normal(40, 10))[0]
    assert abs(clouds.energy(normal(20_000, 40, seed=1), subspace).mean() - 0.25) < 0.003
