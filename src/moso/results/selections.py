"""Selections on disk: which samples a method keeps at a ratio, one small file per selection and one table of all.

A weighted selection has a further column `weight`, null where a sample is not kept.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moso import errors
from moso.checksums import damaged
from moso.columns import BLOCK
from moso.files import read_table, reading_table, write_table, writing_table
from moso.selection import Kept

_WEIGHT = "weight"


@dataclass(frozen=True)
class Selection:
    """The key of a selection: method, selector, ratio, seed, and further parameters as JSON."""

    method: str
    selector: str
    ratio: float
    seed: int
    parameters: str = "{}"

    def digest(self) -> str:
        """Return the hash that names the file."""
        return hashlib.blake2b(json.dumps(asdict(self)).encode(), digest_size=8).hexdigest()


def selection_path(root: Path, selection: Selection) -> Path:
    """Return the path of a selection."""
    return root / "selections" / f"{selection.digest()}.parquet"


def write_selection(root: Path, selection: Selection, ids: pa.Array, kept: Kept) -> None:
    """Write which samples a selection keeps, unless the file exists.

    Args:
        root: Folder of the run.
        selection: The key of the selection.
        ids: One id per sample, in dataset order.
        kept: Positions of the kept samples, and their weights if there are any.
    """
    path = selection_path(root, selection)
    if path.exists():
        return
    mask = np.zeros(len(ids), dtype=bool)
    mask[kept.positions] = True
    table = pa.table({"id": ids, "kept": mask})
    if kept.weights is not None:
        weights = np.full(len(ids), np.nan)
        weights[kept.positions] = kept.weights
        table = table.append_column(_WEIGHT, pa.array(weights, mask=~mask))
    write_table(path, table.replace_schema_metadata({"moso": json.dumps(asdict(selection))}))


def read_selection(root: Path, selection: Selection) -> NDArray[np.bool_]:
    """Read which samples a selection keeps: one boolean per sample, in dataset order, shape ``[samples]``.

    Raises:
        MosoError: ``stage-incomplete`` if the selection was not made.
    """
    path = _found(root, selection)
    kept: NDArray[np.bool_] = read_table(path, ["kept"])["kept"].to_numpy()
    return kept


def read_kept(root: Path, selection: Selection) -> Kept:
    """Read the ascending positions of the samples that a selection keeps, and their weights if it has any.

    Raises:
        MosoError: ``stage-incomplete`` if the selection was not made.
    """
    positions = np.flatnonzero(read_selection(root, selection))
    if not is_weighted(root, selection):
        return Kept(positions)
    column = read_table(_found(root, selection), [_WEIGHT])[_WEIGHT]
    return Kept(positions, column.to_numpy()[positions])


def is_weighted(root: Path, selection: Selection) -> bool:
    """Return whether a selection has weights.

    Raises:
        MosoError: ``stage-incomplete`` if the selection was not made.
    """
    with reading_table(_found(root, selection)) as file:
        return _WEIGHT in file.schema_arrow.names


def _found(root: Path, selection: Selection) -> Path:
    path = selection_path(root, selection)
    if not path.exists():
        raise errors.StageIncomplete(
            f"{selection.method} with selector {selection.selector} at ratio {selection.ratio:g} was not selected "
            f"for seed {selection.seed} in {root}; run `moso select` for it first"
        )
    return path


def all_selections(root: Path) -> list[Selection]:
    """Return every selection of a run, in a fixed order."""
    found = []
    for path in (root / "selections").glob("*.parquet"):
        with reading_table(path) as file:
            metadata = file.schema_arrow.metadata or {}
        try:
            found.append(Selection(**json.loads(metadata[b"moso"])))
        except (ValueError, KeyError, TypeError) as problem:
            raise damaged(path, f"it does not say which selection it is: {problem}") from problem
    return sorted(found, key=lambda one: (one.method, one.selector, one.ratio, one.seed, one.parameters))


def write_selections_view(root: Path) -> None:
    """Write `selections.parquet`: one row per sample and selection, with the key of the selection, id and kept.

    If any selection has weights, there is a column `weight`, null for all others.
    """
    selections = all_selections(root)
    if not selections:
        return
    names = pa.dictionary(pa.int32(), pa.string())
    with reading_table(selection_path(root, selections[0])) as file:
        ids = file.schema_arrow.field("id").type
    types = {"method": names, "selector": names, "parameters": names, "ratio": pa.float64(), "seed": pa.int64()}
    weighted = any(is_weighted(root, one) for one in selections)
    schema = pa.schema({**types, "id": ids, "kept": pa.bool_(), **({_WEIGHT: pa.float64()} if weighted else {})})
    with writing_table(root / "selections.parquet", schema) as writer:
        for one in selections:
            with reading_table(selection_path(root, one)) as file:
                for batch in file.iter_batches(BLOCK):
                    first = pa.repeat(pa.scalar(0, pa.int32()), len(batch))
                    made_by = (one.method, one.selector, one.parameters)
                    columns = [pa.DictionaryArray.from_arrays(first, [name]) for name in made_by]
                    columns += [pa.repeat(pa.scalar(number), len(batch)) for number in (float(one.ratio), one.seed)]
                    columns += [batch["id"], batch["kept"]]
                    if weighted:
                        has = _WEIGHT in batch.schema.names
                        columns.append(batch[_WEIGHT] if has else pa.nulls(len(batch), pa.float64()))
                    writer.write_batch(pa.record_batch(columns, schema=schema))
