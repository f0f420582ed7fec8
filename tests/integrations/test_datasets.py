"""Scores and selections on Hugging Face datasets: in memory and on the disk."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import moso
from moso.errors import MosoError

datasets = pytest.importorskip("datasets")
from moso.integrations.datasets import kept_rows, with_scores  # noqa: E402

LABELS = load_digits().target[:60]


@pytest.fixture(params=["memory", "disk", "filtered"])
def dataset(request, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    found = datasets.Dataset.from_dict({"number": list(range(60)), "label": LABELS})
    if request.param == "memory":
        return found
    found.save_to_disk(tmp_path / "saved")
    found = datasets.load_from_disk(tmp_path / "saved")
    if request.param == "filtered":  # rows behind a list of indices
        found = datasets.concatenate_datasets([found, found]).filter(lambda row, i: i % 2 == 0, with_indices=True)
    return found


def test_scores_are_a_column_and_kept_rows_a_plain_dataset(dataset):
    scores = np.random.default_rng(0).normal(size=60)
    scored = with_scores(dataset, scores)
    np.testing.assert_array_equal(scored["moso"][:], scores)
    assert scored.features["moso"].dtype == "float64"
    kept = moso.select(scores, ratio=0.5, labels=np.asarray(dataset["label"][:]))
    pruned = kept_rows(scored, kept)
    assert pruned["number"][:] == [dataset["number"][position] for position in kept]
    np.testing.assert_array_equal(pruned["moso"][:], scores[kept])
    assert pruned._indices is None
    assert kept_rows(scored, kept, flatten=False)._indices is not None
    assert pruned.features == scored.features


def test_a_stretch_of_rows_is_a_slice_without_a_copy(dataset):
    pruned = kept_rows(dataset, np.arange(10, 30))
    assert pruned["number"][:] == dataset["number"][10:30]
    assert len(kept_rows(dataset, [])) == 0


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda data: with_scores(data, np.zeros(59)), "length-mismatch"),
        (lambda data: with_scores(data, np.zeros((60, 1))), "length-mismatch"),
        (lambda data: with_scores(data, np.zeros(60), "label"), "name-taken"),
        (lambda data: kept_rows(data, [0, 60]), "sample-unknown"),
        (lambda data: kept_rows(data, [-1]), "sample-unknown"),
        (lambda data: kept_rows(data, [3, 5, 3]), "ids-not-unique"),
        (lambda data: kept_rows(datasets.DatasetDict({"train": data}), [0]), "wrong-type"),
        (lambda data: with_scores(data.to_iterable_dataset(), np.zeros(60)), "wrong-type"),
        (lambda data: with_scores([1, 2], np.zeros(2)), "wrong-type"),
    ],
)
def test_wrong_uses_get_one_sentence(call, code):
    with pytest.raises(MosoError) as caught:
        call(datasets.Dataset.from_dict({"number": list(range(60)), "label": LABELS}))
    assert caught.value.code == code


def test_a_search_index_is_not_left_pointing_at_other_rows():
    pytest.importorskip("faiss")
    data = datasets.Dataset.from_dict({"row": np.eye(4, dtype=np.float32).tolist()}).with_format("numpy")
    data.add_faiss_index("row")
    with pytest.raises(MosoError) as caught:
        kept_rows(data, [0, 2])
    assert caught.value.code == "settings-conflict"
