from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from moso.data.dataset import open_dataset
from moso.data.partitions import partition
from refusals import refusal


def test_class_folders_with_train_and_val(class_folder: Path):
    data = open_dataset(f"folder:{class_folder}")
    assert data.train.classes == data.test.classes == ("ant", "bee", "cat")
    assert data.train.ids.to_pylist()[:2] == ["ant/ant_0.png", "ant/ant_1.png"]
    assert np.bincount(data.train.labels).tolist() == [10, 10, 10]
    assert np.bincount(data.test.labels).tolist() == [2, 2, 2]
    assert data.train.reader.read(np.array([4]))[0, 0, 0, 0] == 4


@pytest.mark.parametrize("name", ["validation", "test"])
def test_the_test_folder_may_have_other_names(class_folder: Path, name: str):
    (class_folder / "val").rename(class_folder / name)
    assert len(open_dataset(f"folder:{class_folder}").test) == 6


def test_class_folders_alone_are_split_by_id(class_folder: Path):
    data = open_dataset(f"folder:{class_folder / 'train'}")
    assert np.bincount(data.train.labels).tolist() == [8, 8, 8]
    assert np.bincount(data.test.labels).tolist() == [2, 2, 2]


def test_a_class_may_be_called_train(tmp_path: Path, make_image):
    for name in ("bus", "train", "test"):
        for number in range(5):
            make_image(tmp_path / name / f"{number}.png")
    data = open_dataset(f"folder:{tmp_path}")
    assert data.train.classes == ("bus", "test", "train")
    assert len(data.test) == 3


def test_what_is_no_image_by_suffix_is_ignored(class_folder: Path, make_image):
    (class_folder / "train" / "ant" / "notes.txt").write_text("nothing")
    (class_folder / "train" / "ant" / "._ant_0.png").write_bytes(b"left by a desktop")
    (class_folder / "train" / ".cache").mkdir()
    make_image(class_folder / "train" / "ant" / "deep" / "UPPER.JPG")
    ids = open_dataset(f"folder:{class_folder}").train.ids.to_pylist()
    assert len(ids) == 31
    assert "ant/deep/UPPER.JPG" in ids


def test_every_partition_of_a_class_sorted_folder_sees_every_class(class_folder: Path):
    train = open_dataset(f"folder:{class_folder}").train
    for part in partition(train.keys, train.labels, 5, seed=0):
        assert np.bincount(train.labels[part]).tolist() == [2, 2, 2]


def tiny_imagenet(root: Path, make_image) -> Path:
    for name in ("n01", "n02"):
        for number in range(4):
            make_image(root / "train" / name / "images" / f"{name}_{number}.JPEG")
        (root / "train" / name / f"{name}_boxes.txt").write_text("")
    lines = []
    for number in range(4):
        make_image(root / "val" / "images" / f"val_{number}.JPEG")
        lines.append(f"val_{number}.JPEG\tn0{2 - number % 2}\t0\t32\t44\t62\n")
        make_image(root / "test" / "images" / f"test_{number}.JPEG")
    (root / "val" / "val_annotations.txt").write_text("".join(lines))
    return root


def test_tiny_imagenet_as_it_is_distributed(tmp_path: Path, make_image):
    root = tiny_imagenet(tmp_path, make_image)
    (root / "words.txt").write_text("n00\tentity\nn01\tgoldfish, Carassius auratus\nn02\tEuropean fire salamander\n")
    data = open_dataset(f"folder:{root}")
    assert data.train.ids.to_pylist()[0] == "n01/images/n01_0.JPEG"
    assert data.train.classes == ("goldfish", "European fire salamander")
    assert data.test.ids.to_pylist() == [f"images/val_{number}.JPEG" for number in range(4)]
    assert data.test.labels.tolist() == [1, 0, 1, 0]


def test_shared_words_are_told_apart(tmp_path: Path, make_image):
    root = tiny_imagenet(tmp_path, make_image)
    (root / "words.txt").write_text("n01\tcrane\nn02\tcrane, machine\n")
    assert open_dataset(f"folder:{root}").train.classes == ("crane (n01)", "crane (n02)")


@pytest.fixture
def flat(tmp_path: Path, make_image) -> Path:
    """ImageNet-1K in small: three class folders, and five validation images in one folder."""
    for name in ("n01", "n02", "n03"):
        for number in range(3):
            make_image(tmp_path / "train" / name / f"{name}_{number}.JPEG")
    for number in range(1, 6):
        make_image(tmp_path / "val" / f"ILSVRC2012_val_0000000{number}.JPEG")
    return tmp_path


EXPECTED = [2, 0, 1, 2, 0]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("val/val_labels.txt", "ILSVRC2012_val_0000000{number}.JPEG n0{class_number}"),
        ("val_labels.csv", "ILSVRC2012_val_0000000{number}.JPEG,n0{class_number}"),
        ("LOC_val_solution.csv", "ILSVRC2012_val_0000000{number},n0{class_number} 85 1 499 272 n01 3 4 5 6"),
        ("val.txt", "ILSVRC2012_val_0000000{number}.JPEG {index}"),
        ("val/val_labels.txt", "ILSVRC2012_val_0000000{number}.JPEG {class_number}"),
        ("val/my_ground_truth.txt", "{index}"),
        ("val/my_ground_truth.txt", "{class_number}"),
        ("val/my_ground_truth.txt", "n0{class_number}"),
    ],
)
def test_a_flat_val_with_a_label_file(flat: Path, file: str, line: str):
    lines = [
        line.format(number=number, index=index, class_number=index + 1) for number, index in enumerate(EXPECTED, 1)
    ]
    lines = lines if "ground_truth" in file else ["name,label", *reversed(lines)]
    (flat / file).write_text("\n".join(lines) + "\n")
    assert open_dataset(f"folder:{flat}").test.labels.tolist() == EXPECTED


