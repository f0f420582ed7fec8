"""The kinds of evidence that scores and selectors can need, as objects: one file per kind, all in `registry.py`."""

from moso.evidence_kinds.kind import EvidenceKind, Measuring, Price, RunSettings, SeedRun

__all__ = ["EvidenceKind", "Measuring", "Price", "RunSettings", "SeedRun"]
