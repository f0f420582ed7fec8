"""Features of a network: what they are, that a kill changes nothing, and what is refused."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from moso.data import open_dataset
from moso.data.samples import StoredSamples
from moso.embedding import Embedding, embed_samples, find_embedder, write_features_folder, write_rows
from moso.errors import MosoError
from moso.models import Start, build_model


@pytest.fixture
def digits():
    return open_dataset("digits")


@pytest.fixture
def pets(tmp_path):
    """Coloured squares of three classes, 12 for training and 6 for testing."""
    draw = np.random.default_rng(0)
    for split, count in (("train", 4), ("val", 2)):
        for name in ("ant", "bee", "cat"):
            folder = tmp_path / "pets" / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = draw.integers(0, 255, (16, 16, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(folder / f"{name}{number}.png")
    return tmp_path / "pets"


def test_features_are_the_inputs_of_the_classifier(digits, tmp_path):
    embedder = find_embedder("convnet-w4", digits.train)
    rows = embed_samples(tmp_path / "a.npy", digits.train, embedder, Embedding("float32", 100))
    model = build_model("convnet-w4", digits.train.shape, 2, 0).eval()
    inputs, _ = digits.train.evaluation_view().batch(np.arange(50))
    with torch.no_grad():
        model.classifier = torch.nn.Identity()
        torch.testing.assert_close(torch.from_numpy(rows[:50].copy()), model(inputs), rtol=1e-4, atol=1e-5)


def test_pretrained_networks_get_the_size_and_normalisation_they_were_trained_with(tmp_path):
    model = build_model("timm:mobilenetv3_small_050", (3, 112, 112), 5, 3)
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    pixels = np.random.default_rng(0).integers(0, 255, (3, 3, 32, 32)).astype(np.uint8)
    samples = StoredSamples.from_arrays(pixels, [0, 1, 0])
    embedder = find_embedder("timm:mobilenetv3_small_050", samples, Start(weights=str(tmp_path / "w.safetensors")))
    assert embedder.side == 112  # half of 224, because the images are small
    rows = embed_samples(tmp_path / "a.npy", samples, embedder, Embedding("float32"))
    images = torch.from_numpy(pixels).float() / 255
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    images = (images - mean.view(1, 3, 1, 1)) / deviation.view(1, 3, 1, 1)
    images = torch.nn.functional.interpolate(images, size=(112, 112), mode="bicubic", antialias=True)
    model.eval().reset_classifier(0)
    with torch.no_grad():
        expected = model(images)
    torch.testing.assert_close(torch.from_numpy(rows.copy()), expected, rtol=1e-3, atol=1e-4)


def test_rows_do_not_depend_on_batches_beyond_rounding(digits, tmp_path):
    embedder = find_embedder("convnet-w4", digits.train)
    few = embed_samples(tmp_path / "a.npy", digits.train, embedder, Embedding("float32", 7))
    many = embed_samples(tmp_path / "b.npy", digits.train, embedder, Embedding("float32", 512))
    np.testing.assert_allclose(few, many, atol=1e-5)


def stopping(after):
    """Return a function that computes rows and is interrupted after some batches."""
    done = []

    def compute(batch):
        if len(done) == after:
            raise KeyboardInterrupt
        done.append(len(batch))
        return np.cumsum(batch, axis=1, dtype=np.float32)

    return compute


@pytest.mark.parametrize("after", [0, 1, 3, 6])
def test_what_was_interrupted_has_the_bytes_of_what_was_not(tmp_path, after, monkeypatch):
    monkeypatch.setattr("moso.embedding.rows._SAVED_EVERY", 0.0)
    data = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)

    def batches(plan):
        return (data[positions] for positions in plan)

    write_rows(tmp_path / "whole.npy", 50, batches, stopping(None), batch_size=8)
    with pytest.raises(KeyboardInterrupt):
        write_rows(tmp_path / "cut.npy", 50, batches, stopping(after), batch_size=8)
    assert not (tmp_path / "cut.npy").exists()
    # Another batch size is asked for now; the rows that are there decide.
    write_rows(tmp_path / "cut.npy", 50, batches, stopping(None), batch_size=8 if after == 0 else 16)
    assert (tmp_path / "cut.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_rows_of_other_settings_are_not_gone_on_with(tmp_path, monkeypatch):
    monkeypatch.setattr("moso.embedding.rows._SAVED_EVERY", 0.0)
    data = np.ones((20, 2), np.float32)

    def batches(plan):
        return (data[positions] for positions in plan)

    with pytest.raises(KeyboardInterrupt):
        write_rows(tmp_path / "a.npy", 20, batches, stopping(1), batch_size=5, decided_by={"network": "one"})
    write_rows(
        tmp_path / "a.npy", 20, batches, lambda batch: 3 * batch, batch_size=5, decided_by={"network": "another"}
    )
    assert (np.load(tmp_path / "a.npy") == 3).all()


def test_batches_shrink_where_memory_runs_out(tmp_path):
    sizes = []

    def compute(batch):
        sizes.append(len(batch))
        if len(batch) > 4:
            raise torch.OutOfMemoryError("full")
        return batch

    data = np.ones((10, 2), np.float32)
    write_rows(tmp_path / "a.npy", 10, lambda plan: (data[one] for one in plan), compute, batch_size=16)
    assert sizes[0] == 10
    assert (np.load(tmp_path / "a.npy") == 1).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e6])
def test_features_that_are_no_numbers_are_refused(tmp_path, value):
    data = np.ones((10, 2), np.float32)
    data[7, 1] = value
    with pytest.raises(MosoError) as caught:
        write_rows(tmp_path / "a.npy", 10, lambda plan: (data[one] for one in plan), lambda batch: batch)
    assert caught.value.code == "values-not-finite"
    assert "sample 7" in str(caught.value)


def test_the_folder_is_a_data_set_with_its_pictures(pets, tmp_path):
    data = open_dataset(f"folder:{pets}")
    out = tmp_path / "features"
    done = write_features_folder(out, data, find_embedder("convnet-w4", data.train))
    assert (done.samples, done.width) == ({"train": 12, "test": 6}, 8)
    again = open_dataset(f"features:{out}")
    assert again.train.ids.equals(data.train.ids)
    assert again.train.classes == data.train.classes
    assert again.train.labels.tolist() == data.train.labels.tolist()
    assert json.loads((out / "features.json").read_text())["dataset"] == f"folder:{pets}"
    before = (out / "train.npy").stat().st_mtime_ns
    write_features_folder(out, data, find_embedder("convnet-w4", data.train))
    assert (out / "train.npy").stat().st_mtime_ns == before
    with pytest.raises(MosoError) as caught:
        write_features_folder(out, data, find_embedder("convnet-w8", data.train))
    assert caught.value.code == "output-exists"


def test_a_killed_command_goes_on_and_ends_with_the_same_bytes(tmp_path):
    def command(out, factory):
        arguments = ["embed", "--dataset", "digits", "--network", factory, "--out", str(out), "--batch-size", "16"]
        return [sys.executable, "-m", "moso", *arguments, "--threads", "1", "--quiet"]

    (tmp_path / "slow_net.py").write_text(
        "import os, time\n"
        "from torch import nn\n"
        "import moso.embedding.rows as rows\n"
        "rows._SAVED_EVERY = 0.0\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, num_classes):\n"
        "        super().__init__()\n"
        "        self.hidden, self.fc = nn.Linear(64, 8), nn.Linear(8, num_classes)\n"
        "    def forward(self, x):\n"
        "        time.sleep(float(os.environ.get('SLOW', 0)))\n"
        "        return self.fc(self.hidden(x.flatten(1)).tanh())\n"
    )
    import os

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(whole, "slow_net:Net"), cwd=tmp_path, check=True)
    process = subprocess.Popen(command(killed, "slow_net:Net"), cwd=tmp_path, env={**os.environ, "SLOW": "0.05"})
    note = killed / ".train.npy.partial.json"
    deadline = time.monotonic() + 600
    while not note.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert note.exists()
    assert not (killed / "train.npy").exists()
    subprocess.run(command(killed, "slow_net:Net"), cwd=tmp_path, check=True)
    for name in ("train.npy", "test.npy", "train_labels.npy", "features.json"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()


def test_texts_through_a_network_with_its_own_tokeniser(tmp_path, monkeypatch):
    (tmp_path / "text_net.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "class Lengths(nn.Module):\n"
        "    reads_texts = True\n"
        "    def forward(self, texts):\n"
        "        return torch.tensor([[float(len(one)), float(one.count(' '))] for one in texts])\n"
        "def make():\n"
        "    return Lengths()\n"
    )
    rows = "".join(f"{'word ' * number}end\t{number % 2}\n" for number in range(1, 11))
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + rows)
    monkeypatch.chdir(tmp_path)
    data = open_dataset(f"text:{tmp_path / 'train.tsv'}")
    found = embed_samples(tmp_path / "a.npy", data.train, find_embedder("text_net:make", data.train))
    assert [row[1] for row in found.tolist()] == [data.train.text(one).count(" ") for one in range(len(data.train))]


def test_texts_through_a_built_in_network(tmp_path):
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "".join(f"a b {n % 3}\t{n % 2}\n" for n in range(12)))
    data = open_dataset(f"text:{tmp_path / 'train.tsv'}")
    rows = embed_samples(tmp_path / "a.npy", data.train, find_embedder("bag", data.train))
    assert rows.shape == (len(data.train), 64)


def test_a_network_that_is_nothing_but_a_head(digits):
    with pytest.raises(MosoError) as caught:
        find_embedder("torch.nn:LazyLinear", digits.train)
    assert caught.value.code in ("model-unsuitable", "factory-broken")


def test_the_batch_size_of_the_command_is_the_library_s():
    from moso.cli import embed
    from moso.embedding import rows

    assert embed.BATCH == rows.BATCH_SIZE
    assert Path(rows.__file__).exists()
