"""Other people's attributions of the same run: TRAK (`traker`) and TracIn (`dattri`), as far as they are installed.

Both give a matrix (training sample x target). Summed over all samples as targets it says, like a score of moso's, how
much the risk of the set owes to each sample: high means keep.
"""

import contextlib
import io
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from moso.evidence import TrajectoryPoint

Scores = NDArray[np.float64]
CHECKPOINTS = 10
PROJECTED = 64  # far below the smallest set: TRAK inverts a matrix of this size made from its samples


def trak(model: nn.Module, points: Sequence[TrajectoryPoint], inputs: torch.Tensor, labels: torch.Tensor) -> Scores:
    """TRAK of the trained network, its own classification task, projected to 64 numbers."""
    from trak import TRAKer
    from trak.projectors import BasicProjector

    model.eval()
    state, count = points[-1].state(), len(labels)
    size = sum(value.numel() for value in model.parameters())
    # In two blocks, because its projector forgets a single one when features are finalised.
    projector = BasicProjector(
        grad_dim=size, proj_dim=PROJECTED, seed=0, proj_type="rademacher", device="cpu", block_size=PROJECTED // 2
    )
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        tracer = TRAKer(
            model=model,
            task="image_classification",
            train_set_size=count,
            save_dir=folder,
            device="cpu",
            projector=projector,
            use_half_precision=False,
            logging_level=50,
        )
        tracer.load_checkpoint(state, model_id=0)
        tracer.featurize(batch=(inputs, labels), num_samples=count)
        tracer.finalize_features()
        tracer.start_scoring_checkpoint("own", state, model_id=0, num_targets=count)
        tracer.score(batch=(inputs, labels), num_samples=count)
        found = tracer.finalize_scores("own")
    totals: Scores = np.asarray(found, dtype=np.float64).sum(axis=1)
    return totals


def tracin(model: nn.Module, points: Sequence[TrajectoryPoint], inputs: torch.Tensor, labels: torch.Tensor) -> Scores:
    """dattri's TracIn over ten evenly spaced checkpoints, without its random projection."""
    from dattri.algorithm import TracInAttributor
    from dattri.task import AttributionTask
    from torch.utils.data import DataLoader, TensorDataset

    chosen = [points[number] for number in np.linspace(0, len(points) - 1, min(CHECKPOINTS, len(points))).astype(int)]

    def loss(parameters: Any, data: Any) -> torch.Tensor:
        image, label = data
        outputs = torch.func.functional_call(model, parameters, (image.unsqueeze(0),))
        return F.cross_entropy(outputs, label.unsqueeze(0))

    model.eval()
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=len(labels), shuffle=False)
    task = AttributionTask(loss_func=loss, model=model, checkpoints=[point.state() for point in chosen])
    rates = torch.tensor([point.learning_rate for point in chosen])
    attributor = TracInAttributor(task=task, weight_list=rates, normalized_grad=False, device="cpu")
    attributor.projector_kwargs = None
    with contextlib.redirect_stderr(io.StringIO()):
        found = attributor.attribute(loader, loader)
    totals: Scores = np.asarray(found, dtype=np.float64).sum(axis=1)
    return totals


RIVALS: dict[str, Callable[..., Scores]] = {"trak": trak, "tracin": tracin}
