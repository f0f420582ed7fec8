"""`diabetes`: 442 patients that come with scikit-learn, ten measurements each, and how far the disease went in a year.

The embedded regression: the answer is a number. There is no test split; one is held out by id.
"""

from moso import errors
from moso.data.samples import StoredSamples
from moso.data.sources.source import Opened, Request, Source


def open_diabetes(request: Request) -> Opened:
    """All patients; ids are row numbers.

    >>> samples, test = open_diabetes(Request())
    >>> len(samples), samples.shape, samples.classes, float(samples.targets[0])
    (442, (10,), (), 151.0)
    """
    from sklearn.datasets import load_diabetes

    if request.location:
        raise errors.DatasetNameInvalid(f"data set 'diabetes' takes no path, but was given {request.location!r}")
    features, progression = load_diabetes(return_X_y=True, scaled=False)
    return StoredSamples.from_arrays(features, targets=progression), None


SOURCE = Source(
    "diabetes",
    "442 patients, ten measurements and a number to predict, inside scikit-learn",
    open_diabetes,
    numbers=True,
)
