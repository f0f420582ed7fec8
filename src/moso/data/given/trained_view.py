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
from moso.tasks import Classification, Loss, fitting_task


def trained_view(data: Any, collate: Collate | None = None, own_loss: Loss | None = None) -> View:
    """Return any data as a view; `moso.data.views.as_view` describes the arguments.

    Raises:
        WrongType: The data is of no known kind, or holds pictures or texts that no network takes as they are.
    """
    given = look_at(data, as_items=own_loss is not None or collate is not None, read_answers=False)
    if not given.trained_as_given and collate is None:
        raise errors.WrongType(
            f"{given.kind} holds pictures or texts, and how the network was trained on them is not known; give the "
            "dataset with the transform that makes tensors of them, or collate="
        )
    if isinstance(given.reader, MemoryReader) and collate is None:
        task = fitting_task(given.answers, own_loss)
        return StoredSamples.from_arrays(given.reader.inputs, given.answers, task).evaluation_view()
    items = ItemView(given.dataset, collate=collate or default_collate)
    if own_loss is not None:
        return items
    first = given.dataset[0]
    if not isinstance(first, Mapping) and not isinstance(answer_of(first), str):
        return items
    answers = find_answers(given.dataset, silent)
    if answers is None:
        raise errors.LabelsMissing(
            f"items have no label under the usual names ({', '.join(map(str, first))}); give loss= that reads them"
        )
    return PairView(items, Classification().read(answers)[1])
