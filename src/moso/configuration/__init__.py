"""The configuration of a run: its settings, and each method resolved with its selector.

`Configuration` is imported on first use, because it needs torch and the settings in `fields.py` do not.
"""

from typing import TYPE_CHECKING, Any

from moso.configuration.fields import CUSTOM

if TYPE_CHECKING:
    from moso.configuration.configuration import Configuration

__all__ = ["CUSTOM", "Configuration"]


def __getattr__(name: str) -> Any:
    if name == "Configuration":
        from moso.configuration.configuration import Configuration

        return Configuration
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
