"""`select_stream` says what `select` says, to the sample, without holding the table."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import moso
from moso.selection import select_stream, stream
from refusals import refusal

rows = st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 0.5, 2.0]), st.sampled_from("abc")), min_size=1, max_size=60)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(stream, "_BATCH", 7)


@pytest.mark.parametrize("selector", stream.STREAMED)
@given(rows=rows, ratio=st.floats(0, 0.99), seed=st.integers(0, 99), named=st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_same_samples_stay(selector, rows, ratio, seed, named, tmp_path):
    scores, labels = (np.array(column) for column in zip(*rows, strict=True))
    budget = len(scores) - int(np.floor(ratio * len(scores) + 1e-9))
    assume(selector in ("top", "bottom") or budget >= len(set(labels)))
    ids = np.random.default_rng(seed).permutation(len(scores))
    ids = np.array([f"image-{number}" for number in ids]) if named else ids
    columns = {"id": ids, "score": scores, "label": pa.array(labels).dictionary_encode() if named else labels}
    pq.write_table(pa.table(columns), tmp_path / "scores.parquet", row_group_size=5)
    kept = select_stream(tmp_path / "scores.parquet", ratio=ratio, selector=selector)
    expected = moso.select(scores, ratio=ratio, labels=labels, selector=selector, ids=ids)
    assert kept.tolist() == expected.tolist()
    without = select_stream(tmp_path / "scores.parquet", ratio=ratio, selector=selector, id=None)
    assert without.tolist() == moso.select(scores, ratio=ratio, labels=labels, selector=selector).tolist()


def test_a_folder_is_one_table_in_the_order_of_names(tmp_path):
    scores, labels = np.random.default_rng(0).normal(size=30), np.arange(30) % 4
    for part in range(3):
        own = slice(part * 10, part * 10 + 10)
        table = pa.table({"score": scores[own].astype(np.float32), "label": labels[own]})
        pq.write_table(table, tmp_path / f"part-{part}.parquet")
    kept = select_stream(tmp_path, ratio=0.5, id=None)
    assert kept.tolist() == moso.select(scores.astype(np.float32), ratio=0.5, labels=labels).tolist()


def test_bad_input_is_one_sentence(tmp_path):
    file = tmp_path / "scores.parquet"
    pq.write_table(pa.table({"score": [1.0, float("nan")], "label": [0, None]}), file)
    with refusal("settings-conflict", "d2"):
        select_stream(file, ratio=0.5, selector="d2")
    with refusal("column-missing", "id"):
        select_stream(file, ratio=0.5)
    with refusal("labels-missing", 1):
        select_stream(file, ratio=0.5, id=None)
    with refusal("values-not-finite", 1):
        select_stream(file, ratio=0.5, id=None, selector="top")
    with refusal("file-missing"):
        select_stream(tmp_path / "nothing", ratio=0.5)
