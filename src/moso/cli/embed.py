"""`moso embed`: the features of a data set in a network, computed once and read as `features:DIR`."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from moso.cli.options.flags import Flags, Quiet, local_path, option, with_flags
from moso.cli.options.panels import DATA, NETWORK, OUTPUT, PLACE

# `embedding.rows.BATCH_SIZE`, which a test holds against this.
BATCH = 64


@dataclass(frozen=True)
class EmbedOptions(Flags):
    """The data, the network, and how the features are computed and stored."""

    dataset: Annotated[str, option("--dataset", panel=DATA, help="name or path of the data")]
    network: Annotated[
        str,
        option(
            "--network",
            panel=NETWORK,
            help="timm:NAME, hf:FOLDER (texts), package.module:factory, or a built-in network",
        ),
    ]
    out: Annotated[Path, option("--out", panel=OUTPUT, help="folder to write", parser=local_path, metavar="DIR")]
    resize: Annotated[
        int | None, option("--resize", panel=DATA, help="pixels that images of unequal size are cropped to")
    ] = None
    on_broken: Annotated[str, option("--on-broken", panel=DATA, help="images that cannot be decoded: stop or skip")] = (
        "stop"
    )
    test_share: Annotated[
        float, option("--test-share", panel=DATA, help="share held out for testing if the data has no test split")
    ] = 0.2
    pretrained: Annotated[
        bool, option("--pretrained", panel=NETWORK, help="timm's own weights, from its cache or hub")
    ] = False
    weights: Annotated[
        str, option("--weights", panel=NETWORK, help="file of weights: safetensors, or .pth of plain tensors")
    ] = ""
    size: Annotated[
        int | None,
        option(
            "--size",
            panel=NETWORK,
            min=1,
            help="pixels that images are scaled to [default: as the network was trained; half of it for images up to "
            "64 pixels]",
        ),
    ] = None
    batch_size: Annotated[int, option("--batch-size", panel=PLACE, min=1, help="samples per batch")] = BATCH
    threads: Annotated[int, option("--threads", panel=PLACE, min=0, help="threads; 0 for one per core")] = 0
    loader_workers: Annotated[
        int, option("--loader-workers", panel=PLACE, min=0, help="processes that decode images")
    ] = 2
    device: Annotated[str, option("--device", panel=PLACE, help="cpu, cuda, cuda:1 or mps")] = "cpu"
    precision: Annotated[
        str, option("--precision", panel=OUTPUT, help="precision of the stored numbers: float16 or float32")
    ] = "float16"
    quiet: Quiet = False


@with_flags
def embed(options: EmbedOptions) -> None:
    """Compute the features of every sample once; `--dataset features:DIR` prunes with them in seconds.

    Labels, ids and class names are written beside them. The same command resumes an interrupted one.
    """
    from moso.cli.display import showing
    from moso.cli.options.configuration_flags import whole_path
    from moso.configuration.device import available_device
    from moso.data.dataset import open_dataset
    from moso.embedding import Embedding, find_embedder, write_features_folder
    from moso.models import Start, check_embeds

    o, started = options, time.monotonic()
    precision = _one_of("--precision", o.precision, ("float16", "float32"))
    how = Embedding(precision, o.batch_size, o.threads or os.cpu_count() or 1, o.loader_workers)
    available_device(o.device)
    start = Start(o.pretrained, str(Path(o.weights).expanduser().resolve()) if o.weights else "")
    check_embeds(o.network, start)
    broken: Literal["stop", "skip"] = (
        "skip" if _one_of("--on-broken", o.on_broken, ("stop", "skip")) == "skip" else "stop"
    )
    data = open_dataset(whole_path(o.dataset), resize=o.resize, on_broken=broken, test_share=o.test_share)
    embedder = find_embedder(whole_path(o.network), data.train, start, o.size, o.device)
    with showing(o.quiet) as progress:
        done = write_features_folder(o.out, data, embedder, how, resize=o.resize, progress=progress)
    if not o.quiet:
        counts = ", ".join(f"{count:,} {name}" for name, count in done.samples.items())
        typer.echo(
            f"features of {counts} samples ({done.width} numbers each, {how.dtype}) in {done.path}, "
            f"{time.monotonic() - started:.0f} s; go on with: moso run --dataset features:{done.path}"
        )


def _one_of(flag: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise typer.BadParameter(f"{flag} {value} is none of {', '.join(known)}")
    return value
