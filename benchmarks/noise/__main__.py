"""The command line: the sweep's lines go to `docs/results/noise-sweep.jsonl`, resumable; plots are made from them.

python -m benchmarks.noise sweep FEATURES --runs runs/noise     # whole runs of the product
python -m benchmarks.noise variants FEATURES --runs runs/noise  # variants in plain PyTorch
python -m benchmarks.noise page FEATURES --runs runs/noise      # stages from the sweep's runs, plots and page
"""

import argparse
import json
from pathlib import Path

import torch

from benchmarks.noise import plots
from benchmarks.noise.stages import write_stages
from benchmarks.noise.sweep import METHODS, NOISES, first_rows, lines_of
from benchmarks.noise.variants import measured, normalised
from moso.files import write_text

DOCS = Path(__file__).parents[2] / "docs"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.noise", description=__doc__)
    parser.add_argument("part", choices=["sweep", "variants", "page"])
    parser.add_argument("features", type=Path, help="folder with train.npy, test.npy and their labels")
    parser.add_argument("--runs", type=Path, required=True, help="where run directories lie")
    parser.add_argument("--seeds", type=int, default=3, help="seeds per noise (%(default)s)")
    parser.add_argument("--out", type=Path, default=DOCS / "results", help="where results are written")
    return parser.parse_args(arguments)


def write_page(runs: Path, out: Path) -> None:
    """Write the stages, where their runs are there, the plots and the page."""
    files = {part: out / f"noise-{part}.jsonl" for part in ("sweep", "variants", "stages")}
    if (runs / f"{NOISES[0].folder}-0" / "run.toml").exists():
        write_stages(runs, files["stages"])
    sweep, variants, stages = (plots.read(file) for file in files.values())
    plots.draw_formulas(out / "noise-formulas.png")
    plots.draw_stages(stages, out / "noise-stages.png")
    plots.draw_sweep(sweep, ("auto", *METHODS[:-1], "moso-rank, trusted risk"), out / "noise-sweep.png")
    write_text(out / "noise-sweep.md", plots.page(sweep, variants, stages))


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing of a part."""
    given = parse(arguments)
    torch.set_num_threads(1)
    if given.part == "page":
        write_page(given.runs, given.out)
        return
    file = given.out / f"noise-{given.part}.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    done = {(line["noise"], line["seed"]) for line in lines}
    data = first_rows(given.features, given.runs / "features")
    rows = normalised(data) if given.part == "variants" else None
    for seed in range(given.seeds):
        for noise in NOISES:
            if (noise.name, seed) in done:
                continue
            found = lines_of(noise, data, seed, given.runs) if rows is None else measured(noise, *rows, seed)
            text = "".join(f"{json.dumps(line)}\n" for line in found)  # whole before anything is written
            with file.open("a", encoding="utf-8") as out:
                out.write(text)
            print(f"{noise.name}, seed {seed}: done", flush=True)


if __name__ == "__main__":
    main()
