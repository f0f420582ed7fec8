"""The library in three verbs: `prune` does the whole job, `score` and `moso.select` are its halves."""

from moso.api.prune_config import PruneConfig
from moso.api.pruned import Pruned
from moso.api.pruning import prune
from moso.api.sequence_data import SequenceData
from moso.api.tokens_that_pull import TokenScores, token_scores
from moso.api.trajectory_scores import Combination, score

__all__ = ["Combination", "PruneConfig", "Pruned", "SequenceData", "TokenScores", "prune", "score", "token_scores"]
