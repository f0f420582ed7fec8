"""`text:PATH` in all its formats, written again as it was read, and one sentence for everything that is wrong."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moso.data import open_dataset
from moso.data.sources.registry import open_source
from moso.data.sources.text_files import read_records, write_records
from refusals import refusal

QUESTIONS = [
    ("HUM", "desc", "Who was Galileo ?"),
    ("NUM", "dist", "How far is it from Denver to Aspen ?"),
    ("HUM", "ind", 'Who said "I think , therefore I am" ?'),
    ("NUM", "date", "When did Hawaii become a state ?"),
    ("LOC", "other", "Where is the sister\xf0city ?"),
]
LABELS, FINE, TEXTS = zip(*QUESTIONS, strict=True)


def write(file, labels=LABELS, texts=TEXTS):
    """The questions in the format that the file's name says."""
    match file.suffix:
        case ".txt":
            lines = [f"{fine} {text}\t{label}" for label, fine, text in zip(labels, FINE, texts, strict=True)]
            file.write_bytes("\r\n".join(lines).encode())
        case ".label":
            lines = [f"{label}:{fine} {text}\n" for label, fine, text in zip(labels, FINE, texts, strict=True)]
            file.write_bytes("".join(lines).encode("latin-1"))
        case ".csv" | ".tsv":
            mark = "," if file.suffix == ".csv" else "\t"
            quoted = ['"' + text.replace('"', '""') + '"' for text in texts]
            rows = [f"{mark.join(row)}\n" for row in zip(quoted, labels, strict=True)]
            file.write_text(f"text{mark}label\n{''.join(rows)}", encoding="utf-8")
        case ".jsonl":
            rows = [json.dumps({"text": text, "label": label}) for label, text in zip(labels, texts, strict=True)]
            file.write_text("\n".join(rows), encoding="utf-8")
        case ".parquet":
            pq.write_table(pa.table({"text": list(texts), "label": list(labels)}), file)
    return file


def opened(location):
    return open_source(f"text:{location}", None, 2**30)


@pytest.mark.parametrize("suffix", [".txt", ".label", ".csv", ".tsv", ".jsonl", ".parquet"])
def test_every_format_gives_the_same_samples_and_is_written_as_it_was_read(tmp_path, suffix):
    file = write(tmp_path / f"train{suffix}")
    samples, test = opened(file)
    assert test is None
    assert [samples.text(position) for position in range(len(samples))] == list(TEXTS)
    assert samples.classes == ("HUM", "LOC", "NUM")
    assert [samples.classes[label] for label in samples.labels] == list(LABELS)
    assert samples.ids.to_pylist() == [0, 1, 2, 3, 4]
    again = tmp_path / f"again{suffix}"
    write_records(again, (record.values for record in read_records(file)), like=file)
    assert [record.values for record in read_records(again)] == [record.values for record in read_records(file)]
    assert opened(again)[0].fingerprint() == samples.fingerprint()


def test_a_folder_has_both_splits_and_the_test_has_the_classes_of_training(tmp_path):
    write(tmp_path / "train.tsv")
    write(tmp_path / "test.jsonl", labels=["NUM"] * 5)
    train, test = opened(tmp_path)
    assert test.classes == train.classes
    assert test.labels.tolist() == [2] * 5
    write(tmp_path / "test.jsonl", labels=["ENTY"] * 5)
    with refusal("classes-mismatch", "ENTY", "test.jsonl", 3):
        opened(tmp_path)


def test_words_that_only_the_test_has_are_unknown_to_the_data_set(tmp_path):
    write(tmp_path / "train.csv")
    write(tmp_path / "test.csv", texts=["Zyzzyva zyzzyva ?"] * 5)
    data = open_dataset(f"text:{tmp_path}")
    assert data.test.shape == data.train.shape
    assert data.test.vocabulary == data.train.vocabulary
    inputs, label = data.test.evaluation_view()[0]
    assert inputs.tolist()[:3] == [2, 1, 1]
    assert label == 0


def test_a_single_file_is_split_by_the_test_share(tmp_path):
    file = write(tmp_path / "questions.csv")
    data = open_dataset(f"text:{file}", test_share=0.4)
    assert (len(data.train), len(data.test)) == (3, 2)
    assert not set(data.train.ids.to_pylist()) & set(data.test.ids.to_pylist())
    assert [data.test.text(one) for one in range(2)] == [TEXTS[one] for one in data.test.ids.to_pylist()]


def test_columns_can_be_named_and_numbers_predicted(tmp_path):
    file = tmp_path / "prices.csv"
    file.write_text("description,kind,price\nsmall house,a,1.5\nlarge house,b,4\nlarge hut,a,2\n")
    by_kind, _ = opened(f"{file}?text=description&label=kind")
    assert by_kind.classes == ("a", "b")
    priced, _ = opened(f"{file}?text=description&target=price")
    assert priced.classes == ()
    np.testing.assert_array_equal(priced.targets, np.array([1.5, 4, 2], dtype=np.float32))


