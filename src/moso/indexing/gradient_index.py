"""`GradientIndex`: projected per-sample gradients at some time steps, and the scores of any target from them.

    score(z) = T/N 1/K sum_k eta_k  s(grad R(w_k)) . s(g_z(w_k))

which is what `moso.score(..., risk=R)` computes exactly, with `s` a random projection
(`gradients/estimates/hashed.py`). Building takes one pass of per-sample gradients per time step; a query takes the
gradient of the target at every time step and one product with what is on disk.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.checksums import state
from moso.data.views import Collate, View, as_view, check_repeatable
from moso.evidence import Trajectory, TrajectoryPoint, arrays
from moso.evidence.estimators import Load
from moso.evidence.measure import ParameterFilter, check_finite_state, moving_parameters, prepared
from moso.evidence.network_names import as_network
from moso.evidence.state_files import write_state
from moso.evidence.trajectory import point_path
from moso.gradients import Loss, Point, Risk, cross_entropy, risk_gradient
from moso.gradients.estimates.hashed import (
    HashedProjection,
    error_of,
    hashed_projections,
    hashed_sketches,
    numbers_for,
    sketch_of,
)
from moso.indexing.index_files import (
    Indexed,
    begin,
    built_again,
    finish,
    is_same,
    is_whole,
    points_folder,
    positions_path,
    read_note,
    read_shards,
    shard_path,
    write_shard,
)
from moso.progress import Progress, silent

# Standard error of a cosine at the default size, which is 2,048 numbers per gradient.
ERROR = 0.03125
SHARD = 4096
_AT_ONCE = 1024
Similarity = Literal["product", "cosine"]


@dataclass(frozen=True)
class IndexSettings:
    """How an index is built.

    Attributes:
        error: Largest standard error of a cosine, from which the numbers per gradient follow.
        precision: Type of the stored numbers.
        seed: Seed of the projection.
        shard: Samples per shard, the unit of resuming and of memory.
        batch_size: Samples per batch; None for a size that suits network and device.
        loader_workers: Processes that load batches ahead.
        parameters: Filter by parameter name.
    """

    error: float = ERROR
    precision: Literal["float16", "float32"] = "float16"
    seed: int = 0
    shard: int = SHARD
    batch_size: int | None = None
    loader_workers: int = 0
    parameters: ParameterFilter | None = None

    def __post_init__(self) -> None:
        if self.precision not in ("float16", "float32"):
            raise errors.SettingInvalid(f"precision {self.precision!r} is none of float16, float32")
        if self.shard < 1:
            raise errors.SettingInvalid(f"shard={self.shard}: a shard needs at least 1 sample")


@dataclass(frozen=True)
class IndexedPart:
    """The samples of one training: their positions, and the trajectory at which they are indexed."""

    positions: NDArray[np.int64]
    trajectory: Trajectory


class GradientIndex:
    """Projected per-sample gradients on disk.

    Example:
        >>> import tempfile
        >>> import moso
        >>> model = nn.Linear(4, 2)
        >>> data = (np.eye(4, dtype=np.float32), [0, 1, 0, 1])
        >>> folder = tempfile.mkdtemp()
        >>> index = GradientIndex.build(folder, model, data, [(model.state_dict(), 0.1)])
        >>> index
        GradientIndex(4 samples, 1 time step, 10 numbers per gradient, not projected)
        >>> found = index.query(model, {"first": moso.SampleRisk.of(data, [0])})
        >>> bool(np.allclose(found["first"], moso.score(
        ...     model, data, [(model.state_dict(), 0.1)], risk=moso.SampleRisk.of(data, [0])), rtol=1e-2))
        True
    """

    def __init__(self, folder: Path, what: Indexed) -> None:
        self.folder, self.what = folder, what

    @classmethod
    def open(cls, folder: Path | str) -> "GradientIndex":
        """Open an index.

        Raises:
            FileMissing: The folder holds no index, or one that is not whole.
            FileUnreadable: The index is damaged, or of another version.
        """
        return cls(Path(folder), read_note(Path(folder)))

    @classmethod
    def build(
        cls,
        folder: Path | str,
        model: nn.Module,
        data: object,
        trajectory: object,
        *,
        loss: Loss = cross_entropy,
        collate: Collate | None = None,
        settings: IndexSettings | None = None,
        progress: Progress = silent,
    ) -> "GradientIndex":
        """Build an index of the gradients of all samples; the same call continues one that was interrupted or damaged.

        Args:
            folder: Where the index is written.
            model: The network; weights come from the trajectory.
            data: Any data that `moso.score` takes.
            trajectory: A `Trajectory`, or checkpoints `(state_dict, learning_rate)`.
            loss: Per-sample loss, `loss(model, batch) -> [batch]`.
            collate: Makes a batch from a list of items, as in a `DataLoader`.
            settings: Size, precision, seed.
            progress: Called after every shard.

        Raises:
            OutputExists: The folder holds an index of something else.
            MosoError: Those of `moso.score`.
        """
        points = trajectory if isinstance(trajectory, Trajectory) else Trajectory.from_states(trajectory)  # type: ignore[arg-type]
        view = as_view(data, collate, None if loss is cross_entropy else loss)
        check_repeatable(view)
        part = IndexedPart(np.arange(len(view)), points)
        return cls.build_parts(folder, as_network(model), view, [part], loss=loss, settings=settings, progress=progress)

    @classmethod
    def build_parts(
        cls,
        folder: Path | str,
        model: nn.Module,
        view: View,
        parts: Sequence[IndexedPart],
        *,
        loss: Loss,
        settings: IndexSettings | None = None,
        content: str = "",
        progress: Progress = silent,
    ) -> "GradientIndex":
        """Build an index of samples that several trainings share, each sample at the steps of its own.

        Args:
            folder: Where the index is written.
            model: The network.
            view: All samples.
            parts: The trainings, and the positions of their samples.
            loss: Per-sample loss.
            settings: Size, precision, seed.
            content: A hash of the samples, which tells an index of other data.
            progress: Called after every shard.
        """
        how, folder = settings or IndexSettings(), Path(folder)
        some = Point.of(
            model, loss, parameters=moving_parameters(parts[0].trajectory[0].fitted_to(model), how.parameters)
        )
        shapes = {name: list(value.shape) for name, value in some.trained.items()}
        coordinates = sum(value.numel() for value in some.trained.values())
        what = Indexed(
            len(view), min(numbers_for(how.error), coordinates), how.precision, how.seed, how.shard, shapes,
            [[point.step for point in part.trajectory] for part in parts],
            [part.trajectory.total_steps for part in parts], content,
        )  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        complete = begin(folder, what)
        # Also of an index that was built to its end: what is missing or damaged is written again, the rest is not.
        work = sum(len(part.trajectory) * -(-len(part.positions) // how.shard) for part in parts)
        done = 0
        for number, part in enumerate(parts):
            if not is_same(positions_path(folder, number), part.positions):
                arrays.write(positions_path(folder, number), part.positions)
            for point in part.trajectory:
                fitted = point.fitted_to(model)
                _write_point(points_folder(folder, number), fitted, part.trajectory.total_steps)
                shards = _Shards(folder, what, number, fitted, how)
                for _ in shards.write(model, view, part.positions, loss):
                    done += 1
                    progress("index", done, work)
        if not complete:
            finish(folder, what)
        return cls(folder, what)

    @property
    def error(self) -> float:
        """The largest standard error of a cosine; 0 if gradients are not projected."""
        return 0.0 if self.what.coordinates <= self.what.numbers else error_of(self.what.numbers)

    def __repr__(self) -> str:
        steps = sum(map(len, self.what.steps))
        size = f"standard error of a cosine {self.error:.3f}" if self.error else "not projected"
        return (
            f"GradientIndex({self.what.samples:,} samples, {steps} time step{'s' * (steps > 1)}, "
            f"{self.what.numbers:,} numbers per gradient, {size})"
        )

    def query(
        self,
        model: nn.Module,
        targets: Mapping[str, Risk],
        *,
        loss: Loss = cross_entropy,
        similarity: Similarity = "product",
    ) -> dict[str, NDArray[np.float64]]:
        """Score every indexed sample by each target; all targets share one pass over the index.

        Args:
            model: The network that the index was built with; weights come from the index.
            targets: Risks by name, as `moso.score(risk=...)` takes them.
            loss: Per-sample loss of the targets.
            similarity: `product`, the score of `moso.score(risk=...)`; or `cosine`, the mean over time steps of the
                learning rate times the cosine, in which long gradients count no more than short ones.

        Returns:
            One float64 per sample, in dataset order, for every target.

        Raises:
            SettingInvalid: There is no target, or no such similarity.
            CheckpointMismatch: The network is another than that of the index.
            FileMissing, FileDamaged: The index is damaged; the same call of `build` mends it.
        """
        if not targets:
            raise errors.SettingInvalid("targets={} has no target in it; give at least one risk by name")
        if similarity not in ("product", "cosine"):
            raise errors.SettingInvalid(f"similarity {similarity!r} is none of product, cosine")
        network, names = as_network(model), list(targets)
        found = np.zeros((len(names), self.what.samples))
        for part in range(len(self.what.steps)):
            with built_again():
                positions = self._positions(part)
                sums = np.zeros((len(names), len(positions)))
                for point in self._points(part):
                    sketches = self._target_sketches(network, point, list(targets.values()), loss, similarity)
                    self._add(sums, sketches, part, point.step, similarity)
            scale = self.what.total_steps[part] / len(positions) if similarity == "product" else 1.0
            found[:, positions] = scale * sums / len(self.what.steps[part])
        return dict(zip(names, found, strict=True))

    def _positions(self, part: int) -> NDArray[np.int64]:
        path = positions_path(self.folder, part)
        if not path.exists():
            raise errors.FileMissing(f"{path} of the index is missing; the same call of build writes it again")
        return np.asarray(arrays.read(path))

    def _points(self, part: int) -> Trajectory:
        """Return the networks of a part, one per time step; a mean over fewer of them would be another score."""
        folder = points_folder(self.folder, part)
        missing = [step for step in self.what.steps[part] if not point_path(folder, step).exists()]
        if missing:
            raise errors.FileMissing(
                f"{point_path(folder, missing[0])} of the index is missing; the same call of build writes it again"
            )
        return Trajectory.open(folder)

    def _target_sketches(
        self, model: nn.Module, point: TrajectoryPoint, risks: Sequence[Risk], loss: Loss, similarity: Similarity
    ) -> NDArray[np.float32]:
        """Return the sketches of the targets' gradients, ``[targets, numbers]``, weighted by learning rates."""
        fitted = point.fitted_to(model)
        state = fitted.state()
        check_finite_state(state, point.step)
        at = Point.of(model, loss, state, lambda name: name in self.what.parameters)
        shapes = {name: list(value.shape) for name, value in at.trained.items()}
        if shapes != self.what.parameters:
            raise errors.CheckpointMismatch(
                f"{self.folder} indexes gradients of other parameters than this network has; give the network that the "
                "index was built with"
            )
        projections = hashed_projections(at, self.what.numbers, self.what.seed)
        groups = fitted.groups or (tuple(at.trained),)
        rates = {name: rate for rate, group in zip(fitted.learning_rates, groups, strict=True) for name in group}
        found = []
        for risk in risks:
            gradient = risk_gradient(at, risk)
            weight = 1.0
            if similarity == "cosine":
                weight = point.learning_rate / max(float(_length(gradient)), torch.finfo(torch.float32).tiny)
            scaled = {
                name: value * (weight if similarity == "cosine" else rates[name]) for name, value in gradient.items()
            }
            found.append(sketch_of(scaled, projections).float().cpu().numpy())
        return np.stack(found)

    def _add(
        self,
        sums: NDArray[np.float64],
        sketches: NDArray[np.float32],
        part: int,
        step: int,
        similarity: Similarity,
    ) -> None:
        """Add one time step's products, or cosines, with all targets."""
        turned = torch.from_numpy(np.ascontiguousarray(sketches.T))
        for where, units, sizes in read_shards(self.folder, self.what, part, step, sums.shape[1]):
            for start in range(0, len(units), _AT_ONCE):
                block = torch.from_numpy(np.array(units[start : start + _AT_ONCE])).float()
                products = (block @ turned).double().numpy().T
                rows = slice(where.start + start, where.start + start + len(block))
                if similarity == "product":
                    products = products * sizes[start : start + _AT_ONCE]
                sums[:, rows] += products


