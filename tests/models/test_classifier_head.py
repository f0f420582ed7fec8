"""Where the classifier is."""

import pytest
from torch import nn

from moso.errors import MosoError
from moso.models import build_model, classifier_head


@pytest.mark.parametrize("name", ["linear", "tanh", "mlp", "convnet", "resnet8"])
def test_built_in_networks_end_in_their_classifier(name: str) -> None:
    model = build_model(name, (1, 8, 8), classes=7, seed=0)
    found, head = classifier_head(model)
    assert found == "classifier"
    assert isinstance(head, nn.Linear)
    assert head.out_features == 7


class Said(nn.Module):
    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head, self.projection = head, nn.Linear(3, 4)

    def get_classifier(self) -> nn.Module:
        return self.head


def test_what_the_network_says_comes_first() -> None:
    assert classifier_head(Said(nn.Conv2d(3, 2, 1)))[0] == "head"


def test_a_head_without_parameters_is_no_classifier() -> None:
    assert classifier_head(Said(nn.Identity()))[0] == "projection"


def test_a_network_without_linear_layers_is_refused() -> None:
    with pytest.raises(MosoError, match=r"\(Conv2d\) has no linear layer"):
        classifier_head(nn.Conv2d(1, 1, 1))
