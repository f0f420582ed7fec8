"""The adjoint of a whole run: from the risk of the trained network back to the effect of every sample.

    lambda_T = grad R(w_T)            lambda_t = (d step_t / d state)^T lambda_{t+1}            (step.py, T times)

A sample's `change` is the sum, over the updates it took part in, of the change in risk when it is left out there.

For the training risk, Definition 1 takes the mean over all *other* samples, `(N R - l_z) / (N - 1)`. The effect of the
sample's removal on its own loss `l_z` is the **self term**, the diagonal of an N x N matrix. It matters for small N and
late in training, and is estimated by Hutchinson's method with random signs `s`: with `lambda_T = sum_z s_z grad l_z`,
the expectation of a sample's change times `s_z` is its self term. Every probe is one more adjoint through the same
second derivatives. With at least as many probes as samples, each sample is probed separately, and the self term is
exact.
"""

import math
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from moso import errors
from moso.adjoint.adjoint_terms import AdjointTerms
from moso.adjoint.final_risk import risk_gradients
from moso.adjoint.replay import Replay, Update
from moso.adjoint.state import Adjoint
from moso.adjoint.step import Step, StepBack, final_adjoint
from moso.data.views import View
from moso.evidence import read_state, write_state
from moso.evidence.tensor_tree import flattened, nested
from moso.gradients.risk import Risk, SampleRisk
from moso.progress import Progress, silent
from moso.randomness import hashes

# Allowed difference between the differentiated and the performed update, relative to the length of the update, and to
# the size of the tensors. PyTorch's batch-norm on channels-last images differs by one per cent from its own value in
# float64; a wrong dropout mask or a wrong state causes a difference as large as the update itself.
TOLERANCE = 0.1
ROUNDING = 1e-5


def adjoint_sweep(
    replay: Replay,
    risk: Risk | None = None,
    *,
    evaluation_view: View | None = None,
    probes: int = 0,
    window: float = 1.0,
    position: Path | None = None,
    seconds: float = 10.0,
    progress: Progress = silent,
    label: str = "adjoint",
) -> AdjointTerms:
    """Compute the first-order change of a risk when each sample is left out of a recorded run.

    Args:
        replay: The recorded run.
        risk: The risk; by default the mean loss of the training samples.
        evaluation_view: The view of the data in which the default risk is evaluated; by default that of training.
        probes: Number of probes of the self term; only for the default risk.
        window: Share of the updates, the last ones, that are differentiated; a sample is left out of these only.
        position: File to save the sweep's position in, so that an interrupted sweep resumes from there.
        seconds: Least time between two saves.
        progress: Is told the number of updates that are done.
        label: Label for `progress`.

    Returns:
        The terms of every sample, in the order of `replay.data.positions`.

    Raises:
        SettingInvalid: `probes` is negative, or `window` does not cover an epoch.
        SettingsConflict: `probes` with a risk of one's own.
        NotDeterministic: The run cannot be replayed bit for bit, or an update cannot be differentiated as performed.
        NotDifferentiable: A layer has no second derivative.
        TrainingDiverged: The adjoint is not finite.

    Example:
        >>> import tempfile
        >>> from moso.adjoint.replay import ReplayRecorder
        >>> from moso.data.views import as_view
        >>> from moso.training.loop import StepPlan, TrainingData, train
        >>> from moso.training.recipe import TrainingRecipe
        >>> data = TrainingData(as_view((np.eye(4), [0, 1, 0, 1])), np.arange(4), np.arange(4, dtype=np.uint64))
        >>> recipe = TrainingRecipe(epochs=3, batch_size=2, learning_rate=0.1, schedule="constant")
        >>> model, folder = torch.nn.Linear(4, 2), Path(tempfile.mkdtemp())
        >>> start = torch.nn.Linear(4, 2); _ = start.load_state_dict(model.state_dict())
        >>> _ = train(model, StepPlan(data, recipe, seed=0), callbacks=[ReplayRecorder(folder, total_steps=6)])
        >>> adjoint_sweep(Replay(folder, start, data, recipe, seed=0, total_steps=6)).scores().shape
        (4,)
    """
    samples = replay.data.positions
    if probes < 0:
        raise errors.SettingInvalid(f"{probes} probes of the self term were asked for; it must be 0 or more")
    if probes and risk is not None:
        raise errors.SettingsConflict(
            "only the training risk has a self term: another risk leaves no sample out and takes no probes"
        )
    judged = risk or SampleRisk(evaluation_view or replay.data.view, samples)
    signs = _signs(replay, probes)
    sweep = _Sweep(replay, judged, signs, position)
    saved, total = time.monotonic(), replay.total_steps
    begin = total - window_updates(window, total, replay.plan.per_epoch)
    for stretch in replay.backwards(sweep.step):
        for update in stretch.updates:
            sweep.back(update)
            progress(label, total - sweep.step, total - begin)
            if sweep.step <= begin:
                break
        if sweep.step <= begin:
            break
        if position is not None and stretch.first > 0 and time.monotonic() - saved > seconds:
            sweep.save(position)
            saved = time.monotonic()
    if position is not None:
        position.unlink(missing_ok=True)
    return sweep.terms(own_risk=risk is None)


