"""Selectors' settings are of the kind that scores have, too: `moso.settings`."""

from moso.settings import Option, Settings, setting

__all__ = ["Option", "Settings", "setting"]
