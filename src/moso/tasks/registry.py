"""Tasks by name: built-in and of installed packages (`moso.tasks`); and the task that fits a user's answers.

A new built-in task is one file and one line here.
"""

import numpy as np
import torch

from moso.registry import Registry
from moso.tasks.classification import Classification
from moso.tasks.contrastive import Contrastive
from moso.tasks.language import CausalLanguageModelling, MaskedLanguageModelling
from moso.tasks.multi_label import MultiLabel
from moso.tasks.own import OwnTask
from moso.tasks.regression import Regression
from moso.tasks.task import Loss, Task, TaskNote
from moso.tasks.unlabelled import Unlabelled

_OURS = (
    *(Classification(), Regression(), MultiLabel(), Contrastive(), Unlabelled()),
    *(CausalLanguageModelling(), MaskedLanguageModelling()),
)
TASKS = Registry("task", Task, "moso.tasks", _OURS)  # type: ignore[type-abstract]


def find_task(name: str) -> Task:
    """Return the task of this name, before it has read any answers.

    Raises:
        UnknownName: There is none.

    Example:
        >>> find_task("regression").by_class
        False
    """
    return TASKS.get(name)


def fitting_task(answers: object, own_loss: Loss | None = None) -> Task:
    """Return the task that fits a column of answers and a user's loss.

    Args:
        answers: One answer per sample; None if only the loss can tell what an answer is.
        own_loss: The user's loss. With one, fractions or several numbers per sample are numbers to predict.

    Returns:
        A task with this loss, before it has read any answers.

    Example:
        >>> fitting_task([0, 1]).name, fitting_task([0.5, 1], own_loss=lambda model, batch: model(batch)).name
        ('classification', 'regression')
    """
    if answers is None:
        return OwnTask(own_loss=own_loss)
    if own_loss is not None and holds_numbers(answers):
        return Regression(own_loss=own_loss)
    return Classification(own_loss=own_loss)


def holds_numbers(answers: object) -> bool:
    """Return whether answers can only be numbers to predict: of a floating-point type, or several per sample.

    Example:
        >>> holds_numbers(np.array([0, 1])), holds_numbers(np.array([0.0, 1.0])), holds_numbers([[0, 1], [1, 1]])
        (False, True, True)
    """
    array = np.asarray(answers.detach().cpu() if isinstance(answers, torch.Tensor) else answers)
    return array.ndim > 1 or array.dtype.kind == "f"


def noted_task(note: TaskNote) -> Task:
    """Return the task that a run directory notes for its data set, without the user's functions, which no file holds.

    Notes of older runs have no name: there `numbers` was true if numbers are predicted.

    Example:
        >>> noted_task({"classes": [], "outputs": 2, "numbers": True}).learned, noted_task(
        ...     {"classes": ["a", "b"]}
        ... ).outputs
        ('2 numbers to predict', 2)
    """
    whole: TaskNote = {"classes": [], "outputs": 0, **note}
    usual = "regression" if whole.get("numbers") else "classification" if whole["classes"] else OwnTask.name
    return (TASKS.find(whole.get("task", usual)) or OwnTask()).rebuilt(whole)
