"""`demo`: 6,000 pictures of 20 classes as a pretrained network sees them, inside the package (0.9 MB).

The features lie in `demo_data/features.npz`; `demo_data/PROVENANCE.md` says where they come from.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from moso import errors
from moso.data.mapped import MappedReader
from moso.data.samples import StoredSamples
from moso.data.sources.source import VECTORS, Opened, Request, Source
from moso.tasks import Classification

FILE = Path(__file__).parent / "demo_data" / "features.npz"


def open_demo(request: Request) -> Opened:
    """Open the features of 20 classes of CIFAR-100; ids are row numbers of CIFAR-100's two splits.

    Raises:
        DatasetNameInvalid: The request has a path.

    Example:
        >>> train, test = open_demo(Request())
        >>> len(train), len(test), train.shape, train.classes[:3]
        (6000, 2000, (128,), ('apple', 'aquarium_fish', 'baby'))
    """
    if request.location:
        raise errors.DatasetNameInvalid(f"data set 'demo' takes no path, but was given {request.location!r}")
    with np.load(FILE, allow_pickle=False) as stored:
        task = Classification(classes=tuple(map(str, stored["classes"])))
        train, test = (
            StoredSamples(
                pa.array(stored[f"{split}_ids"].astype(np.int64)),
                task,
                stored[f"{split}_labels"].astype(np.int64),
                MappedReader(stored[split].astype(np.float32) * stored["scale"]),
                one_scale=True,
            )
            for split in ("train", "test")
        )
    return train, test


SOURCE = Source(
    "demo",
    "6,000 pictures of 20 classes of CIFAR-100 as features of a pretrained network, inside the package",
    open_demo,
    fits=VECTORS,
    pictures=False,
    vectors=True,
)
