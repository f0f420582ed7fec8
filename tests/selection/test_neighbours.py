"""Neighbours: exact against all distances, by cells against exact."""

import numpy as np
import pytest

from moso.selection import Features, neighbours
from moso.selection.neighbours import nearest
from refusals import refusal


def all_distances(features):
    far = np.linalg.norm(features[:, None].astype(float) - features[None].astype(float), axis=2)
    np.fill_diagonal(far, np.inf)
    order = np.argsort(far, axis=1)
    return order, np.take_along_axis(far, order, axis=1)


def test_exhaustive_search_is_all_distances_sorted():
    features = np.random.default_rng(0).normal(size=(120, 5)).astype(np.float32)
    order, far = all_distances(features)
    where, distance = nearest(Features(features), 7)
    assert (where == order[:, :7]).all()
    assert np.allclose(distance, far[:, :7], atol=1e-5)


def test_cosines_are_cosines():
    features = np.random.default_rng(0).normal(size=(80, 5)) * np.random.default_rng(1).uniform(1, 9, size=(80, 1))
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    where, cosine = nearest(Features(features), 4, "cosine")
    assert np.allclose(cosine, np.take_along_axis(unit @ unit.T, where, axis=1), atol=1e-5)
    assert (where == all_distances(unit)[0][:, :4]).all()


def test_with_every_cell_visited_the_search_is_exact(monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(neighbours, "CELL", 40)
    features = np.random.default_rng(0).normal(size=(320, 4)).astype(np.float32)  # eight cells, eight probes
    for metric in ("euclidean", "cosine"):
        exact, far = nearest(Features(features), 6, metric)
        where, distance = nearest(Features(features), 6, metric, exact=0)
        assert (where == exact).mean() > 0.999  # float32 may swap two at equal distance
        assert np.allclose(distance, far, atol=1e-3)


def test_few_cells_find_most_neighbours_where_features_cluster(monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(neighbours, "CELL", 32)
    draw = np.random.default_rng(0)
    features = (draw.normal(size=(60, 16)) * 5)[draw.integers(0, 60, 2000)] + draw.normal(size=(2000, 16))
    exact, _ = nearest(Features(features), 10)
    where, distance = nearest(Features(features), 10, exact=0)
    found = np.mean([len(set(one) & set(other)) / 10 for one, other in zip(exact, where, strict=True)])
    assert found > 0.95
    assert (np.diff(distance, axis=1) >= 0).all()
    assert not (where == np.arange(2000)[:, None]).any()
    again, _ = nearest(Features(features), 10, exact=0)
    assert (again == where).all()


def test_copies_of_one_sample_and_lonely_cells_are_no_trouble(monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(neighbours, "CELL", 8)
    monkeypatch.setattr(neighbours, "LARGEST", 16)
    far_out = np.random.default_rng(0).normal(size=(20, 3)) * 100
    features = np.concatenate([np.zeros((200, 3)), far_out])
    where, distance = nearest(Features(features), 12, exact=0)
    assert (where >= 0).all()
    assert not (where == np.arange(220)[:, None]).any()
    assert (distance[:200] < 1e-3).all()
    assert np.isfinite(distance).all()


def test_fewer_others_than_asked_for_are_all_of_them():
    where, _ = nearest(Features([[0.0], [1.0]]), 5)
    assert where.tolist() == [[1], [0]]
    assert nearest(Features([[0.0]]), 5)[0].shape == (1, 0)


def test_large_data_without_faiss_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with refusal("package-missing", "moso-prune[neighbours]"):
        nearest(Features(np.zeros((5, 2))), 2, exact=0)


def test_features_may_be_a_memory_map_and_any_numbers(tmp_path):
    features = np.random.default_rng(0).integers(0, 9, size=(50, 3)).astype(np.float16)
    mapped = np.memmap(tmp_path / "features", dtype=np.float16, mode="w+", shape=features.shape)
    mapped[:] = features
    rows = Features(mapped)
    assert rows.mean() == pytest.approx(features.astype(float).mean(axis=0))
    assert np.concatenate([part for _, part in rows.chunks(7)]).tolist() == features.tolist()
    assert rows.subset(np.array([9, 3])).subset(np.array([1])).take(np.array([0])).tolist() == features[[3]].tolist()
