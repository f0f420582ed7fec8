"""One surrogate run, and its terms by every estimator."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.estimators.problems import Problem
from moso.evidence import Estimator, PartitionTerms, StepTerms, TrajectoryPoint, sample_steps, step_terms
from moso.training.in_run import InRun, counted_steps
from moso.training.loop import AfterStep, StepPlan, TrainingRun, train
from moso.training.steps import Step

Say = Callable[[str], None]

ESTIMATORS = {
    "subsampled, a tenth": Estimator("subsampled", mean_share=0.1),
    "subsampled, a fifth": Estimator("subsampled", mean_share=0.2),
    "subsampled, half": Estimator("subsampled", mean_share=0.5),
    "sketched, 1,024 numbers": Estimator("sketched", sketch_numbers=1024),
    "sketched, 4,096 numbers": Estimator("sketched", sketch_numbers=4096),
    "last layer": Estimator("last-layer"),
}
EXACT, OTHER, FEWER, IN_RUN = "exact", "exact, other time steps", "exact, half the time steps", "in-run"


@dataclass(frozen=True)
class Terms:
    """The terms of each estimator, by its title; `exact` is what the others are held against."""

    by_title: dict[str, PartitionTerms]


def measure(problem: Problem, time_steps: int, say: Say) -> Terms:
    """Train once, collecting in-run terms on the way, then take the recorded steps through every estimator."""
    data, recipe, seed = problem.training(), problem.recipe, problem.seed
    per_epoch = data.steps_per_epoch(recipe.batch_size)
    total = recipe.epochs * per_epoch
    chosen, others = (sample_steps(total, time_steps, seed + shift).tolist() for shift in (0, 1))
    points: dict[int, TrajectoryPoint] = {}

    def record(run: TrainingRun, step: Step) -> None:
        if step.number in chosen or step.number in others:
            state = {name: value.clone() for name, value in run.model.state_dict().items()}
            points[step.number] = TrajectoryPoint(step.number, (step.rate,), memory=state)

    collected: list[StepTerms] = []
    ends = counted_steps(recipe.epochs, per_epoch, recipe.epochs - 1, seed)
    in_run = InRun(problem.positions, ends, per_epoch, collected.append)
    model = problem.model()
    history = train(model, StepPlan(data, recipe, seed), callbacks=[in_run, AfterStep(record)])
    say(f"trained: loss {history.loss[0]:.2f} to {history.loss[-1]:.2f} in {total} steps")
    view = problem.data.train.evaluation_view()

    def terms(steps: list[int], estimator: Estimator) -> PartitionTerms:
        found = [step_terms(model, points[s], view, problem.positions, estimator=estimator) for s in steps]
        return PartitionTerms(total, found)

    by_title = {EXACT: terms(chosen, Estimator()), OTHER: terms(others, Estimator())}
    by_title[FEWER] = PartitionTerms(total, by_title[EXACT].steps[:: 2 if time_steps > 1 else 1])
    say("exact terms are there")
    for title, estimator in ESTIMATORS.items():
        by_title[title] = terms(chosen, estimator)
        say(f"{title} is there")
    by_title[IN_RUN] = PartitionTerms(total, collected)
    return Terms(by_title)


def finite(terms: Terms) -> bool:
    """Whether every term of every estimator is a number."""
    return all(np.isfinite(step.dot).all() for part in terms.by_title.values() for step in part.steps)