def window_updates(window: float, total: int, per_epoch: int) -> int:
    """Return the number of updates in a window: the last `window` share of all.

    Args:
        window: The share, in ``(0, 1]``.
        total: Number of updates of the run.
        per_epoch: Number of updates of an epoch, in which every sample occurs once.

    Raises:
        SettingInvalid: The window is outside ``(0, 1]``, or shorter than an epoch, so that some samples do not occur.

    Example:
        >>> window_updates(0.25, 80, 10), window_updates(1.0, 80, 10)
        (20, 80)
    """
    if not 0 < window <= 1:
        raise errors.SettingInvalid(f"window = {window:g} must be a share of the updates, above 0 and at most 1")
    count = min(total, math.ceil(window * total - 1e-9))
    if count < min(per_epoch, total):
        raise errors.SettingInvalid(
            f"window = {window:g} is {count} of {total} updates, less than an epoch of {per_epoch}, so some samples "
            f"would not occur in it; give at least {per_epoch / total:.2g}"
        )
    return count


class _Sweep:
    """The adjoints of a run at one step, and the accumulated changes of the updates after it."""

    def __init__(self, replay: Replay, risk: Risk, signs: NDArray[np.float64], position: Path | None) -> None:
        self.replay, self.signs = replay, signs
        self.function = Step(replay.start, replay.loss, replay.recipe, replay.seed)
        samples = replay.data.positions
        self._order = np.argsort(samples, kind="stable")
        self._samples = samples[self._order]
        if position is not None and position.exists():
            self._load(position)
            return
        end = replay.end()
        rows = None
        if isinstance(risk, SampleRisk) and len(signs):
            rows = np.concatenate([risk.weighted()[None], signs])
        found = risk_gradients(replay.start, end, risk, replay.loss, rows)
        self.adjoints = [final_adjoint(end, replay.recipe, *one) for one in found]
        self.changes = np.zeros((len(found), len(samples)))
        self.step = replay.total_steps

    def back(self, update: Update) -> None:
        """Propagate the adjoints back through one update."""
        found = self.function.back(update.state, update.batch, update.rate, self.adjoints)
        _check_same(update, found)
        rows = self._order[np.searchsorted(self._samples, update.positions)]
        self.changes[:, rows] += found.changes
        self.adjoints, self.step = found.adjoints, update.state.step
        if not np.isfinite(found.changes).all():
            raise errors.TrainingDiverged(
                f"the adjoint is not finite at step {update.after.step}: training is too rough to be differentiated "
                "over its whole length; lower the learning rate, train for less, or use method 'moso'"
            )

    def terms(self, own_risk: bool) -> AdjointTerms:
        """Return the terms of every sample, once the start of the run is reached."""
        if len(self.signs) == 0:
            return AdjointTerms(self.changes[0], own_risk)
        asked = self.signs != 0
        count = asked.sum(axis=0)
        own = np.where(asked, self.changes[1:] * self.signs, 0.0)
        mean = own.sum(axis=0) / count
        spread = np.where(asked, np.square(own - mean), 0.0).sum(axis=0)
        exact = len(self.signs) >= len(self.changes[0])
        variance = np.zeros_like(mean) if exact else spread / np.maximum(count - 1, 1) / count
        if not exact and len(self.signs) == 1:
            variance = np.full_like(mean, np.nan)  # the variance of a single probe is unknown
        return AdjointTerms(self.changes[0], own_risk, mean, variance, len(self.signs))

    def save(self, path: Path) -> None:
        """Save everything that is needed to resume."""
        adjoints = {str(number): adjoint.tensors() for number, adjoint in enumerate(self.adjoints)}
        tree = {"changes": torch.from_numpy(self.changes), **adjoints}
        write_state(path, flattened(tree, "|"), {"step": self.step})

    def _load(self, path: Path) -> None:
        tensors, note = read_state(path)
        device = next(self.replay.start.parameters()).device
        self.step = int(note["step"])
        self.changes = tensors.pop("changes").numpy().copy()
        found = nested({name: value.to(device) for name, value in tensors.items()}, "|")
        self.adjoints = [Adjoint.from_tensors(found[str(number)]) for number in range(len(self.changes))]


def _signs(replay: Replay, probes: int) -> NDArray[np.float64]:
    """Return the probes ``[probes, samples]``: random signs, or the identity if there are enough probes for that."""
    samples = replay.data.positions
    if probes >= len(samples):
        return np.eye(len(samples))
    keys = replay.data.keys[samples]
    drawn = [hashes(keys, replay.seed, "adjoint-probe", number) >> np.uint64(63) for number in range(probes)]
    return 1.0 - 2.0 * np.array(drawn, dtype=np.float64).reshape(probes, len(samples))


def _check_same(update: Update, found: StepBack) -> None:
    """Check that the differentiated update equals the performed one.

    Gradients are compared where they first arrive: in the rule's first slot, or in the parameters for plain SGD. Adam's
    parameters cannot be compared, because Adam turns gradients that are pure rounding error into steps of full length.
    """
    before, after, taken = update.state, found.after, update.after
    pairs = [("a buffer", after.buffers, taken.buffers, before.buffers)]
    first = next(iter(taken.slots), None)
    if first is not None:
        slot = {name: before.slot(first, name) for name in before.trained}
        pairs.append(("the optimiser's momentum", after.slots[first], taken.slots[first], slot))
    else:
        pairs.append(("a parameter", after.trained, taken.trained, before.trained))
    for what, ours, theirs, start in pairs:
        names = [name for name in ours if name in theirs]
        apart, moved, size = (
            sum(float((one[name].double() - two[name].double()).square().sum()) for name in names) ** 0.5
            for one, two in ((ours, theirs), (theirs, start), (theirs, {name: 0 * theirs[name] for name in names}))
        )
        if apart > TOLERANCE * moved + ROUNDING * size:
            raise errors.NotDeterministic(
                f"update {taken.step} cannot be differentiated as it was taken: {what} comes out otherwise; layers "
                "that change state of their own, or draw from a generator of their own, cannot be replayed"
            )
