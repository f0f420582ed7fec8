"""Per-sample losses of transformers' heads, as `moso.score` needs them: one number per sample instead of one per batch.

For a batch of one sample the value is the model's own `loss`. Heads that predict a token per position (language models,
token classification) average a sample's loss over the sample's own labelled positions, so that it does not depend on
the other samples of the batch.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from moso import errors
from moso.tasks.language import following, token_shares

_ANSWERS = ("start_positions", "end_positions")


def head_loss(model: nn.Module, batch: Mapping[str, Any], label_smoothing: float = 0.0) -> torch.Tensor:
    """Return the loss of each sample, ``[batch]``, from the logits of a model of transformers.

    Classification (of sequences, images, audio), several labels per sample, regression, token classification, masked,
    causal and sequence-to-sequence language models, and extractive question answering are covered. A model of your own
    is covered if `model(**batch)` returns `logits` in a mapping or as an attribute.

    Args:
        model: The network, also under peft.
        batch: What the data collator makes: the inputs of the network by name, and `labels`.
        label_smoothing: As `TrainingArguments.label_smoothing_factor`; for labels that are classes.

    Raises:
        LabelsMissing: The batch has no labels.
        LossInvalid: The outputs are those of another kind of head; write the loss yourself.

    Example:
        >>> class Model(nn.Module):
        ...     def forward(self, inputs, labels=None):
        ...         return {"logits": inputs}
        >>> head_loss(Model(), {"inputs": torch.zeros(3, 2), "labels": torch.tensor([0, 1, 0])}).tolist()
        [0.6931471824645996, 0.6931471824645996, 0.6931471824645996]
    """
    if all(name in batch for name in _ANSWERS):
        return _spans(model, batch)
    if "labels" not in batch:
        raise errors.LabelsMissing(
            f"the batch has no 'labels', only {', '.join(batch)}; name the column so, or give loss="
        )
    config, labels = getattr(model, "config", None), batch["labels"]
    is_encoder_decoder = bool(getattr(config, "is_encoder_decoder", False))
    # Without labels, models of transformers skip the mean loss, which is not read here. The decoder of a
    # sequence-to-sequence model starts from the labels, and a model of the user's own may need them.
    starts_from_labels = is_encoder_decoder and "decoder_input_ids" not in batch
    withheld = {"labels"} if hasattr(model, "loss_type") and not starts_from_labels else set()
    logits = _output(model(**{name: value for name, value in batch.items() if name not in withheld}), "logits")
    if logits.ndim == 3 and labels.ndim == 2:
        if _is_shifted(model) and not is_encoder_decoder:
            labels = following(labels)
        return token_shares(logits, labels, label_smoothing).sum(1)
    if logits.ndim == 2:
        return _samples(logits, labels, getattr(config, "problem_type", None), label_smoothing)
    raise errors.LossInvalid(
        f"logits {tuple(logits.shape)} with labels {tuple(labels.shape)} belong to a head that has no per-sample loss "
        "here; give loss=, a function (model, batch) -> [batch]"
    )


def _samples(logits: torch.Tensor, labels: torch.Tensor, problem: str | None, smoothing: float) -> torch.Tensor:
    """Return the losses of one output per sample; an unnamed problem is told by the labels, as transformers does."""
    count, outputs = logits.shape
    if problem is None:
        whole = not labels.is_floating_point()
        problem = "regression" if outputs == 1 else "single_label_classification" if whole else "multi_label"
    if problem == "regression":
        return (logits - labels.reshape(count, -1)).square().mean(1)
    if problem == "single_label_classification":
        return F.cross_entropy(logits, labels.reshape(count), reduction="none", label_smoothing=smoothing)
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none").mean(1)


def _spans(model: nn.Module, batch: Mapping[str, Any]) -> torch.Tensor:
    outputs = model(**{name: value for name, value in batch.items() if name not in _ANSWERS})
    losses = []
    for name, answer in zip(("start_logits", "end_logits"), _ANSWERS, strict=True):
        logits = _output(outputs, name)
        beyond = logits.shape[1]  # positions behind a truncated text have no loss
        targets = batch[answer].reshape(len(logits)).clamp(0, beyond)
        losses.append(F.cross_entropy(logits, targets, reduction="none", ignore_index=beyond))
    return (losses[0] + losses[1]) / 2


def _output(outputs: Any, name: str) -> torch.Tensor:
    found = _named(outputs, name)
    if not isinstance(found, torch.Tensor):
        raise errors.LossInvalid(
            f"the network returns a {type(outputs).__name__} without {name!r}; give loss=, a function "
            "(model, batch) -> [batch]"
        )
    return found


def _named(outputs: Any, name: str) -> Any:
    return outputs.get(name) if isinstance(outputs, Mapping) else getattr(outputs, name, None)


def _is_shifted(model: nn.Module) -> bool:
    """Return whether position n of the logits predicts label n + 1."""
    bare = under_adapter(model)
    causal = getattr(bare, "loss_type", None) in {"ForCausalLM", "ForConditionalGeneration"}
    return causal or type(bare).__name__.endswith("LMHeadModel")


def under_adapter(model: nn.Module) -> nn.Module:
    """Return the network under peft's wrapper, or the network itself."""
    inner: nn.Module = getattr(model, "get_base_model", lambda: model)()
    return inner


def check_own_loss(model: nn.Module, batch: Mapping[str, Any]) -> None:
    """Compare `head_loss` with the loss that the model itself returns for a batch of one sample, if it returns one.

    Raises:
        LossInvalid: They differ, so the model computes another loss than its logits tell.
    """
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            own, found = _named(model(**batch), "loss"), head_loss(model, batch)
    finally:
        model.train(was_training)
    if isinstance(own, torch.Tensor) and bool(own.isfinite()) and own.numel() == 1:
        precision = 1e-4 if own.dtype in (torch.float32, torch.float64) else 0.05
        if not torch.isclose(own.float().reshape(1), found.float(), rtol=precision, atol=precision).all():
            raise errors.LossInvalid(
                f"{type(model).__name__} returns the loss {own.item():.6g} for a sample whose logits give "
                f"{found.item():.6g}: it computes a loss of its own; give loss=, a function (model, batch) -> [batch]"
            )
