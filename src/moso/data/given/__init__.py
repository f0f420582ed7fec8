"""Data as users have it: arrays, frames, Hugging Face datasets, map-style datasets, streams; one file per kind."""

from moso.data.given.given import Given
from moso.data.given.recognition import look_at, splits_of

__all__ = ["Given", "look_at", "splits_of"]
