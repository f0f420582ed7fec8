"""Similarities of LESS: the cosine of a sample's Adam update with the gradient of the risk, at every sampled step.

On disk `less-similarities/part-001/step-00000123.npz`, in the order of the partition's positions, and `complete.json`
once all steps of the surrogate are there.
"""

from collections.abc import Sequence
from pathlib import Path

from moso import errors
from moso.evidence import PartitionTerms, read_terms, terms_path, write_terms
from moso.evidence.adam_directions import Similarity, similarity_terms
from moso.evidence_kinds.kind import EvidenceKind, Measuring, Price, RunSettings, SeedRun
from moso.files import read_record, write_record


class AdamSimilarities(EvidenceKind[Sequence[PartitionTerms]]):
    """Cosines of every sample of a partition at the sampled steps of its surrogate, one entry per partition."""

    name = "less-similarities"
    description = "similarities of Adam updates with the gradient of the risk"
    network = "surrogate"
    moment = "steps"
    effort = "per-sample gradients at every sampled step"
    file = "less-similarities/part-{index:03d}"
    decided_by = ("partitions", "time_steps", "sampling", "parameters", "risk", "sketch_numbers")
    decided_if_changed = {"view": "evaluation"}  # noqa: RUF012 - nobody writes to it
    missing = "no surrogate has compared the samples with the risk"
    reads_moments = True

    def is_complete(self, home: Path, index: int = 0, columns: object = ()) -> bool:
        """Return whether all steps of one surrogate are on disk."""
        return (self.path(home, index) / "complete.json").exists()

    def measure(self, given: Measuring) -> None:
        """Measure and write the steps that are not on disk yet."""
        folder, positions = self.path(given.home, given.index), given.partitions[given.index]
        model, steps, risk = given.initial_network(), given.time_steps(given.index), given.risk()
        if risk is None:
            raise errors.SettingMissing("method 'less' compares with a target; set risk to 'validation'")
        how = Similarity(
            given.settings.sketch_numbers, given.seed, given.settings.score_batch_size, given.loader_workers,
            given.parameter_filter,
        )  # fmt: skip
        for number, (view, point) in enumerate(given.sampled_steps(), 1):
            path = terms_path(folder, point.step)
            if not path.exists():
                [terms] = similarity_terms(model, point, view, positions, [risk], loss=given.loss, how=how)
                write_terms(path, terms)
            label = f"{self.name} {given.index + 1}/{len(given.partitions)}, seed {given.seed}"
            given.progress(label, number, len(steps))
        write_record(folder / "complete.json", {"steps": steps, "samples": len(positions)})

    def read(self, given: SeedRun, column: str = "") -> list[PartitionTerms]:
        """Read the similarities of all sampled steps, one entry per partition."""
        found = []
        for part in range(len(given.partitions)):
            folder = self.path(given.home, part)
            steps = read_record(self.found(folder / "complete.json"))["steps"]
            terms = [read_terms(self.found(terms_path(folder, step))) for step in steps]
            found.append(PartitionTerms(given.total_steps(part), terms))
        return found

    def price(self, settings: RunSettings) -> Price:
        """Return the price: one pass of formed per-sample gradients per step, which costs as much as two others."""
        count = settings.time_steps
        looks = count if settings.view == "training" else 0
        return Price(looks=looks, gradients=2.0 * count, what=f"{count} time steps of Adam updates", work="scoring")

    def problem(self, settings: RunSettings, method: str, selector: str) -> str | None:
        """Return why these settings leave no target to compare with, or no recorded step, or None."""
        if settings.risk == "train":
            return (
                f"method {method!r} compares samples with a target; set risk to 'validation' and give validation data "
                "(--risk validation --validation NAME, or --validation-share)"
            )
        if settings.estimator != "exact":
            return f"method {method!r} reads recorded steps; use estimator 'exact'"
        return None


ADAM_SIMILARITIES = AdamSimilarities()
