"""Selectors, one file per selector: scores and a budget in, kept positions out. Selectors do not know about scoring."""

from moso.selection.budget import check_ratio, kept_count
from moso.selection.feature_rows import Features
from moso.selection.in_memory import SelectArguments, select, select_weighted
from moso.selection.kept_positions import Kept
from moso.selection.problem import Problem
from moso.selection.registry import SELECTORS, find_selector, selectors
from moso.selection.selector import Selector
from moso.selection.share import Keep, parse_keep, parse_share
from moso.selection.stream import select_stream
from moso.settings import Option, Settings

__all__ = [
    "SELECTORS",
    "Features",
    "Keep",
    "Kept",
    "Option",
    "Problem",
    "SelectArguments",
    "Selector",
    "Settings",
    "check_ratio",
    "find_selector",
    "kept_count",
    "parse_keep",
    "parse_share",
    "select",
    "select_stream",
    "select_weighted",
    "selectors",
]
