"""Rates per group of parameters: the classifier has the recipe's rate, what lies before it a share of that rate."""

from torch import nn

from moso import errors
from moso.models.head import classifier_head
from moso.training.optimizers.rule import Settings


def rate_factors(model: nn.Module, settings: Settings) -> dict[str, float]:
    """Return what the learning rate is multiplied by, per trained parameter; a parameter that is not named has 1.

    A weight that the classifier shares with another layer belongs to the classifier.

    Raises:
        ModelUnsuitable: The recipe has a `trunk_factor`, and the network has no classifier that can be found.

    Example:
        >>> from moso.training.recipe import TrainingRecipe
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> recipe = TrainingRecipe(epochs=1, batch_size=1, learning_rate=1.0, schedule="constant", trunk_factor=0.1)
        >>> rate_factors(model, recipe)
        {'0.weight': 0.1, '0.bias': 0.1}
    """
    if settings.trunk_factor == 1:
        return {}
    try:
        head = classifier_head(model)[1]
    except errors.ModelUnsuitable as problem:
        raise errors.ModelUnsuitable(
            f"trunk_factor = {settings.trunk_factor:g} needs a classifier to tell trunk and head apart, and the "
            f"network ({type(model).__name__}) has no linear layer; leave trunk_factor out"
        ) from problem
    own = {id(parameter) for parameter in head.parameters()}
    trained = [name for name, one in model.named_parameters() if one.requires_grad and id(one) not in own]
    return dict.fromkeys(trained, settings.trunk_factor)
