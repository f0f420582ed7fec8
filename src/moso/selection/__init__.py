"""One file a selector: scores and a budget in, kept positions out. Nobody here knows where scores came from."""

from moso.selection.budget import check_ratio, kept_count
from moso.selection.problem import Problem
from moso.selection.select import SELECTORS, Selector, find_selector, select

__all__ = ["SELECTORS", "Problem", "Selector", "check_ratio", "find_selector", "kept_count", "select"]
