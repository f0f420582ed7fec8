"""The kinds of evidence there are, by name: ours, and those of installed packages (entry points `moso.evidence`)."""

from collections.abc import Iterable

from moso.evidence_kinds.class_labels import LABELS
from moso.evidence_kinds.early_training import EARLY_ERRORS, EARLY_NORMS
from moso.evidence_kinds.final_outputs import FINAL
from moso.evidence_kinds.kind import EvidenceKind
from moso.evidence_kinds.label_free_embedding import EMBEDDING
from moso.evidence_kinds.out_of_sample import PREDICTIONS
from moso.evidence_kinds.parameter_influences import INFLUENCES
from moso.evidence_kinds.reference_features import FEATURES
from moso.evidence_kinds.step_terms import NORMS, TERMS
from moso.evidence_kinds.training_adjoint import ADJOINT
from moso.evidence_kinds.training_dynamics import DYNAMICS
from moso.registry import Registry

# What takes longest is measured first: an embedding is a training of its own.
_OURS: tuple[EvidenceKind[object], ...] = (
    *(EMBEDDING, INFLUENCES, FEATURES, PREDICTIONS, ADJOINT, TERMS),
    *(EARLY_ERRORS, EARLY_NORMS, FINAL, DYNAMICS, LABELS, NORMS),
)
_ORDER = {kind.name: number for number, kind in enumerate(_OURS)}
KINDS: Registry[EvidenceKind[object]] = Registry("kind of evidence", EvidenceKind, "moso.evidence", _OURS)


def find_kind(name: str) -> EvidenceKind[object] | None:
    """The kind of evidence of this name; None if no run records such a thing.

    >>> [kind and kind.name for kind in map(find_kind, ("dynamics:margin", "dynamics:mood", "terms"))]
    ['dynamics', None, 'terms']
    """
    own, colon, column = name.partition(":")
    kind = KINDS.find(own)
    if kind is None or (column not in kind.columns if kind.columns else bool(colon)):
        return None
    return kind


def needed_kinds(needs: Iterable[str]) -> list[EvidenceKind[object]]:
    """The kinds behind these names, each once, in the order in which they are measured.

    >>> [kind.name for kind in needed_kinds({"final:gap", "terms", "final:entropy"})]
    ['terms', 'final']
    """
    found = {kind.name: kind for kind in map(find_kind, needs) if kind is not None}
    return sorted(found.values(), key=lambda kind: (_ORDER.get(kind.name, len(_ORDER)), kind.name))


def columns(needs: Iterable[str], kind: EvidenceKind[object]) -> tuple[str, ...]:
    """The columns of a kind that are among these names.

    >>> columns({"terms", "dynamics:margin", "dynamics:correct"}, DYNAMICS)
    ('correct', 'margin')
    """
    return tuple(sorted(name.partition(":")[2] for name in needs if name.startswith(f"{kind.name}:")))


def needs_reference(needs: Iterable[str]) -> bool:
    """Whether a network has to be trained on all of the data.

    >>> needs_reference({"terms", "labels"}), needs_reference({"final:entropy"})
    (False, True)
    """
    return any(kind.network in ("reference", "initialisation") for kind in needed_kinds(needs))


def needs_surrogates(needs: Iterable[str]) -> bool:
    """Whether every partition has to have a network."""
    return any(kind.network in ("surrogate", "surrogates") for kind in needed_kinds(needs))


def averages(needs: Iterable[str]) -> bool:
    """Whether networks of several initialisations are averaged."""
    return any(kind.network == "initialisation" for kind in needed_kinds(needs))


def about_classes(needs: Iterable[str]) -> bool:
    """Whether evidence of these names is about classes.

    >>> about_classes({"dynamics:margin"}), about_classes({"early-norms", "features"})
    (True, False)
    """
    return any(kind.about_classes for kind in needed_kinds(needs))
