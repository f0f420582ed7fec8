"""A recipe's optimiser as PyTorch has it, which the package itself does not use."""

import torch
from torch import nn

from moso.training.recipe import TrainingRecipe


def torch_optimizer(model: nn.Module, how: TrainingRecipe) -> torch.optim.Optimizer:
    """The optimiser of `torch.optim` that a recipe names, over all trainable parameters."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    options = {"lr": how.learning_rate, "weight_decay": how.weight_decay}
    if how.optimizer == "sgd":
        return torch.optim.SGD(trained, momentum=how.momentum, nesterov=how.nesterov, **options)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[how.optimizer]
    return kind(trained, betas=(how.momentum, how.beta2), eps=how.epsilon, **options)
