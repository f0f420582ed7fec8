"""Step terms: two scalars per sample and sampled time step of every partition's surrogate (`evidence/terms.py`).

They have their own pieces of work (`run/scoring.py`, `run/sharding.py`), because several processes, or the shards of a
cluster, share a partition; `in-run` terms are collected during training.
"""

from collections.abc import Sequence

from moso.evidence import PartitionTerms, read_terms, terms_path
from moso.evidence.estimators import IN_RUN
from moso.evidence_kinds.kind import EvidenceKind, Price, RunSettings, SeedRun


class PartitionStepTerms(EvidenceKind[Sequence[PartitionTerms]]):
    """The step terms of every partition."""

    name = "terms"
    description = "the step terms of every partition's surrogate"
    network = "surrogate"
    moment = "steps"
    effort = "per-sample gradients at every sampled step"
    file = "terms/part-{index:03d}"
    decided_by = ("form", "partitions", "time_steps", "sampling", "parameters", "estimator")
    decided_if_changed = {"view": "evaluation", "risk": "train", "optimizer_aware": False}  # noqa: RUF012 - nobody writes to it
    is_kept = True

    def read(self, given: SeedRun, column: str = "") -> list[PartitionTerms]:
        """Read the terms of all sampled steps, one entry per partition."""
        found = []
        for part in range(len(given.partitions)):
            steps = [self.found(terms_path(self.path(given.home, part), step)) for step in given.time_steps(part)]
            found.append(PartitionTerms(given.total_steps(part), [read_terms(path) for path in steps]))
        return found

    def price(self, settings: RunSettings) -> Price | None:
        """Return the price: two passes per time step, and a forward pass if batch-norm statistics are recomputed."""
        if settings.estimator == IN_RUN:
            return None
        count = settings.time_steps
        looks = count if settings.view == "training" else 0
        what = f"{count} time steps of {{samples}} samples"
        return Price(looks=looks, scorings=count, what=what, work="scoring")

    def provenance(self, given: SeedRun) -> dict[str, object]:
        """Return the sampled steps and the number of all updates, per partition."""
        parts = range(len(given.partitions))
        return {
            "total_steps": [given.total_steps(part) for part in parts],
            "steps": [given.time_steps(part) for part in parts],
        }


class AllNorms(EvidenceKind[None]):
    """Requires the squared gradient norms of all samples in the step terms; cheap estimators leave some out."""

    name = "norms"
    description = "step terms with the gradient norms of all samples"
    effort = ""

    def problem(self, settings: RunSettings, method: str, selector: str) -> str | None:
        """Return why an estimator or risk lacks the gradient norms of all samples, or None."""
        if settings.estimator in (IN_RUN, "subsampled"):
            return (
                f"method {method!r} needs the gradient norms of all samples, which estimator "
                f"{settings.estimator!r} does not measure; use estimator 'exact'"
            )
        if settings.risk != "train":
            return (
                f"method {method!r} needs gradient norms, which are not measured with risk {settings.risk!r}; use "
                "risk 'train'"
            )
        return None


TERMS, NORMS = PartitionStepTerms(), AllNorms()
