"""The kinds of evidence that scores and selectors can need, as objects: one file per kind; `registry.py` has them all."""

from moso.evidence_kinds.kind import EvidenceKind, Measuring, Price, RunSettings, SeedRun

__all__ = ["EvidenceKind", "Measuring", "Price", "RunSettings", "SeedRun"]
