"""In goes what people have, out goes the same kind; every kind gives the scores that plain arrays give."""

import builtins
import io

import numpy as np
import pandas
import pytest
import torch
from PIL import Image
from small_problems import FAST, NAMES, pictures, table
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset

import moso
from moso.data.given import look_at
from moso.data.given.answer_columns import find_answers
from moso.errors import MosoError
from moso.models.compat import prepare_torchvision


@pytest.fixture(scope="module")
def plain():
    """The result for plain arrays."""
    return moso.prune(table(), keep=24, **FAST)


def rows_of(plain):
    return table()[0][plain.kept], table()[1][plain.kept]


def check(pruned, plain) -> None:
    np.testing.assert_array_equal(pruned.kept, plain.kept)
    np.testing.assert_array_equal(pruned.scores, plain.scores)


def test_numpy_lists_and_tensors(plain):
    rows, labels = table()
    for inputs, answers in ((torch.from_numpy(rows), torch.from_numpy(labels)), (rows.tolist(), labels.tolist())):
        pruned = moso.prune((inputs, answers), keep=24, **FAST)
        check(pruned, plain)
        assert [type(part) for part in pruned.subset] == [type(inputs), type(answers)]
    np.testing.assert_array_equal(plain.subset[0], rows_of(plain)[0])
    np.testing.assert_array_equal(plain.subset[1], rows_of(plain)[1])


def test_scikit_learns_x_and_y(plain):
    from scipy.sparse import csr_matrix

    rows, labels = table()
    frame, series = pandas.DataFrame(rows, index=np.arange(60) + 100), pandas.Series(labels)
    pruned = moso.prune((frame, series), keep=24, **FAST)
    check(pruned, plain)
    assert pruned.subset[0].index.tolist() == (plain.kept + 100).tolist()
    sparse = moso.prune((csr_matrix(rows), labels), keep=24, **FAST)
    check(sparse, plain)
    assert (sparse.subset[0] != csr_matrix(rows_of(plain)[0])).nnz == 0


def test_string_labels(plain):
    names = [NAMES[label] for label in table()[1]]
    pruned = moso.prune((table()[0], names), keep=24, **FAST)
    check(pruned, plain)
    assert pruned.run.task.classes == NAMES
    assert pruned.subset[1] == [names[position] for position in plain.kept]
    with pytest.raises(MosoError) as problem:
        moso.prune((table()[0], names), keep=24, test_set=(table()[0][:3], ["cat", "dog", "cow"]), **FAST)
    assert problem.value.code == "classes-mismatch"


def test_pandas_and_polars_frames(plain):
    polars = pytest.importorskip("polars")
    rows, labels = table()
    columns = {f"x{number}": rows[:, number] for number in range(4)} | {"species": [NAMES[one] for one in labels]}
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns)):
        pruned = moso.prune(frame, labels="species", keep=24, **FAST)
        check(pruned, plain)
        assert type(pruned.subset) is type(frame)
        np.testing.assert_array_equal(np.asarray(pruned.subset["x1"]), rows[plain.kept, 1])
        for wrong, code in ((None, "column-missing"), ("kind", "column-missing")):
            with pytest.raises(MosoError) as problem:
                moso.prune(frame, labels=wrong, keep=24, **FAST)
            assert problem.value.code == code
    categories = pandas.DataFrame(columns).assign(species=lambda one: one["species"].astype("category"))
    check(moso.prune(categories, labels="species", keep=24, **FAST), plain)


def test_a_frame_with_texts_among_numbers_says_which_column():
    frame = pandas.DataFrame({"x": np.arange(9.0), "city": list("abcabcabc"), "label": np.arange(9) % 3})
    with pytest.raises(MosoError, match="city") as problem:
        moso.prune(frame, ratio=0.3, **FAST)
    assert problem.value.code == "column-type"


def test_a_dictionary_of_columns(plain):
    rows, labels = table()
    for columns in ({"x": rows, "label": labels}, {**{f"x{n}": rows[:, n] for n in range(4)}, "label": labels}):
        pruned = moso.prune(columns, keep=24, **FAST)
        check(pruned, plain)
        assert list(pruned.subset) == list(columns)
        np.testing.assert_array_equal(pruned.subset["label"], labels[plain.kept])