def test_trec_has_coarse_classes_and_on_request_fine_ones(tmp_path):
    file = write(tmp_path / "train.txt")
    fine, _ = opened(f"{file}?label=fine")
    assert [fine.classes[label] for label in fine.labels] == [f"{a}:{b}" for a, b, _ in QUESTIONS]


def test_class_names_of_hugging_face_are_used(tmp_path):
    described = {"label": {"_type": "ClassLabel", "names": ["bad", "good"]}}
    schema = pa.schema({"text": pa.string(), "label": pa.int64()})
    schema = schema.with_metadata({"huggingface": json.dumps({"info": {"features": described}})})
    pq.write_table(pa.table({"text": ["awful", "fine"], "label": [0, 1]}, schema=schema), tmp_path / "train.parquet")
    assert opened(tmp_path)[0].classes == ("bad", "good")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", b"", ("data-empty", "a.csv")),
        ("a.csv", b"text,label\n", ("data-empty", "a.csv")),
        ("a.csv", b"text,label\nfine,a\nwell\n", ("file-unreadable", "a.csv", 3, 1, 2)),
        ("a.csv", b"text,label\n   ,a\n", ("data-empty", "a.csv", 2)),
        ("a.csv", b"text,label\nfine,\n", ("labels-missing", "a.csv", 2)),
        ("a.csv", b"words,label\nfine,a\n", ("column-missing", "a.csv")),
        ("a.csv", b"text,kind\nfine,a\n", ("column-missing", "fine_label")),
        ("a.csv", b"text,text\nfine,a\n", ("data-ambiguous", "a.csv")),
        ("a.csv", b"text,label\nfine,a\ncaf\xe9,b\n", ("file-unreadable", "a.csv", 3, 8)),
        ("a.tsv", b'text\tlabel\n"so" they said\ta\n', ("file-unreadable", "a.tsv", 2)),
        ("a.jsonl", b'{"text": "fine", "label": "a"}\n{"text"\n', ("file-unreadable", "a.jsonl", 2)),
        ("a.jsonl", b"[1]\n", ("file-unreadable", "a.jsonl", 1)),
        ("a.jsonl", b'{"text": "fine", "label": "a"}\n{"text": "fine"}\n', ("column-missing", 2, "label")),
        ("a.jsonl", b'{"text": 3, "label": "a"}\n', ("column-type", 1, "text", 3)),
        ("a.jsonl", b'{"text": "\\ud800", "label": "a"}\n', ("file-unreadable", 1)),
        (
            "a.jsonl",
            b'{"text": "a", "label": "a"}\n{"text": "b", "label": 1}\n',
            ("label-invalid", "a.jsonl"),
        ),
        ("a.jsonl", b'{"text": "a", "label": 0.5}\n', ("label-invalid", "0.5", 0)),
        ("a.txt", b"Who was Galileo ?\n", ("file-unreadable", "a.txt", 1)),
        ("a.txt", b"HUM:ind Who ?\n\nWho was he ?\n", ("file-unreadable", "a.txt", 3)),
        ("a.parquet", b"nothing", ("file-unreadable", "a.parquet")),
        ("a.doc", b"x", ("file-unreadable", "a.doc")),
    ],
)
def test_bad_files_get_one_sentence_with_file_and_line(tmp_path, name, content, told):
    (tmp_path / name).write_bytes(content)
    with refusal(*told):
        opened(tmp_path / name)


def test_bad_locations_get_one_sentence(tmp_path):
    file = write(tmp_path / "train.csv")
    with refusal("file-missing", "nothing"):
        opened("")
    with refusal("column-missing", "x"):
        opened(f"{file}?label=x")
    with refusal("unknown-name", "image", "target"):
        opened(f"{file}?image=x")
    with refusal("label-invalid", 2, "label", "HUM"):
        opened(f"{file}?target=label")
    with refusal("settings-conflict", "train.csv"):
        opened(f"{file}?target=label&label=text")
    write(tmp_path / "train.tsv")
    with refusal("data-ambiguous", "train.csv", "train.tsv"):
        opened(tmp_path)
    (tmp_path / "empty").mkdir()
    with refusal("split-missing"):
        opened(tmp_path / "empty")
    with refusal("dataset-name-invalid", "train.csv"):
        open_source(str(file), None, 2**30)


@pytest.mark.shared_data
def test_trec_opens(shared_data):
    data = open_dataset(f"text:{shared_data / 'trec'}")
    assert (len(data.train), len(data.test)) == (5369, 500)
    assert data.train.classes == ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
    assert np.bincount(data.train.labels).tolist() == [84, 1148, 1246, 1211, 823, 857]
    assert data.train.text(0) == "Where is the Virtual Desk Reference ?"
    assert data.train.text(488) == "Which city has the oldest relationship as a sister\xf0city with Los Angeles ?"
