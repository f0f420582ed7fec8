"""Numbers to predict: read from tables, standardised for the network, left alone everywhere else."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from small_pictures import encoded

from moso.data import open_dataset
from moso.data.samples import StoredSamples, UserSamples
from moso.data.sources.registry import open_source
from moso.data.views import as_view
from moso.tasks import Regression, squared_error
from refusals import refusal

PRICES = np.array([100.0, 250.0, 175.0, 320.0, 90.0, 210.0, 300.0, 130.0, 160.0, 280.0])


def table(path, **columns):
    features = {"size": np.arange(10.0), "rooms": np.arange(10) % 3}
    pq.write_table(pa.table({**features, "price": PRICES, **columns}), path)
    return path


def test_a_named_column_is_predicted_and_never_learned_from(tmp_path):
    samples, _ = open_source(f"parquet:{table(tmp_path / 'a.parquet')}?target=price", None, 2**30)
    assert samples.shape == (2,)
    assert samples.classes == ()
    assert samples.labels.tolist() == [0] * 10
    assert samples.task.outputs == 1
    np.testing.assert_array_equal(samples.targets, PRICES.astype(np.float32))


def test_networks_meet_standardised_numbers_and_users_their_own(tmp_path):
    data = open_dataset(f"parquet:{table(tmp_path / 'a.parquet')}?target=price")
    seen = data.train.evaluation_view().batch(np.arange(len(data.train)))[1]
    assert seen.dtype == torch.float32
    assert abs(float(seen.mean())) < 1e-6
    assert float(seen.std(correction=0)) == pytest.approx(1.0, abs=1e-5)
    everything = np.concatenate([data.train.targets, data.test.targets])
    assert sorted(everything.tolist()) == sorted(PRICES.tolist())
    # The test is measured with the ruler of training, whatever its own mean.
    ruler = data.train.targets.mean(), data.train.targets.std()
    np.testing.assert_allclose(data.test.answers, (data.test.targets - ruler[0]) / ruler[1], rtol=1e-4)


def test_several_numbers_a_sample(tmp_path):
    pairs = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(20.0)), 2)
    samples, _ = open_source(f"parquet:{table(tmp_path / 'a.parquet', both=pairs)}?target=both", None, 2**30)
    assert samples.task.outputs == 2
    assert samples.targets.shape == (10, 2)
    assert samples.evaluation_view()[3][1].tolist() == [6.0, 7.0]


def test_pictures_may_have_numbers(tmp_path):
    images = [encoded((number, 0, 0), size=(4, 4)) for number in range(10)]
    pq.write_table(pa.table({"image": images, "age": np.arange(10.0)}), tmp_path / "faces.parquet")
    data = open_dataset(f"parquet:{tmp_path / 'faces.parquet'}?target=age")
    assert data.train.shape == (3, 4, 4)
    assert data.train.take(np.array([1])).targets.shape == (1,)


def test_hugging_face_tables_may_have_numbers(tmp_path):
    datasets = pytest.importorskip("datasets")
    split = datasets.Dataset.from_dict({"x": np.arange(6.0), "y": np.arange(6.0) ** 2})
    datasets.DatasetDict({"train": split, "test": split}).save_to_disk(tmp_path / "saved")
    train, test = open_source(f"hf:{tmp_path / 'saved'}?target=y", None, 2**30)
    assert train.shape == test.shape == (1,)
    assert test.targets.tolist() == [0, 1, 4, 9, 16, 25]


def test_other_targets_are_another_data_set():
    inputs = np.zeros((3, 2), dtype=np.float32)
    one, other = (StoredSamples.from_arrays(inputs, targets, Regression()) for targets in ([1, 2, 3], [1, 2, 4]))
    assert one.fingerprint() != other.fingerprint()
    users = [
        UserSamples([inputs] * 3, [inputs] * 3, Regression(), np.array(targets, dtype=np.float32))
        for targets in ([1, 2, 3], [1, 2, 4])
    ]
    assert users[0].fingerprint() != users[1].fingerprint()


def test_answers_of_ones_own_loss_are_left_as_they_are():
    inputs = np.zeros((3, 2), dtype=np.float32)
    assert as_view((inputs, [0.0, 1.0, 2.0])).batch(np.arange(3))[1].dtype == torch.int64
    assert as_view((inputs, [0.0, 1.0, 2.0]), own_loss=squared_error).batch(np.arange(3))[1].dtype == torch.float32
    assert as_view((inputs, [0, 1, 2]), own_loss=squared_error).batch(np.arange(3))[1].dtype == torch.int64


@pytest.mark.parametrize(
    ("options", "columns", "told"),
    [
        ("?target=cost", {}, ("column-missing", "cost")),
        ("?target=name", {"name": list("abcdefghij")}, ("column-type", "name", "a.parquet")),
        ("?target=gap", {"gap": [None, *range(9)]}, ("values-not-finite", "gap", "a.parquet", 0)),
        (
            "?label=price",
            {"price": PRICES + 0.5},
            ("label-invalid", "a.parquet"),
        ),
        ("?target=price&label=rooms", {}, ("settings-conflict", "a.parquet")),
        ("", {}, ("column-missing", "a.parquet", "fine_label")),
    ],
)
def test_bad_targets_get_one_sentence(tmp_path, options, columns, told):
    with refusal(*told):
        open_source(f"parquet:{table(tmp_path / 'a.parquet', **columns)}{options}", None, 2**30)