def test_items_that_are_dictionaries_under_the_default_loss():
    rows, labels = table()
    items = [
        {"x": torch.from_numpy(row), "label": int(label), "name": "a"} for row, label in zip(rows, labels, strict=True)
    ]
    pairs = moso.prune(TensorDataset(torch.from_numpy(rows), torch.from_numpy(labels)), keep=24, test_set=None, **FAST)
    pruned = moso.prune(items, keep=24, test_set=items[:20], **FAST)
    check(pruned, pairs)
    assert pruned.subset == [items[position] for position in pruned.kept]
    assert {row["method"] for row in pruned.run.evaluation()} == {"full", "moso-rank", "random"}
    network = torch.nn.Linear(4, 3)
    states = [(network.state_dict(), 0.1)]
    expected = moso.score(network, TensorDataset(torch.from_numpy(rows), torch.from_numpy(labels)), states)
    np.testing.assert_array_equal(moso.score(network, items, states), expected)


class TwoInputs(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(4, 3)

    def forward(self, left, right):
        return {"logits": self.head(torch.cat([left, right], dim=1))}


def test_several_entries_are_the_networks_arguments_and_outputs_may_have_logits():
    rows, labels = table()
    items = [
        {"left": torch.from_numpy(row[:2]), "right": torch.from_numpy(row[2:]), "labels": NAMES[label]}
        for row, label in zip(rows, labels, strict=True)
    ]
    network = TwoInputs()
    states = [(network.state_dict(), 0.1)]
    found = moso.score(network, items, states)
    whole = {name.removeprefix("head."): value for name, value in network.state_dict().items()}
    expected = moso.score(torch.nn.Linear(4, 3), table(), [(whole, 0.1)])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)
    pruned = moso.prune(items, keep=24, **{**FAST, "model": TwoInputs, "recipe": "table", "epochs": 2})
    assert len(pruned.subset) == 24
    with pytest.raises(MosoError) as problem:
        moso.prune(items, keep=24, recipe="quick")
    assert problem.value.code == "setting-missing"


# -- Hugging Face --------------------------------------------------------------------------------------------------


def test_hugging_face_tables(plain):
    from datasets import ClassLabel, Dataset, DatasetDict

    rows, labels = table()
    data = Dataset.from_dict({"x": rows.tolist(), "label": labels.tolist()}).cast_column(
        "label", ClassLabel(names=list(NAMES))
    )
    pruned = moso.prune(data, keep=24, **FAST)
    check(pruned, plain)
    assert pruned.run.task.classes == NAMES
    assert isinstance(pruned.subset, Dataset)
    assert pruned.subset["label"][:] == labels[plain.kept].tolist()
    splits = DatasetDict({"train": data, "test": data.select(range(15))})
    proved = moso.prune(splits, keep=24, **FAST)
    assert {row["method"] for row in proved.run.evaluation()} == {"full", "moso-rank", "random"}
    assert isinstance(proved.subset, DatasetDict)
    assert {name: len(split) for name, split in proved.subset.items()} == {"train": 24, "test": 15}


def test_hugging_face_pictures_texts_and_tensors():
    from datasets import Dataset
    from datasets import Image as Encoded

    images, labels = pictures()
    encoded = []
    for image in images:
        file = io.BytesIO()
        Image.fromarray(image.transpose(1, 2, 0)).save(file, "PNG")
        encoded.append({"bytes": file.getvalue(), "path": None})
    data = Dataset.from_dict({"image": encoded, "label": labels.tolist()}).cast_column("image", Encoded())
    expected = moso.prune((images, labels), ratio=0.5, **FAST)
    check(moso.prune(data, ratio=0.5, **FAST), expected)
    texts = Dataset.from_dict({"text": ["good film", "bad film", "a good one"] * 10, "label": [0, 1, 0] * 10})
    pruned = moso.prune(texts, ratio=0.5, epochs=1, time_steps=1, partitions=1)
    assert pruned.run.configuration.model == "bag"
    assert len(pruned.subset) == 15
    rows, labels = table()
    tensors = Dataset.from_dict({"x": rows.tolist(), "label": labels.tolist()}).with_format("torch")
    network = torch.nn.Linear(4, 3)
    states = [(network.state_dict(), 0.1)]
    found = moso.score(network, tensors, states)
    np.testing.assert_allclose(found, moso.score(network, (rows, labels), states), rtol=1e-6)


