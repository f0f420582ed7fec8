"""The tasks by name: ours, and those of installed packages (`moso.tasks`); and the task that fits a user's answers.

A new one of ours is a file and a line here.
"""

from typing import Any

import numpy as np
import torch

from moso.registry import Registry
from moso.tasks.classification import Classification
from moso.tasks.multi_label import MultiLabel
from moso.tasks.own import OwnTask
from moso.tasks.regression import Regression
from moso.tasks.task import Loss, Task

TASKS = Registry("task", Task, "moso.tasks", (Classification(), Regression(), MultiLabel()))  # type: ignore[type-abstract]


def find_task(name: str) -> Task:
    """The task of this name, which knows no answers yet.

    >>> find_task("regression").by_class
    False
    """
    return TASKS.get(name)


def fitting_task(answers: Any, own_loss: Loss | None = None) -> Task:
    """The task that a column of answers and a loss of the user's speak for.

    Args:
        answers: One per sample; None where only the loss can tell what an answer is.
        own_loss: The user's loss. With one, fractions or several numbers per sample are numbers to predict.

    Returns:
        A task with this loss that knows no answers yet.

    >>> fitting_task([0, 1]).name, fitting_task([0.5, 1], own_loss=lambda model, batch: model(batch)).name
    ('classification', 'regression')
    """
    if answers is None:
        return OwnTask(own_loss=own_loss)
    if own_loss is not None and holds_numbers(answers):
        return Regression(own_loss=own_loss)
    return Classification(own_loss=own_loss)


def holds_numbers(answers: Any) -> bool:
    """Whether a column of answers can only be numbers to predict: fractions by type, or several per sample.

    >>> holds_numbers(np.array([0, 1])), holds_numbers(np.array([0.0, 1.0])), holds_numbers([[0, 1], [1, 1]])
    (False, True, True)
    """
    array = np.asarray(answers.detach().cpu() if isinstance(answers, torch.Tensor) else answers)
    return array.ndim > 1 or array.dtype.kind == "f"


def noted_task(note: dict[str, Any]) -> Task:
    """The task that a run directory notes of its data set, as far as a file can hold it.

    Notes without a name are from before tasks had one: `numbers` was true where numbers are predicted.

    >>> noted_task({"classes": [], "outputs": 2, "numbers": True}).learned, noted_task({"classes": ["a", "b"]}).outputs
    ('2 numbers to predict', 2)
    """
    whole = {"classes": [], "outputs": 0, **note}
    usual = "regression" if whole.get("numbers") else "classification" if whole["classes"] else OwnTask.name
    return (TASKS.find(whole.get("task", usual)) or OwnTask()).rebuilt(whole)
