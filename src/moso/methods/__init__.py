"""A method is a named preset of a score, a selector and the source's settings."""

from moso.methods.catalogue import FAMILIES, listing
from moso.methods.method import Family, Method, Traits
from moso.methods.registry import METHODS, find_method, known_method, methods, out_of_sample_names

__all__ = [
    "FAMILIES",
    "METHODS",
    "Family",
    "Method",
    "Traits",
    "find_method",
    "known_method",
    "listing",
    "methods",
    "out_of_sample_names",
]
