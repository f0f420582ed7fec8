"""Labels: one class per sample, which the data itself has."""

from moso.evidence_kinds.kind import EvidenceKind


class ClassLabels(EvidenceKind[None]):
    """The class of every sample; scores find it in `ScoreInput.labels`."""

    name = "labels"
    description = "classes"
    about_classes = True


LABELS = ClassLabels()
