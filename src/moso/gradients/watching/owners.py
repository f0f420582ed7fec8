"""Tracks the owner (sample) of each row, where a network selects rows from a batch: routing, masks, packed sequences.

A mixture of experts selects the rows of some samples, `x[chosen]`, and the result has no batch dimension any more. Rows
that were selected by a tensor of indices or a mask are tracked from there on, as long as the number of rows does not
change.
"""

from collections.abc import Iterable
from typing import Any

import torch

from moso.batch import Batch
from moso.gradients.layers.operation import Arguments, Function, Positional
from moso.gradients.losses import Collated, leaves

_T = torch.Tensor
_SELECTING = frozenset({_T.index_select, torch.index_select})
_CHOOSING = frozenset(
    {_T.nonzero, torch.nonzero, _T.masked_select, torch.masked_select, _T.topk, torch.topk, _T.sort, torch.sort,
     _T.argsort, torch.argsort, _T.unique, torch.unique, _T.gather, torch.gather, torch.take_along_dim}
)  # fmt: skip
_PACK = torch._C._VariableFunctions._pack_padded_sequence
_PAD = torch._C._VariableFunctions._pad_packed_sequence

# Functions that select or reorder rows.
FOLLOWED = _SELECTING | _CHOOSING | {_PACK, _PAD, _T.__getitem__, _T.__setitem__, torch.where, _T.where}


class Owners:
    """The owners ``[rows]`` of tensors whose first dimension consists of selected rows.

    Attributes:
        chosen: Whether anything was selected by value so far.
    """

    def __init__(self, batch: int, told: Iterable[torch.Tensor] = ()) -> None:
        """Track rows of a batch of `batch` samples; `told` are tensors of the batch that look like row owners."""
        self.batch = batch
        self._told = {len(owners): owners for owners in told}
        self.chosen = False
        self._rows: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        # Tensors whose samples were reordered, along any dimension.
        self._ordered: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing was selected so far, and the batch holds no row owners."""
        return not (self.chosen or self._rows or self._told)

    def mark(self, tensor: torch.Tensor, rows: torch.Tensor) -> None:
        """Record the owners of a tensor's rows."""
        self._rows[id(tensor)] = tensor, rows

    def of(self, tensors: Iterable[torch.Tensor], output: torch.Tensor) -> torch.Tensor | None:
        """Return the owners of an output's rows: those of an argument with the same number of rows, or None."""
        if self._rows and isinstance(output, torch.Tensor) and output.ndim:
            for tensor in tensors:
                known = self._rows.get(id(tensor))
                if known is not None and len(known[1]) == len(output):
                    return known[1]
        if self._told and isinstance(output, torch.Tensor) and output.ndim:
            return self._told.get(len(output))
        return None

    def follow(
        self, func: Function, args: Positional, kwargs: Arguments, tensors: list[torch.Tensor], output: Any
    ) -> None:
        """Observe a call without parameters, which may select rows or preserve the rows of its arguments."""
        if func not in FOLLOWED and not self._rows:
            return
        if func is _T.__getitem__:
            self._index(args[0], args[1], output)
        elif func in _SELECTING and not kwargs and len(args) == 3:
            self.chosen = True
            self._ordered[id(output)] = output, args[2]
            if args[1] == 0:
                self._index(args[0], args[2], output)
        elif func is _PACK:
            self._pack(args, output)
        elif func is _PAD:
            owners = self._rows.get(id(args[0]))
            if owners is not None:
                order = owners[1][: int(args[1][0])]
                self._ordered[id(output[0])] = output[0], order
                if args[2]:
                    self.mark(output[0], order)
        elif func in _CHOOSING or (func in (torch.where, _T.where) and len(tensors) == 1):
            self.chosen = True
        elif self._rows and isinstance(output, torch.Tensor):
            rows = self.of(tensors, output)
            if rows is not None:
                self.mark(output, rows)

    def packed(self, data: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        """Return the owners of a packed sequence's rows, whose samples may have been sorted by length."""
        known = self._rows.get(id(data))
        if known is not None and len(known[1]) == len(data):
            return known[1]
        order = torch.arange(int(sizes[0]), device=data.device)
        return torch.cat([order[:size] for size in sizes.tolist()])

    def _pack(self, args: Positional, output: Any) -> None:
        data, sizes = output
        known = self._ordered.get(id(args[0]))
        order = torch.arange(int(sizes[0])) if known is None else known[1]
        self.chosen = True
        self.mark(data, torch.cat([order[:size] for size in sizes.tolist()]).to(data.device))

    def _index(self, source: torch.Tensor, index: Any, output: Any) -> None:
        first = index[0] if isinstance(index, tuple) and index else index
        if not isinstance(first, torch.Tensor) or first.ndim == 0 or source.ndim == 0:
            return
        self.chosen = True
        known = self._rows.get(id(source))
        if known is not None:
            rows = known[1]
        elif len(source) % self.batch == 0 and len(source):
            rows = torch.arange(len(source), device=first.device) // (len(source) // self.batch)
        else:
            return
        if first.dtype == torch.bool:
            rows = rows[first.nonzero()[:, 0].to(rows.device)]
        elif first.ndim == 1:
            rows = rows[first.to(rows.device)]
        else:
            return
        if isinstance(output, torch.Tensor) and output.ndim and len(rows) == len(output):
            own = torch.arange(len(rows), device=rows.device)
            if len(rows) != self.batch or not torch.equal(rows, own):
                self.mark(output, rows)


def told_owners(batch: Batch) -> list[torch.Tensor]:
    """Return the tensors of a batch that look like row owners, such as `batch` of PyTorch Geometric's graphs.

    These are ascending integers that contain every sample number. Like everything else, the guess is compared with
    autograd.
    """
    if not isinstance(batch, Collated):
        return []
    inner = batch.inner
    parts = [*leaves(inner), *getattr(inner, "__dict__", {}).values(), getattr(inner, "batch", None)]
    return [part for part in parts if isinstance(part, torch.Tensor) and _names_all(part, batch.count)]


def _names_all(tensor: torch.Tensor, count: int) -> bool:
    if tensor.ndim != 1 or tensor.is_floating_point() or tensor.dtype == torch.bool or len(tensor) <= count:
        return False
    steps = tensor.diff()
    return bool(tensor[0] == 0 and tensor[-1] == count - 1 and ((steps == 0) | (steps == 1)).all())
