"""A user's data as the network of their own training met it: nothing is normalised, augmented or tokenised."""

from collections.abc import Mapping
from typing import Any

from torch.utils.data import default_collate

from moso import errors
from moso.data.given.answer_columns import answer_of, find_answers
from moso.data.given.recognition import look_at
from moso.data.pair_view import PairView
from moso.data.readers import MemoryReader
from moso.data.samples import StoredSamples
from moso.data.views import Collate, ItemView, View
from moso.progress import silent
from moso.tasks import Loss, fitting_task, squared_error


def trained_view(data: Any, collate: Collate | None = None, own_loss: Loss | None = None) -> View:
    """Return any data as a view; `moso.data.views.as_view` describes the arguments.

    Raises:
        WrongType: The data is of no known kind, or holds pictures or texts that no network takes as they are.
    """
    takes_pairs = own_loss is None or own_loss is squared_error
    given = look_at(data, as_items=not takes_pairs or collate is not None, read_answers=False)
    if not given.trained_as_given and collate is None:
        raise errors.WrongType(
            f"{given.kind} holds pictures or texts, and how the network was trained on them is not known; give the "
            "dataset with the transform that makes tensors of them, or collate="
        )
    if isinstance(given.reader, MemoryReader) and collate is None:
        task = fitting_task(given.answers, own_loss)
        return StoredSamples.from_arrays(given.reader.inputs, given.answers, task).evaluation_view()
    items = ItemView(given.dataset, collate=collate or default_collate)
    first = given.dataset[0]
    if not takes_pairs or not (isinstance(first, Mapping) or isinstance(answer_of(first), str)):
        return items
    answers = find_answers(given.dataset, silent)
    # Without answers items stay what they are, and the loss says what it misses.
    return items if answers is None else PairView(items, fitting_task(answers, own_loss).read(answers)[1])
