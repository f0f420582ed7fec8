"""`digits`: 1,797 real handwritten digits of 8 x 8 pixels that come with scikit-learn.

The embedded default: no download, seconds to train. There is no test split; one is held out by id.
"""

import numpy as np

from moso.data.samples import StoredSamples
from moso.data.sources.source import Opened, Request, Source
from moso.errors import MosoError


def open_digits(request: Request) -> Opened:
    """All digits as greyscale images; ids are row numbers.

    >>> samples, test = open_digits(Request())
    >>> len(samples), samples.shape, test is None
    (1797, (1, 8, 8), True)
    """
    from sklearn.datasets import load_digits

    if request.location:
        raise MosoError(f"data set 'digits' takes no path, but was given {request.location!r}")
    loaded = load_digits()
    # 0..16 becomes 0..240: as bright as a picture should be, and exact in uint8.
    images = (loaded.images * 15).astype(np.uint8)[:, None]
    return StoredSamples.from_arrays(images, loaded.target, [str(digit) for digit in range(10)]), None


SOURCE = Source("digits", "1,797 handwritten digits of 8 x 8 pixels, inside scikit-learn; the default", open_digits)
