"""The library in three verbs: `prune` does the whole job, `score` and `moso.select` are its halves."""

from moso.api.prune_config import PruneConfig
from moso.api.pruned import Pruned
from moso.api.pruning import prune
from moso.api.trajectory_scores import Combination, score

__all__ = ["Combination", "PruneConfig", "Pruned", "prune", "score"]