@dataclass(frozen=True)
class _Shards:
    """The shards of one time step of one part."""

    folder: Path
    what: Indexed
    part: int
    point: TrajectoryPoint
    how: IndexSettings

    def write(self, model: nn.Module, view: View, positions: NDArray[np.int64], loss: Loss) -> Iterator[Path]:
        """Write the shards that are not there yet; yield the path of each once it is there."""
        how, starts = self.how, range(0, len(positions), self.what.shard)
        paths = [shard_path(self.folder, self.part, self.point.step, number) for number in range(len(starts))]
        if all(map(is_whole, paths)):
            yield from paths
            return
        at, load = prepared(
            model, self.point, view, positions, loss, how.batch_size, how.parameters, how.loader_workers
        )  # fmt: skip
        projections = hashed_projections(at, self.what.numbers, self.what.seed)
        for start, path in zip(starts, paths, strict=True):
            if not is_whole(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                rows = _rows(at, load, positions[start : start + self.what.shard], projections)
                write_shard(path, rows, how.precision)
            yield path


def _rows(
    point: Point, load: Load, positions: NDArray[np.int64], projections: dict[str, HashedProjection]
) -> NDArray[np.float32]:
    rows = np.concatenate([part.numpy() for part in hashed_sketches(point, lambda: load(positions), projections)])
    bad = np.flatnonzero(~np.isfinite(rows).all(1))
    if len(bad):
        raise errors.ValuesNotFinite(f"the gradient of sample {positions[bad[0]]} is not finite; look at its input")
    return rows


def _length(gradient: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return torch.stack([one.double().square().sum() for one in gradient.values()]).sum().sqrt()


def _write_point(folder: Path, point: TrajectoryPoint, total_steps: int) -> None:
    """Write the network of a time step, unless it is there as it was written."""
    path = point_path(folder, point.step)
    if path.exists() and state(path) != "damaged":
        return
    folder.mkdir(parents=True, exist_ok=True)
    note = {
        "format": 1, "step": point.step, "epoch": point.epoch, "total_steps": total_steps,
        "learning_rates": list(point.learning_rates), "groups": [list(group) for group in point.groups],
    }  # fmt: skip
    write_state(path, point.state(), note)
