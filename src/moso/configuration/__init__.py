"""The configuration of a run: its settings, and each method resolved with its selector."""

from moso.configuration.configuration import CUSTOM, Configuration

__all__ = ["CUSTOM", "Configuration"]
