"""Tasks: what a network is to learn, one file per task. Nothing in this package depends on samples or networks."""

from moso.tasks.classification import Classification, cross_entropy
from moso.tasks.contrastive import Bank, Contrastive
from moso.tasks.language import (
    IGNORED,
    CausalLanguageModelling,
    LanguageModelling,
    MaskedLanguageModelling,
    masked_token_loss,
    next_token_loss,
)
from moso.tasks.metric import Measure, Metric, PerSample, mean_loss, own_metric
from moso.tasks.multi_label import MultiLabel
from moso.tasks.own import OwnTask
from moso.tasks.registry import TASKS, find_task, fitting_task, noted_task
from moso.tasks.regression import Regression, squared_error
from moso.tasks.task import Loss, Task, unread
from moso.tasks.unlabelled import Unlabelled

__all__ = [
    "IGNORED",
    "TASKS",
    "Bank",
    "CausalLanguageModelling",
    "Classification",
    "Contrastive",
    "LanguageModelling",
    "Loss",
    "MaskedLanguageModelling",
    "Measure",
    "Metric",
    "MultiLabel",
    "OwnTask",
    "PerSample",
    "Regression",
    "Task",
    "Unlabelled",
    "cross_entropy",
    "find_task",
    "fitting_task",
    "masked_token_loss",
    "mean_loss",
    "next_token_loss",
    "noted_task",
    "own_metric",
    "squared_error",
    "unread",
]
