"""The learning rate of every update, as a pure function of its number.

There is no scheduler with a state, so none can be stepped too early: `learning_rate(recipe, t, ...)` is the rate eta_t
*of* update t, counted from 1, the rate that belongs to the parameters after update t.
"""

from math import cos, pi

from moso import errors
from moso.training.recipe import TrainingRecipe

# PyTorch's defaults of OneCycleLR: rise over 30 % of the run from a 25th of the peak, then fall to a 10,000th of that
# start.
ONE_CYCLE_RISE = 0.3
ONE_CYCLE_START = 25.0
ONE_CYCLE_END = 1e4


def learning_rate(recipe: TrainingRecipe, step: int, total_steps: int, steps_per_epoch: int) -> float:
    """Return the learning rate of update `step`.

    Args:
        recipe: Schedule and its settings.
        step: Number of the update, counted from 1.
        total_steps: Number of updates of the run.
        steps_per_epoch: Updates per epoch, for the warm-up.

    Raises:
        SettingInvalid: `step` is outside 1..`total_steps`.

    Example:
        >>> recipe = TrainingRecipe(epochs=1, batch_size=1, learning_rate=0.1, schedule="cosine")
        >>> [round(learning_rate(recipe, step, 4, 4), 4) for step in (1, 2, 3, 4)]
        [0.1, 0.0854, 0.05, 0.0146]
    """
    if not 1 <= step <= total_steps:
        raise errors.SettingInvalid(f"step {step} is outside 1..{total_steps}")
    peak = recipe.learning_rate
    warmup = min(total_steps, round(recipe.warmup_epochs * steps_per_epoch))
    if step <= warmup:
        return peak * step / warmup
    done = step - 1  # updates made before this one
    match recipe.schedule:
        case "cosine":
            return _cosine(peak, recipe.final_learning_rate, (done - warmup) / (total_steps - warmup))
        case "multi-step":
            passed = sum(done >= round(share * total_steps) for share in recipe.milestones)
            return peak * recipe.decay**passed
        case "one-cycle":
            return _one_cycle(peak, done, total_steps)
        case "constant":
            return peak


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + cos(pi * share)) / 2


def _one_cycle(peak: float, done: int, total_steps: int) -> float:
    start = peak / ONE_CYCLE_START
    top, last = ONE_CYCLE_RISE * total_steps - 1, total_steps - 1
    if done <= top:
        return _cosine(start, peak, done / top)
    return _cosine(peak, start / ONE_CYCLE_END, (done - top) / (last - top))
