"""`text:PATH` in all its formats, written again as it was read, and one sentence for everything that is wrong."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moso.data import open_dataset
from moso.data.sources.registry import open_source
from moso.data.sources.text_files import read_records, write_records
from moso.errors import MosoError

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
    with pytest.raises(MosoError, match=r"label 'ENTY' in .*test.jsonl is none of the 3 known classes"):
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
    ("name", "content", "sentence"),
    [
        ("a.csv", b"", r"a.csv holds no texts"),
        ("a.csv", b"text,label\n", r"a.csv holds no texts"),
        ("a.csv", b"text,label\nfine,a\nwell\n", r"a.csv line 3 has 1 cells where the header has 2 \(text, label\)"),
        ("a.csv", b"text,label\n   ,a\n", r"a.csv line 2 has an empty text"),
        ("a.csv", b"text,label\nfine,\n", r"a.csv line 2 has no label"),
        ("a.csv", b"words,label\nfine,a\n", r"has no column text, sentence or question; name one of its columns"),
        ("a.csv", b"text,kind\nfine,a\n", r"has no column label, labels, target or fine_label"),
        ("a.csv", b"text,text\nfine,a\n", r"names a column twice"),
        ("a.csv", b"text,label\nfine,a\ncaf\xe9,b\n", r"a.csv line 3 is not UTF-8 \(it has a byte 0xe9\)"),
        ("a.tsv", b'text\tlabel\n"so" they said\ta\n', r"a.tsv line 2 is not valid"),
        ("a.jsonl", b'{"text": "fine", "label": "a"}\n{"text"\n', r"a.jsonl line 2 is not valid JSON"),
        ("a.jsonl", b"[1]\n", r"a.jsonl line 1 holds a list"),
        ("a.jsonl", b'{"text": "fine", "label": "a"}\n{"text": "fine"}\n', r"line 2 has no 'label', which the first"),
        ("a.jsonl", b'{"text": 3, "label": "a"}\n', r"line 1: 'text' holds 3, not a text"),
        ("a.jsonl", b'{"text": "\\ud800", "label": "a"}\n', r"line 1: the text holds half a character"),
        (
            "a.jsonl",
            b'{"text": "a", "label": "a"}\n{"text": "b", "label": 1}\n',
            r"labels in .* are of different kinds",
        ),
        ("a.jsonl", b'{"text": "a", "label": 0.5}\n', r"0.5 of sample 0 is not a whole number; if they are numbers to"),
        ("a.txt", b"Who was Galileo ?\n", r"a.txt line 1 is not of the form 'fine text<TAB>COARSE' of TREC's"),
        ("a.txt", b"HUM:ind Who ?\n\nWho was he ?\n", r"a.txt line 3 is not of the form 'COARSE:fine text'"),
        ("a.parquet", b"nothing", r"a.parquet is not a readable Parquet file"),
        ("a.doc", b"x", r"a.doc is none of .txt, .label, .csv, .tsv, .jsonl, .parquet"),
    ],
)
def test_bad_files_get_one_sentence_with_file_and_line(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(MosoError, match=sentence):
        opened(tmp_path / name)


def test_bad_locations_get_one_sentence(tmp_path):
    file = write(tmp_path / "train.csv")
    with pytest.raises(MosoError, match="needs a file or folder of texts: 'nothing' is none"):
        opened("")
    with pytest.raises(MosoError, match="has no column 'x'; it has: text, label"):
        opened(f"{file}?label=x")
    with pytest.raises(MosoError, match="unknown option 'image'"):
        opened(f"{file}?image=x")
    with pytest.raises(MosoError, match=r"line 2: 'label' holds 'HUM', not a number to predict"):
        opened(f"{file}?target=label")
    with pytest.raises(MosoError, match="a label and a target"):
        opened(f"{file}?target=label&label=text")
    write(tmp_path / "train.tsv")
    with pytest.raises(MosoError, match=r"holds train.csv and train.tsv; give the file itself"):
        opened(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(MosoError, match=r"holds no file train"):
        opened(tmp_path / "empty")
    with pytest.raises(MosoError, match="say what it holds, for example text:"):
        open_source(str(file), None, 2**30)


@pytest.mark.shared_data
def test_trec_opens(shared_data):
    data = open_dataset(f"text:{shared_data / 'trec'}")
    assert (len(data.train), len(data.test)) == (5369, 500)
    assert data.train.classes == ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
    assert np.bincount(data.train.labels).tolist() == [84, 1148, 1246, 1211, 823, 857]
    assert data.train.text(0) == "Where is the Virtual Desk Reference ?"
    assert data.train.text(488) == "Which city has the oldest relationship as a sister\xf0city with Los Angeles ?"
