"""`moso export`: the kept samples of a selection, as indices or as the pruned data itself."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from moso.cli.options.flags import Decisions, Flags, Quiet, RunArgument, Seed, local_option, option, with_flags
from moso.cli.options.panels import OUTPUT, SELECTION


@dataclass(frozen=True)
class ExportOptions(Flags):
    """Which selection is exported, and in which form."""

    out: Annotated[Path, local_option("--out", help="file or folder to write")]
    method: Annotated[
        str | None, option("--method", panel=SELECTION, help="method [default: the run's, if it has one]")
    ] = None
    selector: Annotated[str | None, option("--selector", panel=SELECTION, help="selector of the method")] = None
    ratio: Annotated[
        str | None,
        option("--ratio", panel=SELECTION, help="share removed, such as 0.4 or 40%; selected now if it is new"),
    ] = None
    keep: Annotated[
        str | None, option("--keep", panel=SELECTION, help="what is kept instead: 0.6, 60% or 3000 samples")
    ] = None
    seed: Seed = None
    overrides: Decisions = None
    form: Annotated[
        str | None,
        option(
            "--format",
            panel=OUTPUT,
            help="indices: csv, npy, parquet; data: parquet-data, folder (of class folders), text (rows of the "
            "original file) [default: by the suffix of --out]",
        ),
    ] = None
    ids: Annotated[bool, option("--ids", panel=OUTPUT, help="npy: ids instead of positions")] = False
    with_test: Annotated[bool, option("--with-test", panel=OUTPUT, help="data: write the test split, too")] = False
    link: Annotated[
        bool, option("--link", panel=OUTPUT, help="folder: symbolic links to the original files, not copies")
    ] = False
    overwrite: Annotated[bool, option("--overwrite", panel=OUTPUT, help="replace an earlier export")] = False
    quiet: Quiet = False


@with_flags
def export(run: RunArgument, options: ExportOptions) -> None:
    """Write what a selection keeps: indices for other programs, or the pruned data itself.

    Labels are those that were trained on, also where the run replaced them or made them noisy. Images are the
    source's own files, before any resize; texts come with all columns of the source's file.
    """
    from moso.cli.display import showing
    from moso.cli.work import asked_selection
    from moso.export.kept import export_kept
    from moso.results.reading import Run

    o, opened = options, Run.open(run)
    method, selector, ratio = asked_selection(opened, o)
    with showing(o.quiet) as progress:
        done = export_kept(
            opened,
            o.out,
            method=method,
            selector=selector,
            ratio=ratio,
            seed=o.seed,
            overrides=o.overrides,
            form=o.form,
            ids=o.ids,
            with_test=o.with_test,
            link=o.link,
            overwrite=o.overwrite,
            progress=progress,
        )
    if not o.quiet:
        kept = f"{done.samples:,} of {opened.manifest['dataset']['train']:,} training samples"
        one = done.selection
        typer.echo(f"{kept}, kept by {one.method} ({one.selector}) at ratio {one.ratio:g}, written to {done.path}")
        if done.note:
            typer.echo(done.note)
