"""`moso index build | query`: gradients of a run's samples on disk, and what new targets want of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moso import errors
from moso.cli.options.flags import Json, Quiet, Seed, local_option, option
from moso.cli.options.panels import DATA, OUTPUT, SCORING

if TYPE_CHECKING:
    from moso.gradients import Risk
    from moso.indexing import GradientIndex
    from moso.results.reading import Run

ACTIONS = ("build", "query")


def index(
    action: Annotated[str, typer.Argument(metavar="build|query", help="what to do", show_default=False)],
    run: Annotated[str, typer.Argument(metavar="RUN", help="run directory", show_default=False)],
    target: Annotated[
        list[str] | None,
        option(
            "--target",
            panel=DATA,
            help="query: data whose loss the samples are to lower: NAME=DATASET, test or validation; may be repeated",
        ),
    ] = None,
    error: Annotated[
        float, option("--error", panel=SCORING, help="build: standard error of a cosine, which decides the size")
    ] = 0.03125,
    precision: Annotated[
        str, option("--precision", panel=SCORING, help="build: stored numbers, float16 or float32")
    ] = "float16",
    similarity: Annotated[
        str, option("--similarity", panel=SCORING, help="query: product (the score), or cosine")
    ] = "product",
    seed: Seed = None,
    top: Annotated[int, option("--top", panel=OUTPUT, help="query: samples listed per target")] = 10,
    out: Annotated[
        Path | None, local_option("--out", help="query: Parquet file with all scores, one row per sample")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Build or query an index of gradients.

    The index lies in RUN/index. Building continues where it stopped. A query scores every sample by every target in one
    pass over the index: no sweep over the data.
    """
    from moso.cli.display import showing
    from moso.results.reading import Run

    if action not in ACTIONS:
        raise errors.SettingInvalid(f"moso index {action}: it is 'build' or 'query'")
    opened = Run.open(run)
    number = opened.configuration.seed if seed is None else seed
    folder = opened.directory.root / "index" / f"seed-{number}"
    if action == "build":
        with showing(quiet or as_json) as progress:
            made = _build(opened, folder, number, error, precision, progress)
        if not quiet:
            typer.echo(f"{made} in {folder}")
        return
    scores, made = _query(opened, folder, number, target or [], similarity)
    ids = opened.samples("train").ids.to_pylist()
    if out is not None:
        _write(out, ids, scores)
    if not quiet:
        _show(opened, ids, scores, top, as_json)
        if not as_json:
            size = f"cosines have a standard error of at most {made.error:.3f}" if made.error else "exact"
            typer.echo(f"{made.what.samples:,} samples, {made.what.numbers:,} numbers per gradient: {size}")


def _build(opened: "Run", folder: Path, seed: int, error: float, precision: str, progress: object) -> "GradientIndex":
    from moso.indexing import GradientIndex
    from moso.indexing.gradient_index import IndexedPart, IndexSettings

    samples = opened.samples("train")
    parts = [
        IndexedPart(positions, opened.trajectory(part, seed)) for part, positions in enumerate(opened.partitions(seed))
    ]
    settings = IndexSettings(error=error, precision=precision, seed=seed)  # type: ignore[arg-type]
    return GradientIndex.build_parts(
        folder,
        opened.build_model(seed),
        samples.evaluation_view(),
        parts,
        loss=samples.task.loss,
        settings=settings,
        content=samples.fingerprint(),
        progress=progress,  # type: ignore[arg-type]
    )


def _query(
    opened: "Run", folder: Path, seed: int, targets: list[str], similarity: str
) -> "tuple[dict[str, object], GradientIndex]":
    from moso.indexing import GradientIndex

    if not targets:
        raise errors.SettingMissing("give --target NAME=DATASET (or --target test) to query the index with")
    made = GradientIndex.open(folder)
    if made.what.data != opened.samples("train").fingerprint():
        raise errors.DataChanged(f"the training data of {opened.directory} is not that of its index; build it again")
    risks = dict(_risk(opened, one) for one in targets)
    loss = opened.samples("train").task.loss
    return made.query(opened.build_model(seed), risks, loss=loss, similarity=similarity), made  # type: ignore[arg-type, return-value]


def _risk(opened: "Run", target: str) -> "tuple[str, Risk]":
    """Return the name of a target and the mean loss of its samples, which are prepared as the run's own."""
    import numpy as np

    from moso.cli.options.configuration_flags import whole_path
    from moso.gradients import SampleRisk
    from moso.results.run_data import open_data

    name, equals, place = target.partition("=")
    data = opened._data
    if not equals:
        name, place = target, target
    if place in ("test", "validation"):
        found = data.test if place == "test" else data.validation
        if found is None:
            raise errors.SplitMissing(f"the run has no {place} split to take as a target")
    else:
        if opened.configuration.validation_share:
            raise errors.SettingsConflict(
                "this run held out a share of its training data (validation_share), so another target cannot be "
                "prepared as its data was; use --target validation"
            )
        found = open_data(opened.configuration.model_copy(update={"validation": whole_path(place)})).validation
        assert found is not None
    return name, SampleRisk(found.evaluation_view(), np.arange(len(found)))


def _write(out: Path, ids: list[object], scores: dict[str, object]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if out.suffix != ".parquet":
        raise errors.OutputInvalid(f"--out {out}: scores are written as Parquet; give a name that ends in .parquet")
    pq.write_table(pa.table({"id": ids, **scores}), out, compression="zstd")


def _show(opened: "Run", ids: list[object], scores: dict[str, object], top: int, as_json: bool) -> None:
    """Print the best samples of every target, ties by id."""
    import json

    import numpy as np

    from moso.cli.printed_tables import print_tables
    from moso.report.text_table import TextTable

    samples, found = opened.samples("train"), {}
    for name, values in scores.items():
        order = np.argsort(-np.asarray(values, dtype=np.float64), kind="stable")[:top]
        found[name] = [
            {"id": ids[one], "score": float(np.asarray(values)[one]), "text": samples.text(int(one))}
            for one in order.tolist()
        ]
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    print_tables([
        TextTable(f"what {name} wants", ("id", "score", "sample"), [
            (str(row["id"]), f"{row['score']:.3e}", str(row["text"] or "")[:70].replace("\n", " ")) for row in rows
        ])
        for name, rows in found.items()
    ])  # fmt: skip
