"""The registry entry of a network: its name, its kind of input, and how it is built."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import nn

Inputs = Literal["numbers", "images", "texts"]


@dataclass(frozen=True)
class Network:
    """A network by name.

    Attributes:
        name: Its name.
        description: What it is, for the listing.
        make: Called with the shape of one input (for texts `(vocabulary, length)`), the number of outputs and, if the
            network has a width, `width=`; returns the initialised network. Heavy packages should be imported inside it,
            not at the top of its file, so that they load only if the network is used.
        takes: Kind of input; `numbers` are inputs of any shape.
        width: Default width, if a user may choose another as in `convnet-w32`.
    """

    name: str
    description: str
    make: Callable[..., nn.Module]
    takes: Inputs = "images"
    width: int | None = None

    @property
    def full_description(self) -> str:
        """The description, with a hint of how to choose another width.

        Example:
            >>> Network("mine", "one hidden layer", nn.Flatten, "numbers", 16).full_description
            'one hidden layer (another width: mine-w32)'
        """
        return self.description + ("" if self.width is None else f" (another width: {self.name}-w{2 * self.width})")
