"""`digits`: 1,797 handwritten digits of 8 x 8 pixels from scikit-learn.

The embedded default: no download, seconds to train. There is no test split; one is held out by id.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.data.samples import StoredSamples
from moso.data.sources.source import Opened, Request, Source


def open_digits(request: Request) -> Opened:
    """Open all digits as greyscale images; ids are row numbers.

    Raises:
        DatasetNameInvalid: The request has a path.

    Example:
        >>> samples, test = open_digits(Request())
        >>> len(samples), samples.shape, test is None
        (1797, (1, 8, 8), True)
    """
    if request.location:
        raise errors.DatasetNameInvalid(f"data set 'digits' takes no path, but was given {request.location!r}")
    rows = _rows()
    # 0..16 becomes 0..240: nearly the full range of brightness, and exact in uint8.
    images = (rows[:, :-1] * 15).astype(np.uint8).reshape(-1, 1, 8, 8)
    return StoredSamples.from_arrays(images, rows[:, -1]), None


def _rows() -> NDArray[np.int64]:
    """Return 64 pixels and the digit per row; reading scikit-learn's file is faster than importing scikit-learn."""
    found = find_spec("sklearn")
    for place in (found and found.submodule_search_locations) or ():
        path = Path(place) / "datasets" / "data" / "digits.csv.gz"
        if path.is_file():
            return np.loadtxt(path, delimiter=",", dtype=np.int64)
    from sklearn.datasets import load_digits

    loaded = load_digits()
    return np.column_stack([loaded.data, loaded.target]).astype(np.int64)


SOURCE = Source(
    "digits",
    "1,797 handwritten digits of 8 x 8 pixels, inside scikit-learn; the default",
    open_digits,
    fits=("convnet", "digits"),
)
