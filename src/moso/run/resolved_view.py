"""The view in which samples are scored, where the setting leaves it open (`view = "auto"`).

In evaluation mode the mean gradient of a network with batch-norm, or one that was trained on augmented samples, is
mostly one that would mend the mismatch between the two modes, on which all samples agree (docs/view.md). Without both
the two views are the same, and evaluation mode saves a forward pass.
"""

from collections.abc import Callable
from typing import Literal

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from moso.configuration import Configuration
from moso.evidence.estimators import IN_RUN
from moso.evidence_kinds.registry import needed_kinds
from moso.models.freezing import is_held

View = Literal["evaluation", "training"]


def resolved_view(configuration: Configuration, network: Callable[[], nn.Module]) -> tuple[View, str]:
    """Return the view that `auto` stands for, and the reason in one sentence; the reason for evaluation mode is empty.

    Args:
        configuration: The settings of the run.
        network: Builds the network of the surrogates; called only if the view depends on it.

    Example:
        >>> digits = Configuration.resolve({"dataset": "digits", "methods": ["moso-rank"]})
        >>> resolved_view(digits, lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)))
        ('training', 'scored as training saw the samples (view = training): the network has batch-norm; ...')
    """
    at_steps = any(kind.moment == "steps" for kind in needed_kinds(configuration.needs()))
    if not at_steps or configuration.estimator == IN_RUN or configuration.shard_size:
        return "evaluation", ""
    augmented = configuration.surrogate.augmentation != "none"
    normed = any(isinstance(module, _BatchNorm) and not is_held(module) for module in network().modules())
    why = " and ".join(
        [*(["the network has batch-norm"] if normed else []), *(["samples are augmented"] if augmented else [])]
    )
    if not why:
        return "evaluation", ""
    return "training", f"scored as training saw the samples (view = training): {why}; --view evaluation turns it off"
