"""Hugging Face transformers: record a `Trainer`'s training, and score its samples without writing a loss.

callback = MosoCallback("runs/trajectory")
trainer = Trainer(model, arguments, train_dataset=dataset, data_collator=collator, callbacks=[callback])
trainer.train()
scores = score(trainer, callback.trajectory)
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn
from torch.optim import Optimizer

from moso import errors
from moso.api import score as score_samples
from moso.api.trajectory_scores import Combination
from moso.data.views import Collate, tree_bytes
from moso.evidence import ParameterFilter, Trajectory
from moso.evidence.network_names import as_network
from moso.gradients import Loss
from moso.gradients.losses import to_device
from moso.integrations.framework_recording import Recording
from moso.integrations.head_losses import check_own_loss, head_loss, under_adapter
from moso.integrations.needed import needed
from moso.scores import Score

with needed("transformers"):
    from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from transformers.data.data_collator import default_data_collator


class MosoCallback(TrainerCallback):  # type: ignore[misc] # transformers is not type-checked
    """Records the training of a `Trainer`: give it as `Trainer(..., callbacks=[MosoCallback("runs/trajectory")])`.

    The number of updates is `state.max_steps`; updates are seen inside `optimizer.step()`, immediately before
    `on_optimizer_step` and before the scheduler. Training resumed by `train(resume_from_checkpoint=...)` continues the
    recording in the same folder. Of several processes, the first records.

    Args:
        folder: Where the sampled steps are written.
        samples: Number of steps to write (the paper's K).
        seed: Seed of the draw of steps.
        trainable_only: Write only what training changes. None does so if a parameter is frozen, as under an adapter.
        overwrite: Delete the trajectory of an earlier training in `folder`; without it, such a folder is refused.
        moments: Also write the optimiser's moments, for optimizer-aware scores.

    Example:
        >>> MosoCallback("runs/trajectory", samples=20).recording.samples
        20
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        samples: int = 10,
        seed: int = 0,
        trainable_only: bool | None = None,
        overwrite: bool = False,
        moments: bool = False,
    ) -> None:
        self.recording = Recording(
            folder,
            samples=samples,
            seed=seed,
            trainable_only=trainable_only,
            overwrite=overwrite,
            moments=moments,
        )

    @property
    def trajectory(self) -> Trajectory:
        """The trajectory of the last training (`Recording.trajectory`)."""
        return self.recording.trajectory

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: nn.Module | None = None,
        optimizer: Optimizer | None = None,
        **kwargs: Any,
    ) -> None:
        """Begin the recording, or continue that of the training that is resumed."""
        if state.is_world_process_zero:
            assert model is not None
            assert optimizer is not None
            done = self.recording.noted(state.global_step)
            self.recording.begin(model, [optimizer], total_steps=state.max_steps, done=done)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Note the epoch of the next update."""
        self.recording.at_epoch(int(state.epoch or 0))

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Note the number of updates at a checkpoint; updates skipped in float16 are steps for `Trainer` only."""
        if state.is_world_process_zero:
            self.recording.note(state.global_step)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """End the recording."""
        self.recording.end()


def score(
    trained: Trainer | nn.Module,
    trajectory: Trajectory,
    dataset: Any = None,
    *,
    data_collator: Callable[[list[Any]], Any] | None = None,
    loss: Loss | None = None,
    method: Combination | Score = "moso",
    parameters: ParameterFilter | None = None,
    batch_size: int | None = None,
    optimizer_aware: bool = False,
) -> NDArray[np.float64]:
    """Score every sample of a dataset by a recorded trajectory; loss, collator and columns are those of the `Trainer`.

    Args:
        trained: The trainer, or a model.
        trajectory: What a `MosoCallback` or a `moso.Recorder` recorded.
        dataset: Map-style dataset of dictionaries; by default the training dataset of the trainer.
        data_collator: Makes a batch from a list of items; by default that of the trainer, or `default_data_collator`.
        loss: Per-sample loss, `loss(model, batch) -> [batch]`; by default that of the model's head (`head_loss`).
        method: Name of a score that is computed from step terms, or a `Score` that needs no other evidence.
        parameters: Filter by parameter name, for example the last layer only.
        batch_size: Samples per batch; None finds a size that suits the network and the device.
        optimizer_aware: Compare gradients as the optimiser rescales them; the callback needs `moments=True`.

    Returns:
        One float64 per sample, in dataset order, shape ``[samples]``.

    Raises:
        MosoError: ``setting-missing`` if the trainer computes a loss of its own or a model comes without a dataset,
            ``dataset-random`` if the collator draws at random, ``loss-invalid`` if the model returns another loss than
            its logits give, and those of `moso.score`.
    """
    trainer = trained if isinstance(trained, Trainer) else None
    smoothing = 0.0
    model = as_network(trained if trainer is None else trainer.model)
    if trainer is not None:
        dataset = trainer.train_dataset if dataset is None else dataset
        data_collator = data_collator or trainer.data_collator
        smoothing = _smoothing_of(trainer) if loss is None else 0.0
    if dataset is None:
        raise errors.SettingMissing("a model was given without a dataset; write score(model, trajectory, dataset)")
    collate = data_collator or default_data_collator
    if trainer is None or trainer.args.remove_unused_columns:
        collate = _of_columns(collate, _columns(model, () if trainer is None else trainer.label_names))
    _check_repeats(collate, dataset)
    if loss is None:
        check_own_loss(model, to_device(collate([dataset[0]]), next(model.parameters()).device))
    return score_samples(
        model,
        dataset,
        trajectory,
        loss=loss or partial(head_loss, label_smoothing=smoothing),
        collate=collate,
        method=method,
        parameters=parameters,
        batch_size=batch_size,
        optimizer_aware=optimizer_aware,
    )


def _smoothing_of(trainer: Trainer) -> float:
    """Return the label smoothing of a trainer that takes its loss from the model; refuse one that does not."""
    own = type(trainer).compute_loss is not Trainer.compute_loss
    if own or trainer.compute_loss_func is not None:
        what = f"{type(trainer).__name__}.compute_loss" if own else "compute_loss_func"
        raise errors.SettingMissing(
            f"this trainer computes its loss by {what}, which gives one number per batch; "
            "give loss=, a function (model, batch) -> [batch]"
        )
    return float(trainer.args.label_smoothing_factor)


def _columns(model: nn.Module, label_names: Sequence[str]) -> set[str]:
    """Return the columns that reach the network: the arguments of its `forward`, and the labels."""
    return {*inspect.signature(under_adapter(model).forward).parameters, "label", "label_ids", "labels", *label_names}


def _of_columns(collate: Collate, columns: set[str]) -> Collate:
    """Return a collator that leaves out the other columns of items, as `Trainer` does."""

    def collated(items: list[Any]) -> Any:
        kept = [
            {name: value for name, value in item.items() if name in columns} if isinstance(item, Mapping) else item
            for item in items
        ]
        return collate(kept)

    return collated


def _check_repeats(collate: Collate, dataset: Any) -> None:
    """Refuse a collator that masks or augments at random: scores need the same sample at every step."""
    items = [dataset[position] for position in range(min(8, len(dataset)))]
    if items and len({tree_bytes(dict(collate([dict(item) for item in items]))) for _ in range(4)}) > 1:
        raise errors.DatasetRandom(
            "the data collator draws at random: it makes different batches of the same samples; give data_collator= "
            "one that does not, for example with the masks drawn once and kept as columns of the dataset"
        )
