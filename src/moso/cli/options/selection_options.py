"""Flags of `moso score | select | evaluate`: methods, selectors, ratios, and the user's own scores and lists."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from moso import errors
from moso.cli.options.flags import Decisions, Flags, Keeps, option
from moso.cli.options.panels import SELECTION

if TYPE_CHECKING:
    from moso.configuration.resolved_method import ResolvedMethod
    from moso.run.job import Job
    from moso.scores import Hard

Methods = Annotated[
    list[str] | None,
    option("--method", panel=SELECTION, help="pruning method; may be repeated [default: those of the run]"),
]
Selectors = Annotated[
    list[str] | None,
    option("--selector", panel=SELECTION, help="selector; may be repeated [default: each method's own]"),
]
Ratios = Annotated[
    list[str] | None,
    option(
        "--ratio",
        panel=SELECTION,
        help="share to remove, such as 0.4 or 40%; may be repeated [default: those of the run]",
    ),
]


@dataclass(frozen=True)
class SelectionOptions(Flags):
    """Methods, selectors and ratios, their settings, and the user's own scores, lists and decisions."""

    method: Methods = None
    selector: Selectors = None
    ratio: Ratios = None
    keep: Keeps = None
    setting: Annotated[
        list[str] | None,
        option("--setting", panel=SELECTION, help="SELECTOR.SETTING=VALUE, e.g. coverage.cut=0.2; may be repeated"),
    ] = None
    min_per_class: Annotated[
        int | None, option("--min-per-class", panel=SELECTION, min=0, help="samples that every class keeps at least")
    ] = None
    scores: Annotated[
        Path | None,
        option("--scores", panel=SELECTION, help="scores of your own: .npy, or a .parquet or .csv with id, score"),
    ] = None
    indices: Annotated[
        Path | None,
        option(
            "--indices", panel=SELECTION, help="a list of kept samples: .npy positions, or ids in .parquet, .csv, .txt"
        ),
    ] = None
    name: Annotated[str | None, option("--name", panel=SELECTION, help="name of your scores or list")] = None
    hard: Annotated[
        str | None,
        option("--hard", panel=SELECTION, help="the end of your scores where hard samples are: high, low"),
    ] = None
    overrides: Decisions = None

    def choices(self, job: "Job") -> "list[ResolvedMethod]":
        """Import the user's files into the run, and return the requested methods and selectors."""
        own = self._bring(job)
        choices = asked_choices(job, [*(self.method or []), *own], self.selector, self.setting, self.min_per_class)
        return _decided(job, choices, self.overrides)

    def ratios(self, job: "Job") -> list[float]:
        """Return the requested shares to remove; none stands for those of the run."""
        return asked_ratios(self.ratio, self.keep, len(job.data.train))

    def _bring(self, job: "Job") -> list[str]:
        """Import the user's score or list into the run; return its name, or nothing if there is none."""
        from moso.run.imported_scores import import_list, import_scores

        name, scores, indices, hard = self.name, self.scores, self.indices, self.hard
        if scores is None and indices is None:
            if name is not None or hard is not None:
                raise errors.SettingsConflict("--name and --hard belong to --scores FILE or --indices FILE")
            return []
        if scores is not None and indices is not None:
            raise errors.SettingsConflict("give --scores or --indices, not both; what stays is decided once")
        if name is None:
            raise errors.SettingMissing("what you bring needs a name of its own; give --name")
        if indices is not None:
            import_list(job, name, indices)
        elif scores is not None:
            if hard not in (None, "high", "low"):
                raise errors.SettingInvalid(
                    f"--hard {hard} must be high or low, the end of the scores where the hard samples are"
                )
            import_scores(job, name, scores, cast("Hard | None", hard))
        return [name]


def asked_ratios(ratios: Sequence[str] | None, keeps: Sequence[str] | None, samples: int) -> list[float]:
    """Return the shares to remove that `--ratio` and `--keep` ask for, each once; none if neither was given.

    Args:
        ratios: Values of `--ratio`.
        keeps: Values of `--keep`.
        samples: Number of training samples.

    Raises:
        MosoError: ``ratio-out-of-range``, ``setting-invalid``.
    """
    from moso.selection.share import parse_keep, parse_share

    found = [parse_share(one) for one in ratios or ()] + [parse_keep(one).ratio(samples) for one in keeps or ()]
    return list(dict.fromkeys(found))


def asked_choices(
    job: "Job",
    methods: list[str] | None,
    selectors: list[str] | None,
    settings: list[str] | None = None,
    min_per_class: int | None = None,
) -> "list[ResolvedMethod]":
    """Return the requested methods and selectors, resolved; by default those of the configuration.

    Args:
        job: The job.
        methods: Names of methods; ``"all"`` means every method that is possible in this run.
        selectors: Names of selectors; by default each method's own.
        settings: Settings of selectors as `SELECTOR.SETTING=VALUE`.
        min_per_class: Samples that every class keeps; by default that of the configuration.

    Raises:
        SettingsConflict: A setting belongs to a score, which is already computed.
        MosoError: A name is unknown, or a method is impossible in this run.
    """
    from moso.run.imported_scores import find_choices

    asking = _with_settings(job, settings or [], min_per_class)
    if not methods and not selectors:
        return find_choices(asking)
    named = list(methods or job.configuration.methods)
    if "all" in named:
        every = asking.configuration.model_copy(update={"selectors": tuple(selectors or ())})
        named = list(every.possible_methods())
    ways: Sequence[str | None] = selectors or [None]
    return find_choices(asking, [(method, selector) for method in named for selector in ways])


def _decided(job: "Job", choices: "list[ResolvedMethod]", overrides: Path | None) -> "list[ResolvedMethod]":
    """Return the choices with the user's manual decisions, which are copied into the run."""
    if overrides is None:
        return choices
    from moso.results.overrides import keep_overrides
    from moso.run.imported_scores import LISTED

    for choice in choices:
        if choice.selector.name == LISTED:
            raise errors.SettingsConflict(
                f"{choice.method!r} is a list of your own; change the list, --overrides is for selectors"
            )
    digest = keep_overrides(job.directory.root, overrides, job.data.train)
    return [replace(choice, overrides=digest) for choice in choices]


def _with_settings(job: "Job", settings: list[str], min_per_class: int | None) -> "Job":
    """Return the job with other settings of selectors; the settings of scores are fixed, as the scores are computed."""
    from moso.configuration.resolved_method import read_settings
    from moso.selection import selectors as known_selectors

    given = read_settings(settings)
    of_scores = sorted(set(given) - set(known_selectors()))
    if of_scores:
        raise errors.SettingsConflict(
            f"{of_scores[0]!r} is a score, and this run's has its settings already; use another --out"
        )
    merged = {**job.configuration.settings}
    for owner, values in given.items():
        merged[owner] = {**merged.get(owner, {}), **values}
    least = job.configuration.min_per_class if min_per_class is None else min_per_class
    changed = job.configuration.model_copy(update={"settings": merged, "min_per_class": least})
    return replace(job, configuration=changed)
