"""`ssp` against its definition, against exhaustive clustering, and the embeddings that it can be given."""

from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.spatial.distance import cdist
from torch import nn

from benchmarks.ssp import NETWORKS, SAMPLES, embedding
from moso.data import open_dataset
from moso.data.views import as_view
from moso.evidence_kinds.given_embedding import pretrained_features, read_embedding
from moso.models.compat import import_timm
from moso.randomness import seeded
from moso.scores import ssp as module
from moso.scores.ssp import find_prototypes, ssp_scores
from refusals import refusal

METRICS = ["cosine", "euclidean"]


def clustered(count=300, clusters=5, dimension=8, seed=0, spread=0.4):
    draw = np.random.default_rng(seed)
    middles = draw.normal(size=(clusters, dimension)) * 3
    return (middles[np.arange(count) % clusters] + spread * draw.normal(size=(count, dimension))).astype(np.float32)


@pytest.mark.parametrize("metric", METRICS)
def test_it_is_the_distance_to_the_nearest_prototype(metric):
    features = clustered()
    prototypes = find_prototypes(features, 5, metric=metric)
    expected = cdist(features.astype(np.float64), prototypes, metric).min(axis=1)
    assert ssp_scores(features, 5, metric=metric) == pytest.approx(expected, abs=1e-5)
    assert ssp_scores(features, 5, metric=metric, keep="near") == pytest.approx(-expected, abs=1e-5)


@pytest.mark.parametrize("metric", METRICS)
def test_prototypes_are_the_middles_of_clusters(metric):
    features = clustered(spread=0.3)
    rows = features / np.linalg.norm(features, axis=1, keepdims=True) if metric == "cosine" else features
    middles = np.stack([rows[np.arange(300) % 5 == c].mean(axis=0) for c in range(5)])
    if metric == "cosine":
        middles /= np.linalg.norm(middles, axis=1, keepdims=True)
    far = cdist(find_prototypes(features, 5, metric=metric), middles)
    assert (far.min(axis=1) < 1e-3).all()
    assert sorted(far.argmin(axis=1)) == list(range(5))


def test_no_other_clustering_of_a_few_points_is_much_better():
    """All ways to deal 8 points into 3 clusters, against the squared distances that k-means makes small."""
    for seed in range(4):
        features = np.random.default_rng(seed).normal(size=(8, 2)).astype(np.float32)
        best = min(
            sum(
                ((features[own] - features[own].mean(axis=0)) ** 2).sum()
                for c in range(3)
                if len(own := np.flatnonzero(np.array(dealt) == c))
            )
            for dealt in product(range(3), repeat=8)
        )
        found = np.square(ssp_scores(features, 3, metric="euclidean")).sum()
        assert best * (1 - 1e-5) <= found < 1.2 * best


def test_what_lies_outside_every_cluster_comes_first():
    typical = ssp_scores(clustered(spread=0.01), 5)
    assert typical.max() < 1e-3
    lonely = np.vstack([clustered(spread=0.01), -clustered(1)])
    assert ssp_scores(lonely, 5).argmax() == 300


@pytest.mark.parametrize("metric", METRICS)
def test_large_data_goes_through_faiss_and_means_the_same(metric, monkeypatch):
    features = clustered(2000, spread=0.6)
    small = ssp_scores(features, 5, metric=metric)
    monkeypatch.setattr(module, "EXACT", 100)
    large = ssp_scores(features, 5, metric=metric)
    assert np.corrcoef(small, large)[0, 1] > 0.99
    monkeypatch.setattr(module, "SAMPLED", 60)
    assert np.corrcoef(small, ssp_scores(features, 5, metric=metric))[0, 1] > 0.98


def test_cosines_do_not_see_lengths():
    features = clustered()
    lengths = np.random.default_rng(1).uniform(0.1, 50, size=(300, 1)).astype(np.float32)
    assert ssp_scores(features * lengths, 5) == pytest.approx(ssp_scores(features, 5), abs=1e-4)


def test_it_is_the_same_every_time_and_whatever_the_memory(tmp_path):
    features = clustered(spread=2.0)
    np.save(tmp_path / "features.npy", features)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    assert np.array_equal(ssp_scores(features, 7, 3), ssp_scores(mapped, 7, 3))
    assert not np.array_equal(ssp_scores(features, 7, 3), ssp_scores(features, 7, 4))


