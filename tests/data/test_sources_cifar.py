import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from moso.data.dataset import open_dataset
from moso.data.sources.plain_pickle import read_plain_pickle
from moso.errors import MosoError
from refusals import refusal


def python2_pickle(content: dict[bytes, object]) -> bytes:
    """As Python 2 and the numpy of 2009 wrote the official files: protocol 2, byte strings, `numpy.core`."""
    parts = [b"\x80\x02}("]

    def put(value: object) -> None:
        if isinstance(value, bytes):
            parts.append(b"T" + len(value).to_bytes(4, "little") + value)
        elif isinstance(value, int):
            parts.append(b"J" + value.to_bytes(4, "little", signed=True))
        elif isinstance(value, list):
            parts.append(b"](")
            for item in value:
                put(item)
            parts.append(b"e")
        elif isinstance(value, np.ndarray):
            parts.append(b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR(K\x01(")
            for size in value.shape:
                put(size)
            parts.append(
                b"tcnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
            )
            put(value.tobytes())
            parts.append(b"tb")
        else:
            raise TypeError(value)

    for name, value in content.items():
        put(name)
        put(value)
    return b"".join([*parts, b"u."])


def pixels(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


@pytest.fixture
def cifar10(tmp_path: Path) -> Path:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for number in range(1, 6):
        batch = {b"batch_label": b"training batch", b"labels": list(range(10)), b"data": pixels(10, number)}
        (folder / f"data_batch_{number}").write_bytes(python2_pickle(batch))
    (folder / "test_batch").write_bytes(python2_pickle({b"labels": list(range(10)), b"data": pixels(10, 9)}))
    (folder / "batches.meta").write_bytes(
        python2_pickle({b"label_names": [f"class {c}".encode() for c in range(10)], b"num_vis": 3072})
    )
    return folder


@pytest.fixture
def cifar100(tmp_path: Path) -> Path:
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    for split, count in (("train", 200), ("test", 100)):
        labels = [i % 100 for i in range(count)]
        content = {b"fine_labels": labels, b"coarse_labels": [c // 5 for c in labels], b"data": pixels(count, count)}
        (folder / split).write_bytes(python2_pickle(content))
    names = {b"fine_label_names": [f"fine {c}".encode() for c in range(100)], b"coarse_label_names": [b"x"] * 20}
    (folder / "meta").write_bytes(python2_pickle(names))
    return folder


def test_the_oracle_writes_what_pythons_own_unpickler_reads(tmp_path: Path):
    content = {b"labels": [3, 1], b"data": pixels(2, 0)}
    own = pickle.loads(python2_pickle(content), encoding="bytes")  # noqa: S301 - written two lines above
    (tmp_path / "batch").write_bytes(python2_pickle(content))
    ours = read_plain_pickle(tmp_path / "batch")
    assert ours[b"labels"] == own[b"labels"]
    assert np.array_equal(ours[b"data"], own[b"data"])
    assert ours[b"data"].dtype == np.uint8


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_of_every_protocol_are_read(tmp_path: Path, protocol: int):
    data = pixels(3, 1)
    (tmp_path / "batch").write_bytes(pickle.dumps({"data": data, "fortran": np.asfortranarray(data)}, protocol))
    ours = read_plain_pickle(tmp_path / "batch")
    assert all(np.array_equal(array, data) for array in ours.values())
    assert len(ours) == 2


@pytest.mark.parametrize("below", [True, False])
def test_cifar10_is_read_in_the_official_order(cifar10: Path, below: bool):
    data = open_dataset(f"cifar10:{cifar10 if below else cifar10.parent}")
    assert (len(data.train), len(data.test), data.train.shape) == (50, 10, (3, 32, 32))
    assert data.train.classes[3] == "class 3"
    assert data.train.ids.to_pylist() == list(range(50))
    assert np.array_equal(data.train.reader.read(np.array([23]))[0].reshape(-1), pixels(10, 3)[3])


def test_cifar100_has_its_fine_labels(cifar100: Path):
    data = open_dataset(f"cifar100:{cifar100}")
    assert (len(data.train), len(data.test), len(data.train.classes)) == (200, 100, 100)
    assert data.train.labels[150] == 50
    assert data.train.classes[50] == "fine 50"


def test_without_a_path_the_data_folders_are_searched(cifar100: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("MOSO_DATA", str(cifar100.parent))
    assert len(open_dataset("cifar100").train) == 200
    monkeypatch.delenv("MOSO_DATA")
    monkeypatch.chdir(tmp_path)
    with refusal("file-missing", 100):
        open_dataset("cifar100")
    (tmp_path / "data").symlink_to(tmp_path)
    assert len(open_dataset("cifar100").train) == 200


class Hostile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_hostile_pickle_is_refused_and_nothing_runs(cifar10: Path, tmp_path: Path, protocol: int):
    trace = tmp_path / "it-ran"
    (cifar10 / "data_batch_3").write_bytes(pickle.dumps({b"data": Hostile(trace)}, protocol))
    with refusal("file-unsafe", "data_batch_3"):
        open_dataset(f"cifar10:{cifar10}")
    assert not trace.exists()


@pytest.mark.parametrize(
    "opcodes",
    [
        b"cbuiltins\neval\n(U\x0b__import__)tR.",
        b"cnumpy\nload\n(U\x01xtR.",
        b"cnumpy.core.multiarray\nscalar\n(tR.",
        b"ccopyreg\n_reconstructor\n(tR.",
        b"(U\x04exitibuiltins\nexit\n.",
        b"\x82\x01.",  # the extension registry
        b"Pid\n.",  # a persistent id
        b"cnumpy\ndtype\n}U\x04codeU\x01xsb.",  # setting an attribute of a stand-in
        b"cnumpy\nndarray\n)\x81.",  # instantiating one
    ],
)
def test_no_other_global_is_reachable(tmp_path: Path, opcodes: bytes):
    (tmp_path / "batch").write_bytes(b"\x80\x02" + opcodes)
    with pytest.raises(MosoError) as caught:
        read_plain_pickle(tmp_path / "batch")
    assert caught.value.code in ("file-unsafe", "file-unreadable")


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x80\x02]q\x00(K\x01", b"\x80\x05\x95\xff\xff\xff\xff"])
def test_garbage_is_one_sentence(cifar10: Path, content: bytes):
    (cifar10 / "data_batch_2").write_bytes(content)
    with refusal("file-unreadable", "data_batch_2"):
        open_dataset(f"cifar10:{cifar10}")


def test_a_truncated_batch_is_one_sentence_wherever_it_ends(cifar10: Path):
    file = cifar10 / "data_batch_2"
    whole = file.read_bytes()
    for share in (0.01, 0.5, 0.99):
        file.write_bytes(whole[: int(len(whole) * share)])
        with refusal("file-unreadable", "data_batch_2"):
            open_dataset(f"cifar10:{cifar10}")


def test_what_is_not_cifar_is_told(cifar10: Path, tmp_path: Path):
    (cifar10 / "test_batch").write_bytes(pickle.dumps({b"labels": [1]}))
    with refusal("file-unreadable", "data"):
        open_dataset(f"cifar10:{cifar10}")
    (cifar10 / "test_batch").write_bytes(pickle.dumps({b"labels": [1], b"data": np.zeros((2, 3072), np.uint8)}))
    with refusal("file-unreadable", 1):
        open_dataset(f"cifar10:{cifar10}")
    (cifar10 / "data_batch_4").unlink()
    with refusal("file-unreadable", "data_batch_4"):
        open_dataset(f"cifar10:{cifar10}")
    with refusal("file-missing"):
        open_dataset(f"cifar10:{tmp_path / 'nowhere'}")
