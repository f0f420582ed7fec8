"""A method is a named preset of a score, a selector and the source's settings."""

from moso.methods.catalogue import listing
from moso.methods.method import Method
from moso.methods.registry import METHODS, find_method, methods

__all__ = ["METHODS", "Method", "find_method", "listing", "methods"]
