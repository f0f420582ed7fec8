"""`moso export`: the kept samples of a selection, as indices or as the pruned data itself."""

from pathlib import Path
from typing import Annotated

import typer

from moso.cli.display import showing
from moso.cli.flags import Quiet, RunArgument
from moso.cli.selection_options import Decisions
from moso.cli.work import local_path
from moso.export.kept import export_kept
from moso.results.reading import Run


def export(
    run: RunArgument,
    out: Annotated[
        Path,
        typer.Option("--out", help="file or folder to write", parser=local_path, metavar="PATH", show_default=False),
    ],
    method: Annotated[str | None, typer.Option("--method", help="method that selected", show_default=False)] = None,
    selector: Annotated[str | None, typer.Option("--selector", help="its selector", show_default=False)] = None,
    ratio: Annotated[float | None, typer.Option("--ratio", help="share removed", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="seed [the run's first]", show_default=False)] = None,
    overrides: Decisions = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="indices: csv, npy, parquet; data: parquet-data, folder (of class folders), text (rows of the file "
            "they came from) [by the suffix of --out]",
            show_default=False,
        ),
    ] = None,
    ids: Annotated[bool, typer.Option("--ids", help="npy: ids instead of positions")] = False,
    with_test: Annotated[bool, typer.Option("--with-test", help="data: the whole test split, too")] = False,
    link: Annotated[bool, typer.Option("--link", help="folder: links to the original files, not copies")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace what an earlier export wrote")] = False,
    quiet: Quiet = False,
) -> None:
    """Write what a selection keeps: indices for other programs, or the pruned data itself.

    Labels are those that were trained on, also where the run replaced them or made them noisy. Images are the
    source's own files, before any resize; texts come with all columns of the source's file.
    """
    opened = Run.open(run)
    with showing(quiet) as progress:
        done = export_kept(
            opened,
            out,
            method=method,
            selector=selector,
            ratio=ratio,
            seed=seed,
            overrides=overrides,
            form=form,
            ids=ids,
            with_test=with_test,
            link=link,
            overwrite=overwrite,
            progress=progress,
        )
    if not quiet:
        kept = f"{done.samples:,} of {opened.manifest['dataset']['train']:,} training samples"
        one = done.selection
        typer.echo(f"{kept} that {one.method} ({one.selector}) keeps at ratio {one.ratio:g} in {done.path}")
