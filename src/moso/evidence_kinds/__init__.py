"""The kinds of evidence that scores and selectors can need, as objects; `kind.py` says what one is."""

from moso.evidence_kinds.early_training import EARLY_ERRORS, EARLY_NORMS
from moso.evidence_kinds.final_outputs import FINAL
from moso.evidence_kinds.kind import EvidenceKind, Measuring, Price, RunSettings, SeedRun
from moso.evidence_kinds.label_free_embedding import EMBEDDING
from moso.evidence_kinds.out_of_sample import PREDICTIONS
from moso.evidence_kinds.parameter_influences import INFLUENCES
from moso.evidence_kinds.reference_features import FEATURES
from moso.evidence_kinds.registry import (
    KINDS,
    about_classes,
    averages,
    columns,
    find_kind,
    needed_kinds,
    needs_reference,
    needs_surrogates,
)
from moso.evidence_kinds.step_terms import TERMS
from moso.evidence_kinds.training_adjoint import ADJOINT
from moso.evidence_kinds.training_dynamics import DYNAMICS

__all__ = [
    "ADJOINT",
    "DYNAMICS",
    "EARLY_ERRORS",
    "EARLY_NORMS",
    "EMBEDDING",
    "FEATURES",
    "FINAL",
    "INFLUENCES",
    "KINDS",
    "PREDICTIONS",
    "TERMS",
    "EvidenceKind",
    "Measuring",
    "Price",
    "RunSettings",
    "SeedRun",
    "about_classes",
    "averages",
    "columns",
    "find_kind",
    "needed_kinds",
    "needs_reference",
    "needs_surrogates",
]
