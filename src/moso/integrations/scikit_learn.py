"""`MosoSelector`: pruning as a scikit-learn estimator that says which rows of a table to keep.

    selector = MosoSelector(ratio=0.3).fit(X, y)
    X[selector.sample_indices_]

`fit_resample` is the method of imbalanced-learn's samplers, so the selector is a step of its pipelines.
"""

import warnings
from collections.abc import Callable
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from torch import nn

from moso import errors
from moso.api import PruneConfig, prune
from moso.gradients import Loss
from moso.methods import Method
from moso.scores import Score
from moso.selection import Selector
from moso.tasks import squared_error

Task = Literal["classification", "regression", "multi-label"]
MOST_CLASSES = 20  # of a floating type; more different values than these are numbers to predict


class MosoSelector(BaseEstimator):  # type: ignore[misc] # scikit-learn is not type-checked
    """Selects the rows of a table that are worth training on, by `moso.prune`.

    A small network is trained on the table and every row is scored. Numbers to predict are standardised and learned by
    squared error, columns of 0 and 1 by one binary cross-entropy per column, classes by cross-entropy.

    Args:
        ratio: Share of rows to remove, in ``[0, 1)``; 0.3 if `keep` is not given either.
        keep: Share or number of rows to keep, in place of `ratio`.
        method: A name that `moso methods` lists, a `Method` or a `Score`.
        selector: Name or `Selector` to use in place of the selector of the method.
        model: A name that `moso models` lists, or a function that returns a fresh network; None takes a small
            perceptron for tables.
        task: What is learned, `classification`, `regression` or `multi-label`. None tells by `y`, as scikit-learn's
            `type_of_target`; whole numbers of a floating type are numbers to predict if there are more than 20
            different ones.
        partitions: Number of partitions (the paper's I); 1 trains one network on all rows.
        epochs: Epochs of the training; None leaves them to the recipe.
        time_steps: Number of sampled time steps (the paper's K); None leaves it to the defaults of a run.
        config: Further settings; `epochs`, `partitions`, `time_steps` and `random_state` are given here, not there.
        random_state: Seed, a `RandomState`, or None for another seed at every fit.

    Attributes:
        sample_indices_: Sorted positions of the rows to keep.
        sample_weight_: One weight per row to keep, for an estimator's `sample_weight`; None without weights.
        scores_: One float per row, in the order of `X`; high means keep.
        n_features_in_: Number of columns.
        feature_names_in_: Names of the columns, if they all have one.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> selector = MosoSelector(ratio=0.4, epochs=3, time_steps=3, random_state=0).fit(X, y)
        >>> len(selector.sample_indices_), selector.scores_.shape
        (90, (150,))
        >>> X_kept, y_kept = MosoSelector(keep=60, epochs=3, time_steps=3, random_state=0).fit_resample(X, y)
        >>> X_kept.shape, y_kept.shape
        ((60, 4), (60,))
    """

    def __init__(
        self,
        ratio: float | None = None,
        *,
        keep: float | None = None,
        method: str | Method | Score = "moso-rank",
        selector: str | Selector | None = None,
        model: str | Callable[[], nn.Module] | None = None,
        task: Task | None = None,
        partitions: int = 1,
        epochs: int | None = None,
        time_steps: int | None = None,
        config: PruneConfig | None = None,
        random_state: int | RandomState | None = None,
    ) -> None:
        self.ratio = ratio
        self.keep = keep
        self.method = method
        self.selector = selector
        self.model = model
        self.task = task
        self.partitions = partitions
        self.epochs = epochs
        self.time_steps = time_steps
        self.config = config
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Score the rows and select those to keep.

        Args:
            X: Table of finite numbers, ``[rows, columns]``; pictures as ``[rows, channels, height, width]``.
            y: Classes of any type, numbers to predict, or columns of 0 and 1.

        Returns:
            The selector itself.

        Raises:
            ValueError: `X` or `y` are not what scikit-learn's estimators take.
            MosoError: See `moso.prune`.
        """
        inputs, answers = _validated(self, X, y)
        loss, task, answers = _as_learned(answers, self.task)
        state = self.random_state
        seed = int(state) if isinstance(state, int | np.integer) else check_random_state(state).randint(2**31 - 1)
        given = {} if self.config is None else self.config.given()
        settings = {"epochs": self.epochs, "time_steps": self.time_steps, "partitions": self.partitions, "seed": seed}
        pruned = prune(
            (inputs, answers),
            ratio=0.3 if self.ratio is None and self.keep is None else self.ratio,
            keep=self.keep,
            model=self.model,
            method=self.method,
            selector=self.selector,
            loss=loss,
            task=task,
            progress=False,
            config=PruneConfig(**{**given, **{name: value for name, value in settings.items() if value is not None}}),
        )
        self.scores_: NDArray[np.float64] = pruned.scores
        self.sample_indices_: NDArray[np.int64] = pruned.kept
        self.sample_weight_: NDArray[np.float64] | None = pruned.weights
        return self

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Fit, and return the rows and answers to keep, of the types that were given."""
        self.fit(X, y)
        return _safe_indexing(X, self.sample_indices_), _safe_indexing(y, self.sample_indices_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.input_tags.three_d_array = True
        return tags


def _validated(selector: MosoSelector, X: Any, y: Any) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return table and answers as arrays, checked as scikit-learn's own estimators check them."""
    checks = {"dtype": np.float32, "ensure_min_samples": 2, "allow_nd": True, "multi_output": True}
    try:
        from sklearn.utils.validation import validate_data
    except ImportError:  # scikit-learn before 1.6
        return selector._validate_data(X, y, **checks)  # type: ignore[no-any-return]
    return validate_data(selector, X, y, **checks)  # type: ignore[no-any-return]


def _as_learned(answers: NDArray[Any], task: Task | None) -> tuple[Loss | None, str | None, NDArray[Any]]:
    """Return the loss, the task and the answers as `prune` takes them."""
    if answers.ndim == 2 and answers.shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected; it is taken as [rows]"
        warnings.warn(message, DataConversionWarning, stacklevel=4)
        answers = answers[:, 0]
    task = _task_of(answers) if task is None else task
    if task == "regression":
        numbers = answers.astype(np.float64)
        spread = numbers.std(0)
        standardised = (numbers - numbers.mean(0)) / np.where(spread > 0, spread, 1)
        return squared_error, None, standardised.astype(np.float32)
    if task == "multi-label":
        return None, "multi-label", answers.astype(np.float32)
    if task != "classification":
        raise errors.unknown_name("task", task, get_args(Task))
    check_classification_targets(answers)
    return None, None, np.unique(answers, return_inverse=True)[1].astype(np.int64)


def _task_of(answers: NDArray[Any]) -> Task:
    if answers.ndim == 1 and answers.dtype.kind == "f" and len(np.unique(answers)) > MOST_CLASSES:
        return "regression"
    kind = type_of_target(answers, input_name="y")
    if kind.startswith("continuous"):
        return "regression"
    return "multi-label" if kind == "multilabel-indicator" else "classification"
