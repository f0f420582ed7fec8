"""All kinds of evidence by name: built-in ones, and those of installed packages (entry points `moso.evidence`)."""

from collections.abc import Iterable

from moso.evidence_kinds.adam_similarities import ADAM_SIMILARITIES
from moso.evidence_kinds.class_labels import LABELS
from moso.evidence_kinds.cross_terms import CROSS_TERMS, CROSS_TERMS_ALL
from moso.evidence_kinds.early_training import EARLY_ANSWERS, EARLY_ERRORS, EARLY_NORMS
from moso.evidence_kinds.final_outputs import FINAL
from moso.evidence_kinds.kind import EvidenceKind
from moso.evidence_kinds.label_free_embedding import EMBEDDING
from moso.evidence_kinds.out_of_sample import PREDICTIONS
from moso.evidence_kinds.parameter_influences import INFLUENCES
from moso.evidence_kinds.reference_features import FEATURES
from moso.evidence_kinds.reference_probabilities import PROBABILITIES
from moso.evidence_kinds.risk_influences import RISK_INFLUENCES
from moso.evidence_kinds.step_terms import NORMS, TERMS
from moso.evidence_kinds.subset_trainings import SUBSETS
from moso.evidence_kinds.surrogate_outputs import SEEN, UNSEEN
from moso.evidence_kinds.training_adjoint import ADJOINT
from moso.evidence_kinds.training_dynamics import DYNAMICS
from moso.evidence_kinds.unseen_losses import UNSEEN_LOSSES
from moso.registry import Registry

# In the order of measuring, the longest first: an embedding takes its own training.
_OURS: tuple[EvidenceKind[object], ...] = (
    *(EMBEDDING, SUBSETS, INFLUENCES, RISK_INFLUENCES, FEATURES, PROBABILITIES, PREDICTIONS, ADJOINT),
    *(TERMS, CROSS_TERMS, CROSS_TERMS_ALL, ADAM_SIMILARITIES),
    *(EARLY_ERRORS, EARLY_ANSWERS, EARLY_NORMS, FINAL, SEEN, UNSEEN, UNSEEN_LOSSES, DYNAMICS, LABELS, NORMS),
)
_ORDER = {kind.name: number for number, kind in enumerate(_OURS)}
KINDS: Registry[EvidenceKind[object]] = Registry("kind of evidence", EvidenceKind, "moso.evidence", _OURS)

# Inputs of selectors that are no kind of evidence themselves, and the evidence that they are computed from.
BEHIND = {"probability": "dynamics:probability", "class-error": "predictions"}


def find_kind(name: str) -> EvidenceKind[object] | None:
    """Return the kind of evidence of a name, `NAME` or `NAME:COLUMN`, or None if there is none.

    Example:
        >>> [kind and kind.name for kind in map(find_kind, ("dynamics:margin", "dynamics:mood", "terms"))]
        ['dynamics', None, 'terms']
    """
    own, colon, column = name.partition(":")
    kind = KINDS.find(own)
    if kind is None or (column not in kind.columns if kind.columns else bool(colon)):
        return None
    return kind


def needed_kinds(needs: Iterable[str]) -> list[EvidenceKind[object]]:
    """Return the kinds of these names, each once, in the order of measuring; unknown names are skipped.

    Example:
        >>> [kind.name for kind in needed_kinds({"final:gap", "terms", "final:entropy"})]
        ['terms', 'final']
    """
    found = {kind.name: kind for kind in map(find_kind, needs) if kind is not None}
    return sorted(found.values(), key=lambda kind: (_ORDER.get(kind.name, len(_ORDER)), kind.name))


def columns(needs: Iterable[str], kind: EvidenceKind[object]) -> tuple[str, ...]:
    """Return the sorted columns of a kind that are among these names.

    Example:
        >>> columns({"terms", "dynamics:margin", "dynamics:correct"}, DYNAMICS)
        ('correct', 'margin')
    """
    return tuple(sorted(name.partition(":")[2] for name in needs if name.startswith(f"{kind.name}:")))


def needs_reference(needs: Iterable[str]) -> bool:
    """Return whether a network has to be trained on all data.

    Example:
        >>> needs_reference({"terms", "labels"}), needs_reference({"final:entropy"})
        (False, True)
    """
    return any(kind.network in ("reference", "initialisation") for kind in needed_kinds(needs))


def needs_surrogates(needs: Iterable[str]) -> bool:
    """Return whether a surrogate has to be trained per partition."""
    return any(kind.network in ("surrogate", "surrogates") for kind in needed_kinds(needs))


def needs_moments(needs: Iterable[str]) -> bool:
    """Return whether the moments of the optimiser have to be recorded with every sampled step.

    Example:
        >>> needs_moments({"terms"}), needs_moments({"less-similarities"})
        (False, True)
    """
    return any(kind.reads_moments for kind in needed_kinds(needs))


def averages(needs: Iterable[str]) -> bool:
    """Return whether scores average over several initialisations."""
    return any(kind.network == "initialisation" for kind in needed_kinds(needs))


def about_classes(needs: Iterable[str]) -> bool:
    """Return whether any evidence of these names exists only for samples with classes.

    Example:
        >>> about_classes({"dynamics:margin"}), about_classes({"early-norms", "features"})
        (True, False)
    """
    return any(kind.about_classes for kind in needed_kinds(needs))
