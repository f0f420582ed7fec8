"""Small data on disk, in the layouts that people have."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

MakeImage = Callable[..., Path]


@pytest.fixture
def make_image() -> MakeImage:
    def make(path: Path, colour: object = (200, 30, 60), size: tuple[int, int] = (8, 8), mode: str = "RGB") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new(mode, size, colour).save(path)
        return path

    return make


@pytest.fixture
def class_folder(tmp_path: Path, make_image: MakeImage) -> Path:
    """`train/` with three classes of ten, `val/` with two of each; the red channel numbers the image."""
    for split, count in (("train", 10), ("val", 2)):
        for name in ("ant", "bee", "cat"):
            for number in range(count):
                make_image(tmp_path / "pets" / split / name / f"{name}_{number}.png", (number, 0, 0))
    return tmp_path / "pets"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The real data sets beside the checkout, or a skip."""
    own = os.environ.get("MOSO_SHARED")
    folder = Path(own) if own else Path(__file__).resolve().parents[3] / "shared"
    folder = folder / "data" if (folder / "data").is_dir() else folder
    if not (folder / "cifar100").is_dir():
        pytest.skip("the shared data sets are not here")
    return folder


@pytest.fixture
def images() -> np.ndarray:
    """Sixty random images of 3 x 8 x 8."""
    return np.random.default_rng(0).integers(0, 256, (60, 3, 8, 8), dtype=np.uint8)
