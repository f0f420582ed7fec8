"""What a run is asked to do: its settings, and each method resolved with its selector."""

from moso.configuration.configuration import CUSTOM, Configuration

__all__ = ["CUSTOM", "Configuration"]
