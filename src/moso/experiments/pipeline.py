"""One pipeline: runs the cells that share an arm's data, networks and seed, and reports each as soon as it is finished.

All cells of a pipeline share surrogates, references and scores, which are stored in a run directory named after the
pipeline's configuration. An interruption costs seconds: the run resumes from its directory.
"""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from moso import errors
from moso.analysis.costs import method_costs
from moso.code_trust import allow_code
from moso.configuration import Configuration
from moso.configuration.network_settings import GIVEN_FEATURES, network_names
from moso.configuration.resolved_method import ResolvedMethod
from moso.evaluation.detection import detection
from moso.evaluation.label_suspects import suspicion
from moso.evidence_kinds.registry import needs_surrogates
from moso.executors import InProcess, LocalProcesses
from moso.experiments.cells import WAVES, Cell, stated, wave_of
from moso.experiments.derived import DERIVED, write_derived
from moso.experiments.places import find_data, place_of
from moso.experiments.provenance import stamp
from moso.experiments.results import Row
from moso.files import read_record
from moso.methods.auto import AUTO
from moso.results.reading import Run
from moso.results.retrainings import retraining_path
from moso.results.score_files import read_scores
from moso.results.selections import read_selection
from moso.run.job import Job, Runtime
from moso.run.pieces import Piece
from moso.run.retraining_piece import Retrain
from moso.run.stages import begin, score_stage, select_stage, train_stage
from moso.training.loop import threads


class OutOfTime(Exception):
    """The time limit is reached; all finished cells are in the table."""


@dataclass
class Paced:
    """An executor with a deadline: no piece of work starts after the deadline.

    Attributes:
        executor: The executor that does the work.
        deadline: Value of `time.monotonic()`; None means no limit.
        after: Called whenever pieces may have finished.
    """

    executor: InProcess | LocalProcesses
    deadline: float | None = None
    after: Callable[[], None] = field(default=lambda: None)

    def run(self, job: Job, pieces: Sequence[Piece]) -> None:
        """Run all pieces in order.

        Raises:
            OutOfTime: The deadline has passed.
        """
        self.executor.between = self._between
        try:
            self.executor.run(job, pieces)
        finally:
            self.after()

    def _between(self) -> None:
        self.after()
        self.check()

    def check(self) -> None:
        """Raise `OutOfTime` if the deadline has passed."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise OutOfTime


def carry_out(
    cells: Sequence[Cell],
    data: Path,
    out: Path,
    executor: Paced,
    finished: Callable[[Row], None],
    runtime: Runtime | None = None,
) -> None:
    """Run the cells of one pipeline.

    Args:
        cells: The cells, all of the same pipeline.
        data: Folder of the data sets.
        out: Folder of the run directories.
        executor: Runs the pieces of work.
        finished: Called with the row of each cell as soon as it is finished.
        runtime: How pieces of work run, without effect on their results.

    Raises:
        OutOfTime: The deadline has passed.
    """
    job = open_job(cells[0].arm.data, cells[0].configuration, data, out, runtime)
    waiting = {cell.key: cell for cell in cells}

    def hand_on() -> None:
        for key, cell in list(waiting.items()):
            if retraining_path(job.directory.root, cell.retraining).exists():
                finished(row_of(job, cell))
                del waiting[key]

    with job.directory.locked():
        begin(job)
        hand_on()
        # Cheapest first: random selection, then methods that need surrogates only, then those that need references.
        for wave in range(WAVES):
            batch = [cell for cell in waiting.values() if wave_of(cell) == wave]
            if batch:
                _prepare(job, batch, executor)
                executor.after = hand_on
                try:
                    executor.run(job, [Retrain(cell.retraining) for cell in batch])
                finally:
                    executor.after = _nothing


def directory_name(data: str, configuration: Configuration) -> str:
    """Return the name of a pipeline's run directory, which contains a hash of its settings."""
    text = json.dumps({"data": data, **stated(configuration)}, sort_keys=True)
    return f"{data}-{hashlib.blake2b(text.encode(), digest_size=5).hexdigest()}-seed-{configuration.seed}"


