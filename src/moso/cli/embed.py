"""`moso embed`: the features of a data set in a network, computed once and read as `features:DIR`."""

import os
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from moso.cli.configuration_flags import whole_path
from moso.cli.display import showing
from moso.cli.flags import Quiet
from moso.cli.work import local_path
from moso.configuration.device import available_device
from moso.data.dataset import open_dataset
from moso.embedding import Embedding, find_embedder, write_features_folder
from moso.embedding.rows import BATCH_SIZE
from moso.models import Start

Dataset = Annotated[str, typer.Option("--dataset", help="name or path of the data", show_default=False)]
NetworkName = Annotated[
    str, typer.Option("--network", help="timm:NAME, package.module:factory, or a built-in one", show_default=False)
]
Out = Annotated[
    Path,
    typer.Option("--out", help="folder to write", parser=local_path, metavar="DIR", show_default=False),
]
Weights = Annotated[str, typer.Option("--weights", help="file of weights: safetensors, or .pth of plain tensors")]
Side = Annotated[
    int | None,
    typer.Option(
        "--size",
        min=1,
        help="pixels that images are scaled to [as the network was trained; half of it for images up to 64 pixels]",
        show_default=False,
    ),
]


def embed(
    dataset: Dataset,
    network: NetworkName,
    out: Out,
    pretrained: Annotated[bool, typer.Option("--pretrained", help="timm's own weights, cache or hub")] = False,
    weights: Weights = "",
    size: Side = None,
    resize: Annotated[int | None, typer.Option("--resize", help="pixels images of unequal size are cut to")] = None,
    on_broken: Annotated[str, typer.Option("--on-broken", help="broken images: stop or skip")] = "stop",
    test_share: Annotated[float, typer.Option("--test-share", help="share held out without a test split")] = 0.2,
    precision: Annotated[str, typer.Option("--precision", help="stored numbers: float16 or float32")] = "float16",
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="samples per batch")] = BATCH_SIZE,
    threads: Annotated[int, typer.Option("--threads", min=0, help="threads; 0 = one per core")] = 0,
    loader_workers: Annotated[int, typer.Option("--loader-workers", min=0, help="decoding processes")] = 2,
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, mps")] = "cpu",
    quiet: Quiet = False,
) -> None:
    """Compute the features of every sample once; `--dataset features:DIR` prunes with them in seconds.

    Labels, ids and class names are written beside them. A command that was interrupted goes on where it stopped.
    """
    started = time.monotonic()
    how = Embedding(_precision(precision), batch_size, threads or os.cpu_count() or 1, loader_workers)
    available_device(device)
    start = Start(pretrained, str(Path(weights).expanduser().resolve()) if weights else "")
    data = open_dataset(whole_path(dataset), resize=resize, on_broken=_on_broken(on_broken), test_share=test_share)
    embedder = find_embedder(network, data.train, start, size, device)
    with showing(quiet) as progress:
        done = write_features_folder(out, data, embedder, how, resize=resize, progress=progress)
    if not quiet:
        counts = ", ".join(f"{count:,} {name}" for name, count in done.samples.items())
        typer.echo(
            f"features of {counts} samples ({done.width} numbers each, {how.dtype}) in {done.path}, "
            f"{time.monotonic() - started:.0f} s; go on with: moso run --dataset features:{done.path}"
        )


def _precision(name: str) -> str:
    return _one_of("--precision", name, ("float16", "float32"))


def _on_broken(name: str) -> Literal["stop", "skip"]:
    return "skip" if _one_of("--on-broken", name, ("stop", "skip")) == "skip" else "stop"


def _one_of(flag: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise typer.BadParameter(f"{flag} {value} is none of {', '.join(known)}")
    return value
