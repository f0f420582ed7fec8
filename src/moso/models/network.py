"""What a network is to the rest of the package: a name, what it takes, and how it is made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import nn

Inputs = Literal["numbers", "images", "texts"]


@dataclass(frozen=True)
class Network:
    """A network by name.

    Attributes:
        name: What it is called.
        description: What it is, for the listing.
        make: Called with the shape of one input (for texts `(vocabulary, length)`), the number of outputs and, if the
            network has a width, `width=`; gives the network with its first parameters. Imports here, not at the top of
            its file, keep what is heavy out of the way until the network is used.
        takes: What inputs are; `numbers` are inputs of any shape.
        width: The usual width, if a user may choose another as in `convnet-w32`.
    """

    name: str
    description: str
    make: Callable[..., nn.Module]
    takes: Inputs = "images"
    width: int | None = None

    @property
    def full_description(self) -> str:
        """The description, and how another width is chosen.

        >>> Network("mine", "one hidden layer", nn.Flatten, "numbers", 16).full_description
        'one hidden layer (another width: mine-w32)'
        """
        return self.description + ("" if self.width is None else f" (another width: {self.name}-w{2 * self.width})")