def open_job(data: str, configuration: Configuration, root: Path, out: Path, runtime: Runtime | None = None) -> Job:
    """Find and open the data of a pipeline, and return its job.

    Raises:
        FileMissing: The data is not there.
        DataChanged: The data has another size than the data set of this name.
    """
    found = find_data(data, root, out)
    here = configuration.model_copy(update={"dataset": found.dataset, "labels": found.labels})
    if configuration.embed:
        features = find_data(configuration.embed.removeprefix(GIVEN_FEATURES), root, out)
        here = here.model_copy(update={"embed": features.dataset})
    # A declaration names its networks, and what it says is code of this package, whatever a run's file says again.
    allow_code(network_names(configuration.model_dump()))
    job = Job.open(out / directory_name(data, configuration), here, runtime)
    held_out = 0 if job.data.validation is None else len(job.data.validation)
    place, sizes = place_of(data), (len(job.data.train) + held_out, 0 if job.data.test is None else len(job.data.test))
    if sizes != (place.train, place.test):
        raise errors.DataChanged(
            f"{found.dataset} has {sizes[0]} samples to train on and {sizes[1]} to test on, but {data} has "
            f"{place.train} and {place.test}; results of other data would stand under its name"
        )
    return job


def _prepare(job: Job, cells: Sequence[Cell], executor: Paced) -> None:
    """Do everything that retraining needs: networks, evidence, scores, selections."""
    choices, ratios = dict[tuple[str, str, str], ResolvedMethod](), dict[tuple[str, str, str], dict[float, None]]()
    for cell in cells:
        if cell.choice is not None:
            name = cell.retraining.method, cell.retraining.selector, cell.retraining.parameters
            choices[name] = cell.choice
            ratios.setdefault(name, {})[cell.retraining.ratio] = None
    if not choices:
        return
    everything = list(choices.values())
    train_stage(job, executor, everything)
    of_auto = {ratio: None for name, own in ratios.items() if name[0] == AUTO for ratio in own}
    score_stage(job, executor, everything, list(of_auto))
    for choice in everything:
        if choice.method in DERIVED:
            executor.check()
            with threads(job.configuration.threads):
                write_derived(job, job.configuration.seed, choice.method)
    alike: dict[tuple[float, ...], list[ResolvedMethod]] = {}
    for name, own in ratios.items():
        alike.setdefault(tuple(own), []).append(choices[name])
    for asked, group in alike.items():
        select_stage(job, group, asked)


def _nothing() -> None:
    return


def row_of(job: Job, cell: Cell) -> Row:
    """Return a finished cell as a row of the table: its identity, its result and its costs."""
    c, path = job.configuration, retraining_path(job.directory.root, cell.retraining)
    result = read_record(path)
    return {
        "key": cell.key,
        "data": cell.arm.data,
        **{name: value for name, value in result.items() if name != "loss"},
        "model": c.model,
        "label_noise": c.label_noise,
        "partitions": c.partitions,
        "time_steps": c.time_steps,
        "sampling": c.sampling,
        "epochs": [c.surrogate.epochs, c.retraining.epochs],
        **({"risk": c.risk} if c.risk != "train" else {}),
        **({"view": c.view} if c.view != "evaluation" else {}),
        "test": 0 if job.data.test is None else len(job.data.test),
        **_found_wrong(job, cell),
        "seconds": _seconds(job, cell),
        "threads": c.threads,
        "device": c.device,
        **stamp(),
    }


def _found_wrong(job: Job, cell: Cell) -> dict[str, float]:
    """Return how well the score finds labels that are known to be wrong, and their share among the kept samples."""
    if cell.choice is None or job.data.clean_labels is None:
        return {}
    wrong = job.data.clean_labels != job.data.train.labels
    home = job.directory.of_seed(job.configuration, cell.retraining.seed)
    kept = read_selection(job.directory.root, cell.retraining.selection())
    found = {"wrong_kept": round(float(wrong[kept].mean()), 5)}
    score = cell.choice.score
    if score is not None:
        own = detection(score.name, suspicion(read_scores(home)[score.name], score.hard), wrong)
        found |= {"auroc": round(own.auroc, 5), "precision": round(own.precision, 5)}
    return found


def _seconds(job: Job, cell: Cell) -> dict[str, float]:
    """Return seconds of computation, summed over resumed runs: surrogates, the method's evidence, and retraining."""
    own = job.directory.seconds("evaluate").get(cell.retraining.digest(), 0.0)
    found = {"retraining": round(own, 3)}
    if cell.choice is None:
        return found
    parts = f"seed-{job.configuration.seed}/part-"
    trained = sum(value for name, value in job.directory.seconds("train").items() if name.startswith(parts))
    found["surrogates"] = round(trained, 3) if needs_surrogates(cell.choice.needs()) else 0.0
    found["method"] = round(method_costs(Run(job.directory), [cell.choice])[0].seconds, 3)
    return found
