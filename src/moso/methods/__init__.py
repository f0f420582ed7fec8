"""A method is a named preset of a score, a selector and the source's settings."""

from moso.methods.registry import METHODS, Method, find_method, listing

__all__ = ["METHODS", "Method", "find_method", "listing"]
