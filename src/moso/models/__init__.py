"""Networks: small ones of our own, timm's by name, the user's own by `package.module:factory`."""

from moso.models.head import classifier_head
from moso.models.registry import build_model, check_model, models

__all__ = ["build_model", "check_model", "classifier_head", "models"]
