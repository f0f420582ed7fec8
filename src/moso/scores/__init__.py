"""One file a score: evidence in, one float a sample out. Nobody here knows how samples are chosen."""

from moso.scores.moso import Form, agreement, moso
from moso.scores.moso_rank import moso_rank
from moso.scores.moso_standardised import moso_standardised
from moso.scores.registry import SCORES, Score, ScoreInput, find_score

__all__ = ["SCORES", "Form", "Score", "ScoreInput", "agreement", "find_score", "moso", "moso_rank", "moso_standardised"]
