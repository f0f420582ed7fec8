"""Networks: small built-in ones, timm's by name, and the user's own by `package.module:factory`."""

from moso.models.head import classifier_head
from moso.models.network import Network
from moso.models.registry import MODELS, build_model, check_embeds, check_model, models, starts_at_random
from moso.models.start import FROM_SCRATCH, Start

__all__ = [
    "FROM_SCRATCH",
    "MODELS",
    "Network",
    "Start",
    "build_model",
    "check_embeds",
    "check_model",
    "classifier_head",
    "models",
    "starts_at_random",
]
