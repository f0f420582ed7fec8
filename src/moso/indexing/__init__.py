"""An index of gradients: projected per-sample gradients on disk, which answer new targets without a sweep."""

from moso.indexing.gradient_index import GradientIndex

__all__ = ["GradientIndex"]
