from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from moso.data.dataset import open_dataset
from refusals import refusal

FITS, STREAMED = 2**30, 100


@pytest.fixture
def broken_folder(class_folder: Path) -> Path:
    """Three broken images: no image at all, a PNG cut off, an empty file."""
    (class_folder / "train" / "bee" / "bee_4.png").write_bytes(b"no image")
    cat = class_folder / "train" / "cat" / "cat_7.png"
    cat.write_bytes(cat.read_bytes()[:50])
    (class_folder / "val" / "cat" / "cat_1.png").write_bytes(b"")
    return class_folder


@pytest.mark.parametrize("memory_limit", [FITS, STREAMED])
def test_broken_images_stop_with_the_first_name_and_the_number_of_all(broken_folder: Path, memory_limit: int):
    with refusal("broken-image", "bee_4.png", "--on-broken"):
        open_dataset(f"folder:{broken_folder}", memory_limit=memory_limit)


@pytest.mark.parametrize("memory_limit", [FITS, STREAMED])
def test_broken_images_are_skipped_with_one_warning_that_names_them(broken_folder: Path, memory_limit: int):
    with pytest.warns(UserWarning, match="left out") as caught:
        data = open_dataset(f"folder:{broken_folder}", on_broken="skip", memory_limit=memory_limit)
    assert len(caught) == 1
    for part in ("3 of 36 images cannot be decoded", "bee_4.png", "cat_7.png", "cat_1.png"):
        assert part in str(caught[0].message)
    assert (len(data.train), len(data.test)) == (28, 5)
    ids = data.train.ids.to_pylist()
    assert "bee/bee_4.png" not in ids
    assert np.bincount(data.train.labels).tolist() == [10, 9, 9]
    # What is left is still itself: the red channel numbers the image.
    reds = data.train.reader.read(np.arange(28))[:, 0, 0, 0]
    assert reds.tolist() == [int(path[8:-4]) for path in ids]


def test_a_jpeg_cut_off_in_the_middle_is_found_before_it_is_skipped(class_folder: Path):
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8))
    victim = class_folder / "train" / "ant" / "ant_9.jpg"
    picture.save(victim, quality=95)
    victim.write_bytes(victim.read_bytes()[:-60])
    with pytest.warns(UserWarning, match="1 of 37 images"):
        data = open_dataset(f"folder:{class_folder}", on_broken="skip", memory_limit=STREAMED)
    assert "ant/ant_9.jpg" not in data.train.ids.to_pylist()


def test_no_image_that_can_be_decoded_is_one_sentence(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.png").write_bytes(b"no image")
    with refusal("broken-image", "x.png"):
        open_dataset(f"folder:{tmp_path}", on_broken="skip")


@pytest.mark.parametrize("memory_limit", [FITS, STREAMED])
def test_unequal_sizes_name_two_images_and_the_way_out(class_folder: Path, make_image, memory_limit: int):
    make_image(class_folder / "train" / "cat" / "wide.png", size=(12, 9))
    told = ("shape-mismatch", "wide.png", "ant_0.png")
    with refusal(*told):
        open_dataset(f"folder:{class_folder}", memory_limit=memory_limit)
    data = open_dataset(f"folder:{class_folder}", memory_limit=memory_limit, resize=6)
    assert data.train.shape == data.test.shape == (3, 6, 6)


def test_splits_of_unequal_size_are_refused(class_folder: Path, make_image):
    for path in (class_folder / "val").rglob("*.png"):
        make_image(path, size=(9, 9))
    with refusal("shape-mismatch", "(3, 8, 8)", "(3, 9, 9)", "resize"):
        open_dataset(f"folder:{class_folder}")


def test_streamed_images_are_those_in_memory(class_folder: Path):
    whole = open_dataset(f"folder:{class_folder}").train
    streamed = open_dataset(f"folder:{class_folder}", memory_limit=STREAMED).train
    assert streamed.evaluation_view().streamed
    assert not whole.evaluation_view().streamed
    assert whole.normalisation == streamed.normalisation
    positions = np.array([3, 29, 0, 14])
    for augmentation in ("none", "crop", "crop-flip", "resized-crop-flip"):
        one, two = (part.training_view(augmentation, 5).batch(positions, epoch=2) for part in (whole, streamed))
        assert one[0].equal(two[0])
        assert one[1].equal(two[1])


def test_images_worth_a_thread_are_decoded_in_order(tmp_path: Path, make_image):
    for number in range(300):
        make_image(tmp_path / "ab"[number % 2] / f"{number:03}.png", (number % 256, 1, 2), size=(64, 64))
    data = open_dataset(f"folder:{tmp_path}", test_share=0)
    reds = data.train.reader.read(np.arange(300))[:, 0, 5, 5]
    assert reds.tolist() == [int(path[2:5]) % 256 for path in data.train.ids.to_pylist()]


def test_moved_data_has_the_same_fingerprint_and_changed_data_another(class_folder: Path, make_image):
    def fingerprints(folder: Path) -> list[str]:
        return [open_dataset(f"folder:{folder}", memory_limit=limit).train.fingerprint() for limit in (FITS, STREAMED)]

    before = fingerprints(class_folder)
    moved = class_folder.rename(class_folder.with_name("elsewhere"))
    assert fingerprints(moved) == before
    make_image(moved / "train" / "ant" / "ant_0.png", (77, 0, 0))
    assert not set(fingerprints(moved)) & set(before)
