"""`diabetes`: 442 patients from scikit-learn, with ten measurements each and the progression after one year.

The embedded regression data set: the answer is a number. There is no test split; one is held out by id.
"""

from moso import errors
from moso.data.samples import StoredSamples
from moso.data.sources.source import Opened, Request, Source
from moso.tasks import Regression


def open_diabetes(request: Request) -> Opened:
    """Open all patients; ids are row numbers.

    Raises:
        DatasetNameInvalid: The request has a path.

    Example:
        >>> samples, test = open_diabetes(Request())
        >>> len(samples), samples.shape, samples.classes, float(samples.targets[0])
        (442, (10,), (), 151.0)
    """
    from sklearn.datasets import load_diabetes

    if request.location:
        raise errors.DatasetNameInvalid(f"data set 'diabetes' takes no path, but was given {request.location!r}")
    features, progression = load_diabetes(return_X_y=True, scaled=False)
    return StoredSamples.from_arrays(features, progression, Regression()), None


SOURCE = Source(
    "diabetes",
    "442 patients, ten measurements and a number to predict, inside scikit-learn",
    open_diabetes,
    task=Regression(),
)
