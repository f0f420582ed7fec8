"""The page with many samples in a real browser: how soon it can be used, and how smoothly it scrolls.

A finished run is made up over 50,000 pictures (or those of a data set) and written by `moso report`; then a run over a
million rows of numbers is served by `moso explore`. Each page is opened in a fresh headless Chromium, several times.
"Usable" is the time from the beginning of the navigation until the grid and the slider answer, to be below 2 seconds;
frames are those of a steady scroll through the grid, by the browser's own clock.

"Map" is the time from the click on the map until it is drawn (served, that includes computing it), and from the end of
a rectangle around a quarter of it until the samples inside are known.

    python -m benchmarks.page [--dataset parquet:CIFAR100_FOLDER --features FILE.npy] [--samples 50000] [--rows 1000000]
"""

import argparse
import os
import platform
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.made_up_run import make_run, pictures, rows
from moso.errors import MosoError
from moso.files import write_json
from moso.report.page.page import write_report
from moso.report.page.server import Explorer

OUT = Path(__file__).parent.parent / "docs" / "benchmarks" / "page.json"
TARGET_SECONDS = 2.0
REPEATS = 5

SCROLL = """async (pixels) => {
  const grid = document.querySelector(".grid");
  const frames = [];
  let last = await new Promise(requestAnimationFrame);
  for (let i = 0; i < 240; i++) {
    grid.scrollTop += pixels;
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  return frames.sort((a, b) => a - b);
}"""
SLIDER = """async () => {
  const times = [];
  for (let i = 0; i < 20; i++) {
    const start = performance.now();
    await moso.model.choose({ ratio: 0.2 + 0.03 * i });
    times.push(performance.now() - start);
  }
  return times.sort((a, b) => a - b);
}"""
MAP = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  let start = performance.now();
  location.hash = "map";
  while (!document.querySelector(".map[data-painted]") || !document.querySelector(".key small")) await frame();
  await frame();
  const drawn = performance.now() - start;
  const plot = document.querySelector(".map");
  const area = plot.getBoundingClientRect();
  const at = (kind, x, y) => plot.dispatchEvent(new PointerEvent(kind, {
    pointerId: 1, bubbles: true, clientX: area.left + x * area.width, clientY: area.top + y * area.height }));
  plot.setPointerCapture = () => undefined;
  at("pointerdown", 0.25, 0.25);
  at("pointermove", 0.75, 0.75);
  start = performance.now();
  at("pointerup", 0.75, 0.75);
  while (!document.querySelector(".chosen strong")) await frame();
  return [drawn, performance.now() - start];
}"""
# Numbers of made-up features.
WIDTH = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", help="a data set of pictures [made-up ones]")
    parser.add_argument("--features", type=Path, help="features of its training samples, .npy [made-up ones]")
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        home = Path(folder)
        dataset = given.dataset or pictures(home / "pictures" / "train.parquet", given.samples)
        features = WIDTH if given.features is None else np.load(given.features, mmap_mode="r", allow_pickle=False)
        in_file = measure_file(browser, home / "pictures-run", dataset, features)
        served = measure_served(browser, home / "rows-run", rows(home / "rows" / "train.parquet", given.rows))
        version = browser.version
    found = {
        "benchmark": "page",
        "machine": {
            "cores": os.cpu_count(),
            "load_before_and_after": [round(before, 1), round(os.getloadavg()[0], 1)],
            "architecture": platform.machine(),
            "python": platform.python_version(),
            "chromium": version,
        },
        "data": "pictures of a data set" if given.dataset else "made-up pictures",
        "features": "of the data set" if given.features else f"made up, {WIDTH} numbers per sample",
        "target_seconds": TARGET_SECONDS,
        "report": in_file,
        "explore": served,
    }
    write_json(given.out, found)
    for name, one in (("report", in_file), ("explore", served)):
        usable, frames = one["usable_seconds"]["median"], one["scroll_frame_ms"]
        print(
            f"{name}: {one['samples']:,} samples usable after {usable:.2f} s "
            f"({usable / TARGET_SECONDS:.2f} of the target), scrolling {frames['median']:.1f} ms a frame, "
            f"{frames['p95']:.1f} at the 95th percentile, slider {one['slider_ms']['median']:.0f} ms, "
            f"map {one['map_seconds']['median']:.2f} s, rectangle {one['brush_ms']['median']:.0f} ms"
        )


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise MosoError("there is no Chromium on this machine; on Debian: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def measure_file(browser: Any, root: Path, dataset: str, features: Any) -> dict[str, Any]:
    run = make_run(root, dataset, features)
    started = perf_counter()
    path = write_report(run)
    written = perf_counter() - started
    found = measure(browser, path.as_uri())
    return {"written_seconds": round(written, 2), "megabytes": round(path.stat().st_size / 1e6, 2), **found}


def measure_served(browser: Any, root: Path, dataset: str) -> dict[str, Any]:
    run = make_run(root, dataset, WIDTH // 4)
    started = perf_counter()
    with Explorer(run) as server:
        opened = perf_counter() - started
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            found = measure(browser, server.address)
        finally:
            server.shutdown()
            thread.join()
    return {"opened_seconds": round(opened, 2), **found}


def measure(browser: Any, address: str) -> dict[str, Any]:
    usable, overview, frames, jumps, slider, maps, brushes, count, heap = [], [], [], [], [], [], [], 0, 0
    for _ in range(REPEATS):
        with browser.new_context(viewport={"width": 1366, "height": 850}) as context:
            page = context.new_page()
            page.goto(f"{address}#samples", wait_until="commit")
            page.wait_for_selector("body[data-ready] .cell[data-position]")
            usable.append(page.evaluate("performance.getEntriesByName('moso-ready')[0].startTime") / 1000)
            overview.append(page.evaluate("performance.getEntriesByType('paint').at(-1)?.startTime ?? 0") / 1000)
            frames += page.evaluate(SCROLL, 40)
            jumps += page.evaluate(SCROLL, 2000)
            slider += page.evaluate(SLIDER)
            count = page.evaluate("moso.model.count")
            heap = page.evaluate("performance.memory?.usedJSHeapSize ?? 0")
        # A page of its own: the server still answers what the scrolling above asked for.
        with browser.new_context(viewport={"width": 1366, "height": 850}) as context:
            page = context.new_page()
            page.goto(f"{address}#overview")
            page.wait_for_selector("body[data-ready]")
            drawn, brushed = page.evaluate(MAP)
            maps.append(drawn / 1000)
            brushes.append(brushed)
    return {
        "samples": count,
        "usable_seconds": spread(usable, 3),
        "first_paint_seconds": spread(overview, 3),
        "scroll_frame_ms": spread(frames, 2),
        "jump_frame_ms": spread(jumps, 2),
        "slider_ms": spread(slider, 1),
        "map_seconds": spread(maps, 3),
        "brush_ms": spread(brushes, 1),
        "heap_megabytes": round(heap / 1e6),
    }


def spread(values: list[float], digits: int) -> dict[str, float]:
    ordered = sorted(values)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))]
    return {
        "median": round(median(ordered), digits),
        "p95": round(p95, digits),
        "largest": round(ordered[-1], digits),
    }


if __name__ == "__main__":
    main()
