"""The adjoint: the effect of leaving a sample out on the risk, by differentiating the training of the surrogates.

The result is `adjoint/part-000.npz`; intermediate state is in `state/part-000/`. Training writes the checkpoints for
the replay if the adjoint is needed; they are removed once it is computed.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from moso.adjoint import AdjointTerms, Replay, ReplayRecorder, adjoint_sweep, read_adjoint, write_adjoint
from moso.evidence.layout import part_name, replay_folder
from moso.evidence_kinds.kind import EvidenceKind, Measuring, Price, RunSettings, SeedRun
from moso.gradients import SampleRisk

# Cost of the adjoint in units of one training, and additional cost per probe (docs/adjoint.md).
RUNS = 5.5
PER_PROBE = 2.5


class TrainingAdjoint(EvidenceKind[Sequence[AdjointTerms]]):
    """The derivative of the risk through the training of every partition."""

    name = "adjoint"
    description = "the adjoint of a training run"
    network = "surrogate"
    moment = "replay"
    effort = "the training differentiated, about 5 trainings more"
    file = "adjoint/part-{index:03d}.npz"
    decided_by = ("partitions", "probes")
    decided_if_changed = {"risk": "train", "window": 1.0}  # noqa: RUF012 - nobody writes to it
    missing = "the training was not differentiated"
    is_kept = True

    def measure(self, given: Measuring) -> None:
        """Differentiate the training of the surrogate of one partition, from its last update to its first."""
        c, name = given.settings, part_name(given.index)
        folder, total = replay_folder(given.home, name), given.total_steps(given.index)
        data, everything = given.training_data(), given.partitions[given.index]
        risk, view = given.risk(), given.train.evaluation_view()
        if len(data.positions) < len(everything):
            # A later round: what was dropped stays in the risk.
            risk = risk or SampleRisk(view, everything, loader_workers=given.loader_workers)
        replay = Replay(
            folder,
            given.initial_network(),
            data,
            c.surrogate,
            given.seed,
            total,
            given.loss,
            given.loader_workers,
        )
        terms = adjoint_sweep(
            replay,
            risk,
            evaluation_view=view,
            probes=c.probes,
            window=c.window,
            position=given.home / "state" / name / "adjoint.safetensors",
            seconds=given.checkpoint_seconds,
            progress=given.progress,
            label=f"adjoint {given.index + 1}/{c.partitions}, seed {given.seed}",
        )
        if len(data.positions) < len(everything):
            # A sample that was not trained on has no effect to differentiate; it is dropped already, so it is last.
            change = np.full(len(everything), terms.change.min())
            change[np.isin(everything, data.positions)] = terms.change
            terms = replace(terms, change=change)
        write_adjoint(self.path(given.home, given.index), terms)
        ReplayRecorder(folder, total).remove()

    def read(self, given: SeedRun, column: str = "") -> list[AdjointTerms]:
        """Read the adjoint terms, one entry per partition."""
        paths = [self.path(given.home, part) for part in range(given.settings.partitions)]
        return [read_adjoint(self.found(path)) for path in paths]

    def price(self, settings: RunSettings) -> Price:
        """Return the price, as a multiple of one training."""
        epochs = (RUNS + PER_PROBE * settings.probes) * settings.surrogate.epochs * settings.window
        what = f"the adjoint of {{steps}} steps, {settings.probes} probes"
        return Price(epochs=epochs, what=what, work="adjoint")

    def problem(self, settings: RunSettings, method: str, selector: str) -> str | None:
        """Return why a window is too short, or a precision impossible (its replay is not bit-identical), or None."""
        if settings.window * settings.surrogate.epochs < 1 - 1e-9:
            return (
                f"window = {settings.window:g} of {settings.surrogate.epochs} epochs is less than one, so some samples "
                f"would not occur in it; use a window of {1 / settings.surrogate.epochs:.2g} or more"
            )
        if settings.surrogate.precision == "float32":
            return None
        return (
            f"method {method!r} differentiates training in float32, not in {settings.surrogate.precision}; "
            "use a recipe with precision 'float32'"
        )

    def provenance(self, given: SeedRun) -> dict[str, object]:
        """Return the standard error of the score due to random probes, per partition; None with fewer than 2 probes."""
        if given.settings.probes < 2:
            return {"standard_error": None}
        return {"standard_error": [float(np.sqrt(np.mean(part.score_variance()))) for part in self.read(given)]}


ADJOINT = TrainingAdjoint()
