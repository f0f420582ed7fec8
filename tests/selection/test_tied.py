"""`tied` against its definition read aloud, in any order of the data, and where clusters degenerate."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import moso
from moso.selection.feature_rows import Features
from moso.selection.selectors.tied import cluster_means, clusters_of
from refusals import refusal

COUNT, CLUSTERS = 120, 6


def clustered(seed=0):
    """Rows around six directions, and scores that are a value of the direction and much noise."""
    draw = np.random.default_rng(seed)
    truth = draw.permutation(np.arange(COUNT) % CLUSTERS)
    rows = np.eye(CLUSTERS)[truth] + 0.05 * draw.normal(size=(COUNT, CLUSTERS))
    scores = truth + 3 * draw.normal(size=COUNT)
    return truth, (rows * draw.uniform(0.5, 5, (COUNT, 1))).astype(np.float32), scores


def literal(scores, cluster, members, budget):
    """The definition, sample by sample: highest mean of the cluster first, of equals the higher score."""
    mean = {c: np.mean([scores[z] for z in range(len(scores)) if cluster[z] == c]) for c in set(cluster)}
    ranked = sorted(members, key=lambda z: (-mean[cluster[z]], -scores[z], z))
    return set(ranked[:budget])


def test_clusters_are_the_directions_that_samples_were_drawn_around():
    truth, rows, _ = clustered()
    found = clusters_of(Features(rows), CLUSTERS, np.arange(COUNT, dtype=np.uint64), 0)
    assert adjusted_rand_score(truth, found) == 1


def test_the_clusters_with_the_highest_means_are_kept():
    truth, rows, scores = clustered()
    kept = moso.select(scores, ratio=0.6, selector="tied", features=rows, clusters=CLUSTERS)
    assert set(kept) == literal(scores, truth, range(COUNT), 48)
    assert set(kept) != set(moso.select(scores, ratio=0.6, selector="top"))


@pytest.mark.parametrize("classes", ["balanced", "proportional"])
def test_a_class_keeps_its_own_best_by_means_over_all_classes(classes):
    truth, rows, scores = clustered()
    labels = np.arange(COUNT) % 3
    kept = moso.select(
        scores, ratio=0.5, selector="tied", features=rows, labels=labels, clusters=CLUSTERS, classes=classes
    )
    expected = [literal(scores, truth, np.flatnonzero(labels == one).tolist(), 20) for one in range(3)]
    assert set(kept) == set.union(*expected)


def test_one_cluster_and_a_cluster_per_sample_are_top():
    _, rows, scores = clustered()
    top = moso.select(scores, ratio=0.7, selector="top").tolist()
    for clusters in (1, COUNT):
        assert moso.select(scores, ratio=0.7, selector="tied", features=rows, clusters=clusters).tolist() == top


def test_the_order_of_the_data_does_not_matter():
    _, rows, scores = clustered()
    ids, order = np.array([f"sample-{one:03d}" for one in range(COUNT)]), np.random.default_rng(1).permutation(COUNT)
    told = {"ratio": 0.7, "selector": "tied", "clusters": 9}
    kept = set(ids[moso.select(scores, features=rows, ids=ids, **told)])
    again = moso.select(scores[order], features=rows[order], ids=ids[order], **told)
    assert set(ids[order][again]) == kept


def test_empty_clusters_and_equal_rows_keep_the_budget():
    scores = np.arange(20.0)
    kept = moso.select(scores, ratio=0.5, selector="tied", features=np.ones((20, 3), dtype=np.float32), clusters=4)
    assert kept.tolist() == list(range(10, 20))
    assert cluster_means(np.array([1.0, 2.0]), np.array([3, 0])).tolist() == [1.0, 2.0]


def test_more_clusters_than_samples_leave_every_score_as_it_is():
    _, rows, scores = clustered()
    kept = moso.select(scores, ratio=0.5, selector="tied", features=rows, clusters=500)
    assert kept.tolist() == moso.select(scores, ratio=0.5, selector="top").tolist()


def test_features_that_are_not_numbers_are_one_sentence():
    _, rows, scores = clustered()
    with refusal("values-not-finite"):
        moso.select(scores, ratio=0.5, selector="tied", features=np.where(rows > 4, np.nan, rows), clusters=3)
