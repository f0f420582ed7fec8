"""Where a network starts: random weights, timm's pretrained ones or those of a file; and what of it moves."""

from dataclasses import dataclass

from moso import errors
from moso.models.freezing import ALL, check_training


@dataclass(frozen=True)
class Start:
    """Initial weights of a network, and the part of it that is trained.

    Attributes:
        pretrained: Take timm's own weights, or call the user's factory with `pretrained=True`.
        weights: File of weights to load.
        train: What moves: `all`, `head`, `last:N`, or an adapter, `lora:RANK` or `dora:RANK`.

    Example:
        >>> Start(weights="mine.safetensors").is_from_scratch, Start(train="head").is_from_scratch
        (False, True)
    """

    pretrained: bool = False
    weights: str = ""
    train: str = ALL

    def __post_init__(self) -> None:
        check_training(self.train)
        if self.pretrained and self.weights:
            raise errors.SettingsConflict("give pretrained or a file of weights, not both")

    @property
    def is_from_scratch(self) -> bool:
        """Whether the weights are random."""
        return not (self.pretrained or self.weights)


FROM_SCRATCH = Start()
