"""What passes through without being looked into: batches and items of the user's own structure.

A batch is whatever a data set's view (or the user's collate function) returns for some samples: a pair of tensors, a
dictionary, nested tuples, an object of the user's. Only the user's loss and network look inside, and neither is typed,
so the type of a batch is `Any`; the two names say where that is meant. The one part that is known is `Shared`.
"""

from typing import Any

Batch = Any
Item = Any


class Shared:
    """A part of a batch that is the same for all of its samples: it is not sliced with them, and moves itself."""
