"""A recipe's optimiser as PyTorch has it, which the package itself does not use."""

import torch
from torch import nn

from moso.training.recipe import TrainingRecipe


def torch_optimizer(model: nn.Module, how: TrainingRecipe) -> torch.optim.Optimizer:
    """The optimiser of `torch.optim` that a recipe names; what is not the last linear layer is a group of its own."""
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    last = [] if how.trunk_factor == 1 else list(linear[-1].parameters())
    groups: dict[float, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            factor = 1.0 if any(parameter is one for one in last) else how.trunk_factor
            groups.setdefault(factor, []).append(parameter)
    trained = [{"params": own, "factor": factor} for factor, own in groups.items()]
    options = {"lr": how.learning_rate, "weight_decay": how.weight_decay}
    if how.optimizer == "sgd":
        return torch.optim.SGD(trained, momentum=how.momentum, nesterov=how.nesterov, **options)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[how.optimizer]
    return kind(trained, betas=(how.momentum, how.beta2), eps=how.epsilon, **options)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group its rate: the recipe's times the group's factor."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["factor"]
