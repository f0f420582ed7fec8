"""report.html: one file that opens offline and says what a run found.

Everything that comes from data (class names, ids, paths) is escaped, and the page forbids scripts and requests to
whoever shows it. The same run gives the same bytes, but for the seconds that its computations took.
"""

from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from moso.files import write_text
from moso.report import sections
from moso.report.findings import compare, headline, tally
from moso.report.pictures import png_uri
from moso.report.plots import ordered_lines, png
from moso.report.wording import data_name
from moso.run.reading import Run
from moso.version import __version__


def write_report(run: Run) -> Path:
    """Write the page of a run, finished or not; returns its path.

    >>> import moso, tempfile, numpy as np
    >>> images, labels = np.random.default_rng(0).integers(0, 255, (40, 1, 8, 8)).astype("uint8"), np.arange(40) % 2
    >>> pruned = moso.prune((images, labels), ratio=0.5, model="mlp-w8", recipe="quick", time_steps=2, partitions=1)
    >>> write_report(pruned.run).name
    'report.html'
    """
    path = run.directory.root / "report.html"
    write_text(path, render(run))
    return path


def render(run: Run) -> str:
    """The page as text."""
    rows = ordered_lines(run)
    described = run.manifest.get("dataset", {})
    comparisons = compare(rows, described.get("test", 0))
    main = sections.main_pair(run, rows)
    name = data_name(run.configuration.dataset)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["png"] = lambda figure: png_uri(png(figure))
    text = (resources.files("moso.report") / "page.html.j2").read_text(encoding="utf-8")
    return environment.from_string(text).render(
        name=name,
        headline=headline(comparisons, name, described.get("train", 0)),
        tally=tally(comparisons),
        facts=sections.facts(run),
        missing=sections.missing(run, rows),
        accuracy=sections.accuracy(run, rows, comparisons) if rows else None,
        cost=sections.cost(run),
        scores=sections.scores(run),
        samples=sections.samples(run, main),
        classes=sections.classes(run, main),
        settings=sections.settings(run),
        recipes=sections.recipes(run),
        toml=run.configuration.to_toml(),
        version=__version__,
    )