def test_twins_have_one_score_and_more_clusters_than_different_samples_are_no_trouble():
    features = np.repeat(clustered(4, 4), 5, axis=0)
    found = ssp_scores(features, 10)
    assert np.abs(found).max() < 1e-6
    assert ssp_scores(np.zeros((4, 3)), 2).tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("features", "clusters", "told"),
    [
        (np.zeros((3, 2)), 4, ("setting-invalid", 4, 3)),
        (np.zeros((3, 2)), 0, ("setting-invalid", 0, 3)),
        (np.zeros(3), 1, ("shape-mismatch", "(3,)")),
        (np.array([[0.0], [np.nan]]), 1, ("values-not-finite", 1)),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(features, clusters, told):
    with refusal(*told):
        ssp_scores(features, clusters)


def test_without_faiss_large_data_says_what_to_install(monkeypatch):
    monkeypatch.setattr(module, "EXACT", 100)
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with refusal("package-missing", "moso-prune[neighbours]"):
        ssp_scores(clustered(), 5)


def test_own_features_are_read_in_the_order_of_the_ids(tmp_path):
    features, ids = clustered(20), pa.array([f"b/{number}.png" for number in range(20)])
    np.save(tmp_path / "rows.npy", features)
    assert np.array_equal(read_embedding(tmp_path / "rows.npy", ids), features)
    order = np.random.default_rng(0).permutation(20)
    table = {"id": ids.take(pa.array(order)), "features": list(features[order])}
    pq.write_table(pa.table(table), tmp_path / "lists.parquet")
    assert np.array_equal(read_embedding(tmp_path / "lists.parquet", ids), features)
    columns = {f"f{number}": features[order, number] for number in range(8)}
    pq.write_table(pa.table({"id": order.astype(np.int32), **columns}), tmp_path / "columns.parquet")
    assert np.array_equal(read_embedding(tmp_path / "columns.parquet", pa.array(np.arange(20))), features)
    pq.write_table(pa.table({f"f{number}": features[:, number] for number in range(8)}), tmp_path / "plain.parquet")
    assert np.array_equal(read_embedding(tmp_path / "plain.parquet", ids), features)


def test_features_that_do_not_fit_are_refused_in_one_sentence(tmp_path):
    ids = pa.array(np.arange(20))
    np.save(tmp_path / "few.npy", clustered(19))
    np.save(tmp_path / "flat.npy", np.zeros(20))
    np.save(tmp_path / "pickle.npy", np.array([{"a": 1}] * 20), allow_pickle=True)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no more")
    pq.write_table(pa.table({"id": np.arange(1, 21), "x": np.zeros(20)}), tmp_path / "other.parquet")
    pq.write_table(pa.table({"id": np.arange(20)}), tmp_path / "ids.parquet")
    for name, told in {
        "few.npy": ("length-mismatch", 19, 20),
        "flat.npy": ("shape-mismatch", "flat.npy", "(20,)"),
        "pickle.npy": ("file-unreadable",),
        "broken.parquet": ("file-unreadable",),
        "other.parquet": ("sample-unknown", 0),
        "ids.parquet": ("column-missing", "ids.parquet"),
        "missing.npy": ("file-missing", "missing.npy"),
        "words.csv": ("file-unreadable", "words.csv"),
    }.items():
        with refusal(*told):
            read_embedding(tmp_path / name, ids)


def images(count=6, side=8, channels=3):
    draw = np.random.default_rng(0)
    return as_view((draw.integers(0, 255, (count, channels, side, side)).astype(np.uint8), np.arange(count) % 2))


def test_any_network_gives_what_its_classifier_is_given():
    with seeded(0, "test"):
        network = nn.Sequential(
            nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 2)
        )
    found = pretrained_features(network, images(), np.array([4, 1]))
    expected = network.eval()[:4](images().batch(np.array([4, 1]))[0]).detach()
    assert np.allclose(found, expected.numpy(), rtol=1e-5)


def test_networks_of_timm_are_asked_for_their_weights_and_their_size(monkeypatch):
    timm = import_timm()
    create, asked = timm.create_model, []

    def without_fetching(name, pretrained, **given):
        asked.append((name, pretrained))
        with seeded(0, "test"):
            return create(name, pretrained=False, **given)

    monkeypatch.setattr(timm, "create_model", without_fetching)
    found = pretrained_features("timm:resnet18", images(2), np.arange(2), side=32)
    assert asked == [("resnet18", True)]
    assert found.shape == (2, 512)
    seen = []
    monkeypatch.setattr(
        "moso.evidence_kinds.given_embedding.features_of",
        lambda encoder, view, positions, workers: seen.append(encoder[0](view.batch(positions)[0]).shape),
    )
    pretrained_features("timm:resnet18", images(2), np.arange(2))
    assert seen == [torch.Size([2, 3, 224, 224])]


def test_networks_that_cannot_be_had_are_one_sentence(monkeypatch):
    timm = import_timm()

    def no_connection(*given, **named):
        raise OSError("no route to host\nwith details")

    monkeypatch.setattr(timm, "create_model", no_connection)
    with refusal("download-failed"):
        pretrained_features("timm:resnet18", images(), np.arange(2))
    with refusal("unknown-name", "resnet18", "timm.list_pretrained"):
        pretrained_features("resnet18", images(), np.arange(2))
    with refusal("pictures-required", "(4,)"):
        pretrained_features("timm:resnet18", as_view((np.zeros((3, 4)), [0, 1, 0])), np.arange(2))


@pytest.mark.long
@pytest.mark.shared_data
def test_the_embedding_knows_more_of_cifar_100_than_the_untrained_network(shared_data):
    data, name = open_dataset(f"parquet:{shared_data / 'cifar100'}"), "large-stem:resnet18"
    found = embedding(data, name, SAMPLES, NETWORKS[name], seed=0, asked=2000)
    assert found["trained"] > found["untrained"] + 10
