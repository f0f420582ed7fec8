"""What a run can do without labels, and whether samples are compared by features that take a trained network."""

from typing import TYPE_CHECKING, Any

from moso.configuration.fields import CUSTOM
from moso.configuration.resolved_method import ResolvedMethod
from moso.data.sources.registry import expected_task, has_vectors
from moso.evidence_kinds.label_free_embedding import INPUTS
from moso.evidence_kinds.registry import needed_kinds
from moso.methods import methods
from moso.methods.auto import AUTO
from moso.tasks import Unlabelled, find_task

if TYPE_CHECKING:
    from moso.configuration.configuration import Configuration

# The method of unlabelled data, unless the user names others.
WITHOUT_LABELS = "zcore"


def settle_features(values: dict[str, Any], dataset: str) -> None:
    """Fill in which features samples are compared by, and the method if they have no labels.

    What a linear head is given are the inputs themselves, so no network need be trained for them. A file with a format
    was written by a run, and says what it compared samples by; files from before this setting mean the reference.

    Args:
        values: Settings by name, with task and network settled; changed in place.
        dataset: Name of the data set.
    """
    unlabelled = values["task"] == Unlabelled.name
    on_features = has_vectors(dataset) or bool(values.get("embed"))
    if on_features:
        values.setdefault("embedding", INPUTS)
    if "format" not in values and (unlabelled or (on_features and values["model"] == "linear")):
        values.setdefault("features", "embedding")
    if unlabelled:
        values.setdefault("methods", [WITHOUT_LABELS])


def is_label_free(choice: ResolvedMethod) -> bool:
    """Return whether a choice needs neither classes nor a network that is trained on labels."""
    kinds = needed_kinds(choice.needs())
    return not choice.by_class() and all(kind.network in ("none", "own") and not kind.about_classes for kind in kinds)


def label_problem(configuration: "Configuration", choice: ResolvedMethod) -> str | None:
    """Return one sentence on why unlabelled data cannot have this choice, with the methods that it can have, or None.

    Args:
        configuration: The settings of the run.
        choice: A method with its selector.
    """
    if configuration.task != Unlabelled.name or (choice.method != AUTO and is_label_free(choice)):
        return None
    others = ", ".join(name for name in methods() if name != AUTO and is_label_free(configuration.choice(name)))
    return (
        f"method {choice.method!r} with selector {choice.selector.name!r} needs labels, and the data has none; "
        f"without labels there are: {others}"
    )


def settle_task(values: dict[str, Any], dataset: str) -> None:
    """Fill in the task and whether samples have classes; for data in memory, the caller decides.

    Files written before tasks had names contain `classless`.
    """
    if "classless" in values:
        values["by_class"] = not values.pop("classless")
    if dataset == CUSTOM:
        values["task"] = Unlabelled.name if values.get("task") == Unlabelled.name else CUSTOM
    else:
        task = find_task(str(values["task"])) if "task" in values else expected_task(dataset)
        values |= {"task": task.name, "by_class": task.by_class}
