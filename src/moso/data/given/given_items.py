"""Map-style datasets: anything with `__len__` and `__getitem__`; torchvision's, `Subset`, lists of dictionaries."""

from typing import Any

from torch.utils.data import Subset

from moso import errors
from moso.data.given.answer_columns import find_answers
from moso.data.given.given import Given, Positions
from moso.data.given.pictures import has_pictures
from moso.progress import Progress, silent


def from_items(
    dataset: Any,
    *,
    progress: Progress = silent,
    loader_workers: int = 0,
    label: str | None = None,
    read_answers: bool = True,
) -> Given:
    """Return a user's map-style dataset, with its answers where items have some.

    Args:
        dataset: The dataset.
        progress: Called while labels are read from items.
        loader_workers: Processes that read them.
        label: Name of the answer in an item that is a mapping.
        read_answers: Whether to look for the answers.

    Raises:
        DataEmpty: The dataset is empty.
    """
    if len(dataset) == 0:
        raise errors.DataEmpty("the data set is empty")
    first = dataset[0]
    answers = find_answers(dataset, progress, loader_workers, label) if read_answers else None

    def take(kept: Positions) -> Any:
        if isinstance(dataset, list):
            return [dataset[position] for position in kept.tolist()]
        if hasattr(dataset, "column_names") and hasattr(dataset, "select"):
            return dataset.select(kept.tolist())
        return Subset(dataset, kept.tolist())

    return Given(
        f"a dataset of type {type(dataset).__name__}",
        len(dataset),
        dataset,
        take,
        answers,
        _class_names(dataset, answers),
        pairs=isinstance(first, tuple | list),
        trained_as_given=not has_pictures(first),
    )


def _class_names(dataset: Any, answers: list[Any] | None) -> tuple[str, ...]:
    """Return the names that torchvision's datasets have for their class numbers, if there is one for every number."""
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    names = getattr(dataset, "classes", ())
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names) or not answers:
        return ()
    whole = all(isinstance(one, int) and 0 <= one < len(names) for one in answers)
    return tuple(names) if whole and len(set(names)) == len(names) else ()
