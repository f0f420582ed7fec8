"""Near-duplicates, outliers and the map, against brute force in numpy."""

import numpy as np
import pytest

from moso.analysis.feature_map import feature_map
from moso.analysis.neighbourhoods import DUPLICATE, FENCE, NEIGHBOURS, matches_across, neighbourhoods
from moso.analysis.principal_components import principal_components
from moso.selection.feature_rows import Features


def blobs(samples: int, classes: int = 4, width: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, classes, samples)
    return (draw.normal(size=(classes, width)) * 6)[labels] + draw.normal(size=(samples, width)), labels


def planted(samples: int = 300) -> np.ndarray:
    """Rows with three copies of row 5, a near copy of row 9, and row 11 far from everything."""
    rows = blobs(samples)[0]
    rows[[20, 21, 22]] = rows[5]
    rows[30] = rows[9] + 1e-3
    rows[11] = 500.0
    return rows.astype(np.float32)


def brute_force(rows: np.ndarray):
    """The definitions of the module, with a full matrix of distances and groups grown one pair at a time."""
    rows = rows.astype(np.float64)
    distance = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(axis=2))
    np.fill_diagonal(distance, np.inf)
    ascending = np.sort(distance, axis=1)
    within = DUPLICATE * np.median(ascending[:, 0])
    mean = ascending[:, :NEIGHBOURS].mean(axis=1)
    low, high = np.quantile(np.log(mean), [0.25, 0.75])
    groups: list[set[int]] = []
    for a, b in zip(*np.nonzero(distance <= within), strict=True):
        joined = {int(a), int(b)}.union(*(one for one in groups if a in one or b in one))
        groups = [one for one in groups if not one & joined] + [joined]
    return within, mean, mean > np.exp(high + FENCE * (high - low)), groups, distance


def test_neighbourhoods_are_those_of_brute_force():
    rows = planted()
    found = neighbourhoods(Features(rows))
    within, mean, outlier, groups, distance = brute_force(rows)
    assert found.exhaustive
    assert found.duplicate_within == pytest.approx(within)
    assert found.mean_distance == pytest.approx(mean)
    assert found.distance == pytest.approx(distance.min(axis=1))
    assert (found.outlier == outlier).all()
    assert found.outlier[11]
    numbered = [set(np.flatnonzero(found.group == number + 1).tolist()) for number in range(found.groups)]
    assert sorted(map(sorted, numbered)) == sorted(map(sorted, groups))
    assert {5, 20, 21, 22} in numbered
    assert {9, 30} in numbered
    closest = [min(distance[a, b] for a in one for b in one if a != b) for one in numbered]
    assert closest == sorted(closest)


def test_cells_find_what_all_pairs_find():
    pytest.importorskip("faiss")
    rows = planted(3000)
    everything, by_cells = neighbourhoods(Features(rows)), neighbourhoods(Features(rows), exhaustive=500)
    assert not by_cells.exhaustive
    assert (by_cells.group > 0).tolist() == (everything.group > 0).tolist()
    assert (by_cells.outlier == everything.outlier).mean() > 0.99


def test_equal_samples_are_one_group_and_no_outlier():
    found = neighbourhoods(Features(np.ones((12, 3))))
    assert found.groups == 1
    assert (found.group == 1).all()
    assert not found.outlier.any()


def test_matches_across_are_those_of_brute_force():
    train, test = blobs(200, seed=1)[0], blobs(50, seed=2)[0]
    test[[3, 8]] = train[[17, 40]] + 1e-4
    distance = np.sqrt(((test[:, None] - train[None]) ** 2).sum(axis=2))
    within = 0.5
    expected = np.where(distance.min(axis=1) <= within, distance.argmin(axis=1), -1)
    found = matches_across(Features(train), Features(test), within)
    assert found.tolist() == expected.tolist()
    assert found[[3, 8]].tolist() == [17, 40]


def test_principal_components_are_those_of_the_singular_value_decomposition():
    rows = blobs(150)[0].astype(np.float32)
    centred = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    assert np.abs(principal_components(Features(rows), 3)) == pytest.approx(np.abs((left * sizes)[:, :3]), abs=1e-3)


def trustworthiness(rows: np.ndarray, places: np.ndarray, labels: np.ndarray) -> float:
    """The share of samples whose nearest neighbour on the map is of their class."""
    distance = ((places[:, None] - places[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    return float((labels[distance.argmin(axis=1)] == labels).mean())


@pytest.mark.parametrize("landmarks", [1500, 120])
def test_the_map_keeps_neighbourhoods_and_is_the_same_each_time(landmarks):
    rows, labels = blobs(400)
    places = feature_map(Features(rows), landmarks)
    assert places.shape == (400, 2)
    assert places.min() >= 0
    assert places.max() <= 1
    assert trustworthiness(rows, places, labels) > 0.97
    assert (places == feature_map(Features(rows), landmarks)).all()


@pytest.mark.parametrize("rows", [np.ones((40, 3)), np.arange(3.0)[:, None], np.zeros((2, 4))])
def test_features_without_neighbourhoods_still_have_a_map(rows):
    places = feature_map(Features(rows))
    assert places.shape == (len(rows), 2)
    assert np.isfinite(places).all()