def test_a_picture_that_is_no_tensor_yet_is_not_scored_by_guessing():
    images, labels = pictures()
    items = [
        (Image.fromarray(image.transpose(1, 2, 0)), int(label)) for image, label in zip(images, labels, strict=True)
    ]
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2))
    with pytest.raises(MosoError) as problem:
        moso.score(network, items, [(network.state_dict(), 0.1)])
    assert problem.value.code == "wrong-type"


# -- datasets ------------------------------------------------------------------------------------------------------


def test_pil_pictures_in_lists_and_datasets():
    images, labels = pictures()
    expected = moso.prune((images, labels), ratio=0.5, **FAST)
    pils = [Image.fromarray(image.transpose(1, 2, 0)) for image in images]
    pruned = moso.prune((pils, labels.tolist()), ratio=0.5, **FAST)
    check(pruned, expected)
    assert pruned.subset[0] == [pils[position] for position in pruned.kept]
    check(moso.prune(list(zip(pils, labels.tolist(), strict=True)), ratio=0.5, **FAST), expected)
    odd = [*pils[:-1], Image.new("RGB", (9, 8))]
    with pytest.raises(MosoError) as problem:
        moso.prune((odd, labels), ratio=0.5, **FAST)
    assert problem.value.code == "shape-mismatch"


def test_an_image_folder_of_torchvision(tmp_path):
    prepare_torchvision()
    from torchvision.datasets import ImageFolder

    images, labels = pictures()
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        (tmp_path / NAMES[label]).mkdir(exist_ok=True)
        Image.fromarray(image.transpose(1, 2, 0)).save(tmp_path / NAMES[label] / f"{number:03d}.png")
    folder = ImageFolder(str(tmp_path))
    pruned = moso.prune(folder, ratio=0.5, **FAST)
    assert pruned.run.task.classes == ("cat", "dog")
    assert isinstance(pruned.subset, Subset)
    assert pruned.subset.dataset is folder
    order = np.argsort(labels, kind="stable")
    check(pruned, moso.prune((images[order], labels[order]), ratio=0.5, **FAST))


class Counting(Dataset):
    """A dataset that counts how often an item is decoded."""

    def __init__(self, count: int = 60, targets=None) -> None:
        self.rows, self.answers = table(count)
        self.fetched = 0
        if targets is not None:
            self.targets = targets

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, position):
        self.fetched += 1
        return torch.from_numpy(self.rows[position]), int(self.answers[position])


def silent(label, done, total) -> None:
    pass


def test_labels_are_taken_from_a_column_before_items_are_decoded():
    labels = table()[1].tolist()
    kinds = {
        "targets": Counting(targets=labels),
        "a tensor": Counting(targets=torch.tensor(labels)),
        "a subset": Subset(Counting(targets=labels), list(range(0, 60, 2))),
        "two of them": ConcatDataset([Counting(30, labels[:30]), Counting(30, labels[:30])]),
    }
    for name, data in kinds.items():
        expected = [data[position][1] for position in range(len(data))]
        inner = data.datasets if isinstance(data, ConcatDataset) else [getattr(data, "dataset", data)]
        for one in inner:
            one.fetched = 0
        assert find_answers(data, silent) == expected, name
        assert sum(one.fetched for one in inner) <= 10, name


def test_a_column_that_is_not_the_items_labels_is_not_believed():
    said = []
    wrong = Counting(targets=[0] * 60)
    answers = find_answers(wrong, lambda label, done, total: said.append((label, done, total)))
    assert answers == table()[1].tolist()
    assert said[-1] == ("reading labels", 60, 60)
    assert find_answers(Counting(), silent, loader_workers=2) == answers


def test_given_labels_are_what_networks_learn():
    rows, labels = table()
    turned = (labels + 1) % 3
    wanted = moso.prune(TensorDataset(torch.from_numpy(rows), torch.from_numpy(turned)), ratio=0.5, **FAST)
    found = moso.prune(
        TensorDataset(torch.from_numpy(rows), torch.from_numpy(labels)), labels=turned, ratio=0.5, **FAST
    )
    check(found, wanted)
    items = [{"x": torch.from_numpy(row)} for row in rows]
    check(moso.prune(items, labels=[NAMES[one] for one in turned], ratio=0.5, **FAST), wanted)


