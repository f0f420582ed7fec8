"""The adjoint of a partition's surrogate as a piece of work: `adjoint/part-000.npz`, and on the way `state/part-000/`.

Checkpoints for the replay are left by training where somebody asked for the adjoint, and go when it is there.
"""

import time

from moso import errors
from moso.adjoint import AdjointTerms, Replay, ReplayRecorder, adjoint_sweep, read_adjoint, write_adjoint
from moso.progress import Progress
from moso.results.layout import adjoint_path, part_name, piece_name, replay_folder
from moso.run.job import Job
from moso.run.training import at_start, computed


def measure_adjoint(job: Job, progress: Progress, seed: int, part: int) -> None:
    """Differentiate the training of one partition's surrogate, from its last update to its first."""
    c, home = job.configuration, job.directory.of_seed(job.configuration, seed)
    positions, started = job.partitions(seed)[part], time.monotonic()
    folder, total = replay_folder(home, part_name(part)), job.total_steps(positions)
    replay = Replay(
        folder,
        at_start(job, seed),
        job.training_data(c.surrogate, positions, seed),
        c.surrogate,
        seed,
        total,
        job.loss,
        job.runtime.loader_workers,
    )
    terms = adjoint_sweep(
        replay,
        job.risk(),
        evaluation_view=job.data.train.evaluation_view(),
        probes=c.probes,
        position=home / "state" / part_name(part) / "adjoint.safetensors",
        seconds=job.runtime.checkpoint_seconds,
        progress=progress,
        label=f"adjoint {part + 1}/{c.partitions}, seed {seed}",
    )
    write_adjoint(adjoint_path(home, part), terms)
    ReplayRecorder(folder, total).remove()
    computed(job, "score", piece_name(seed, f"{part_name(part)}/adjoint"), time.monotonic() - started)


def read_adjoints(job: Job, seed: int) -> list[AdjointTerms]:
    """The adjoints of every partition of a seed."""
    home = job.directory.of_seed(job.configuration, seed)
    paths = [adjoint_path(home, part) for part in range(job.configuration.partitions)]
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise errors.StageIncomplete(
            f"{missing[0]} is missing: the training was not differentiated; run `moso score` first"
        )
    return [read_adjoint(path) for path in paths]