def test_imagenets_own_numbers_follow_its_own_table(flat: Path):
    from scipy.io import savemat

    truth = flat / "val" / "ILSVRC2012_validation_ground_truth.txt"
    truth.write_text("1\n2\n3\n1\n2\n")
    with refusal("file-missing", "ILSVRC2012_validation_ground_truth.txt", "meta.mat"):
        open_dataset(f"folder:{flat}")
    table = np.array(
        [(1, "n03"), (2, "n01"), (3, "n02"), (4, "n99")], dtype=[("ILSVRC2012_ID", object), ("WNID", object)]
    )
    savemat(flat / "val" / "meta.mat", {"synsets": table})
    assert open_dataset(f"folder:{flat}").test.labels.tolist() == EXPECTED


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        (None, "", ("labels-missing", "val_labels.txt")),
        ("val.txt", "ILSVRC2012_val_00000001.JPEG 0\n", ("labels-missing", "ILSVRC2012_val_00000002.JPEG")),
        ("val/ground_truth.txt", "0\n1\n", ("length-mismatch", 2, 5)),
        ("val/ground_truth.txt", "0\n1\n2\n0\n7\n", ("classes-mismatch", 7, 3)),
        ("val/ground_truth.txt", "0\n1\n2\n0\nn77\n", ("classes-mismatch", 0)),
        ("val.txt", "ILSVRC2012_val_00000001.JPEG\n", ("file-unreadable", "val.txt", "ILSVRC2012_val_00000001.JPEG")),
    ],
)
def test_bad_label_files_of_a_flat_val(flat: Path, file: str | None, content: str, told: str):
    if file is not None:
        (flat / file).write_text(content)
    with refusal(*told):
        open_dataset(f"folder:{flat}")


def test_images_of_all_modes_become_rgb(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    Image.new("L", (4, 4), 90).save(tmp_path / "a" / "0-grey.png")
    palette = Image.new("P", (4, 4), 1)
    palette.putpalette([0, 0, 0, 10, 20, 30])
    palette.save(tmp_path / "a" / "1-palette.png")
    palette.save(tmp_path / "a" / "2-transparent-palette.png", transparency=b"\x00\x80")
    Image.new("CMYK", (4, 4), (0, 255, 255, 0)).save(tmp_path / "a" / "3-cmyk.jpg", quality=100)
    Image.new("RGBA", (4, 4), (10, 20, 30, 128)).save(tmp_path / "b" / "0-transparent.png")
    Image.new("LA", (4, 4), (90, 128)).save(tmp_path / "b" / "1-grey-transparent.png")
    Image.new("1", (4, 4), 1).save(tmp_path / "b" / "2-bits.png")
    Image.fromarray(np.full((4, 4), 90 * 256 + 7, dtype=np.uint16)).save(tmp_path / "b" / "3-16-bits.png")
    data = open_dataset(f"folder:{tmp_path}", test_share=0)
    pixels = data.train.reader.read(np.arange(8))
    assert pixels.shape == (8, 3, 4, 4)
    assert pixels[[0, 1, 2, 4, 5, 6, 7], :, 0, 0].tolist() == [
        [90] * 3, [10, 20, 30], [10, 20, 30], [10, 20, 30], [90] * 3, [255] * 3, [90] * 3,
    ]  # fmt: skip
    assert np.abs(pixels[3, :, 0, 0].astype(int) - [255, 0, 0]).max() < 10  # CMYK red, through a JPEG


def test_bad_folders_are_one_sentence(tmp_path: Path, class_folder: Path, make_image):
    (tmp_path / "empty").mkdir()
    (tmp_path / "images-only").mkdir()
    make_image(tmp_path / "images-only" / "a.png")
    for place, told in {
        tmp_path / "nowhere": ("file-missing", "folder", "nowhere"),
        tmp_path / "empty": ("data-empty",),
        tmp_path / "images-only": ("data-empty",),
    }.items():
        with refusal(*told):
            open_dataset(f"folder:{place}")
    (class_folder / "train" / "dog").mkdir()
    with refusal("data-empty"):
        open_dataset(f"folder:{class_folder}")
    (class_folder / "train" / "dog").rmdir()
    make_image(class_folder / "val" / "eel" / "0.png")
    with refusal("classes-mismatch", "eel"):
        open_dataset(f"folder:{class_folder}")


def test_one_class_only_is_refused(tmp_path: Path, make_image):
    for number in range(5):
        make_image(tmp_path / "train" / "ant" / f"{number}.png")
    with refusal("too-few-classes"):
        open_dataset(f"folder:{tmp_path}", test_share=0)


@pytest.mark.shared_data
def test_tiny_imagenet_subset(shared: Path):
    data = open_dataset(f"folder:{shared / 'tiny-imagenet-subset'}")
    assert (len(data.train), len(data.test), len(data.train.classes)) == (10_000, 2_500, 50)
    assert data.train.shape == data.test.shape == (3, 64, 64)
    assert np.bincount(data.train.labels).tolist() == [200] * 50
    position, grey = first_grey(shared / "tiny-imagenet-subset" / "train", data.train.ids.to_pylist())
    assert np.array_equal(data.train.reader.read(np.array([position]))[0], np.stack([grey] * 3))


def first_grey(root: Path, paths: list[str]) -> tuple[int, np.ndarray]:
    for position, path in enumerate(paths):
        with Image.open(root / path) as image:
            if image.mode == "L":
                return position, np.asarray(image)
    raise AssertionError("there is no greyscale image")
