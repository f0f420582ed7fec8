"""The classifier of a network: the layer that turns features into logits."""

from collections.abc import Callable

from torch import nn

from moso import errors


def classifier_head(model: nn.Module) -> tuple[str, nn.Module]:
    """Return the name and the module of the classifier: the one that timm reports, otherwise the last linear layer.

    Raises:
        ModelUnsuitable: The network has no linear layer.

    Example:
        >>> classifier_head(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
        ('2', Linear(in_features=8, out_features=2, bias=True))
    """
    ask: Callable[[], object] | None = getattr(model, "get_classifier", None)
    said = ask() if ask is not None else None
    linear: tuple[str, nn.Module] | None = None
    for name, module in model.named_modules():
        if id(module) == id(said) and list(module.parameters()):  # an identity in its place has no parameters
            return name, module
        if isinstance(module, nn.Linear):
            linear = name, module
    if linear is None:
        raise errors.ModelUnsuitable(
            f"the network ({type(model).__name__}) has no linear layer, so its classifier cannot be found; "
            "name the parameters instead of 'head'"
        )
    return linear
