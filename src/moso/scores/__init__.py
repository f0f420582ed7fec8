"""Scores, one file per score: evidence in, one float per sample out. Scores know nothing about selection."""

from moso.scores.memory import MemoryInput
from moso.scores.moso import agreement, moso_score
from moso.scores.moso_rank import moso_rank_score
from moso.scores.moso_standardised import moso_standardised_score
from moso.scores.registry import SCORES, find_score, scores
from moso.scores.score import OUT_OF_SAMPLE, Form, Hard, Score, ScoreInput, Unseen

__all__ = [
    "OUT_OF_SAMPLE",
    "SCORES",
    "Form",
    "Hard",
    "MemoryInput",
    "Score",
    "ScoreInput",
    "Unseen",
    "agreement",
    "find_score",
    "moso_rank_score",
    "moso_score",
    "moso_standardised_score",
    "scores",
]