class Stream(IterableDataset):
    def __init__(self, draws: bool = False) -> None:
        self.draws = draws

    def __iter__(self):
        for row, label in zip(*table(), strict=True):
            yield torch.from_numpy(row) + (torch.rand(4) if self.draws else 0), int(label)


def test_streams_are_read_once_and_come_back_as_streams():
    rows, labels = table()
    expected = moso.prune(TensorDataset(torch.from_numpy(rows), torch.from_numpy(labels)), keep=24, **FAST)
    pruned = moso.prune(Stream(), keep=24, **FAST)
    check(pruned, expected)
    assert isinstance(pruned.subset, IterableDataset)
    assert [label for _, label in pruned.subset] == labels[pruned.kept].tolist()
    with pytest.raises(MosoError) as problem:
        moso.prune(Stream(draws=True), keep=24, **FAST)
    assert problem.value.code == "dataset-random"


# `datasets` copies the tensors of a formatted stream once more in `filter`, and PyTorch advises against it.
@pytest.mark.filterwarnings("ignore:To copy construct from a tensor:UserWarning")
def test_hugging_face_streams():
    from datasets import Dataset, IterableDataset

    rows, labels = table()
    stream = (
        Dataset.from_dict({"x": rows.tolist(), "label": labels.tolist()}).with_format("torch").to_iterable_dataset()
    )
    pruned = moso.prune(stream, keep=24, **FAST)
    assert isinstance(pruned.subset, IterableDataset)
    assert [int(item["label"]) for item in pruned.subset] == labels[pruned.kept].tolist()


def test_a_stream_of_dictionaries_has_names():
    class Named(IterableDataset):
        def __iter__(self):
            for row, label in zip(*table(), strict=True):
                yield {"x": torch.from_numpy(row), "kind": NAMES[label]}

    pruned = moso.prune(Named(), labels="kind", keep=24, **FAST)
    assert pruned.run.task.classes == NAMES
    assert len(list(pruned.subset)) == 24


def test_a_stream_that_does_not_fit_is_refused():
    from moso.data.given.given_streams import from_stream

    with pytest.raises(MosoError) as problem:
        from_stream(Stream(), limit=100)
    assert problem.value.code == "out-of-memory"


def test_collate_and_own_loss_get_items_as_the_dataset_gives_them():
    from datasets import Dataset

    texts = Dataset.from_dict({"text": ["a b", "b", "a a a", "b b"] * 6, "mark": [0, 1, 0, 1] * 6})

    def collate(items):
        counts = torch.tensor([[item["text"].count("a"), item["text"].count("b")] for item in items])
        return {"counts": counts.float(), "mark": torch.tensor([item["mark"] for item in items])}

    def loss(model, batch):
        return torch.nn.functional.cross_entropy(model(batch["counts"]), batch["mark"], reduction="none")

    fast = {"model": lambda: torch.nn.Linear(2, 2), "recipe": "quick", "time_steps": 2, "partitions": 1}
    own = moso.prune(texts, labels="mark", ratio=0.5, loss=loss, collate=collate, **fast)
    default = moso.prune(texts, labels="mark", ratio=0.5, collate=collate, **fast)
    np.testing.assert_allclose(own.scores, default.scores)
    assert isinstance(default.subset, Dataset)


def test_frames_do_not_need_pandas(monkeypatch, plain):
    real = builtins.__import__

    def without(name, *arguments, **keywords):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    assert plain.to_frame().column_names[-1] == "kept"


def test_the_kind_is_said():
    assert look_at(table()).kind == "a pair of arrays"


def test_columns_of_a_test_may_be_in_another_order():
    rows, labels = table()
    columns = {f"x{number}": rows[:, number] for number in range(4)} | {"label": labels}
    turned = dict(reversed(list(columns.items())))
    for kind in (dict, pandas.DataFrame):
        one, other = (
            moso.prune(kind(columns), keep=24, test_set=kind(test), **FAST).run.evaluation()
            for test in (columns, turned)
        )
        assert [row["value"] for row in one] == [row["value"] for row in other]
        with pytest.raises(MosoError) as problem:
            moso.prune(kind(columns), keep=24, test_set=kind({"x0": rows[:, 0], "label": labels}), **FAST)
        assert problem.value.code == "column-missing"
