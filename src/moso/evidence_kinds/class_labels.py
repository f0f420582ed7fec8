"""Labels: one class per sample, from the data itself."""

from moso.evidence_kinds.kind import EvidenceKind


class ClassLabels(EvidenceKind[None]):
    """The class of every sample; scores read it from `ScoreInput.labels`."""

    name = "labels"
    description = "classes"
    about_classes = True
    effort = ""


LABELS = ClassLabels()
