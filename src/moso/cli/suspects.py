"""`moso suspects`: samples whose label is likely wrong, or pairs that do not belong together, worst first."""

from pathlib import Path
from typing import Annotated

from moso import errors
from moso.cli.options.executor_options import ExecutorOptions
from moso.cli.options.flags import RunArgument, Seed, local_option, option, with_flags
from moso.cli.options.panels import DATA, OUTPUT, SCORING

PRINTED = 10


@with_flags
def suspects(
    run: RunArgument,
    labels: Annotated[
        str | None,
        option(
            "--labels",
            panel=DATA,
            help="FILE[:KEY] of labels known to be right, to measure detection by [default: the source's, if the run "
            "replaced them or made them noisy]",
        ),
    ] = None,
    order: Annotated[
        str | None,
        option(
            "--order",
            panel=SCORING,
            help="what ranks the samples: out-of-sample, neighbours, combined, or a score of the run [default: "
            "combined where inputs are vectors, else aum if the run has it, else out-of-sample]",
        ),
    ] = None,
    seed: Seed = None,
    top: Annotated[int, option("--top", panel=OUTPUT, help="number of samples listed; 0 for all")] = 100,
    out: Annotated[Path | None, local_option("--out", help="folder to write to [default: RUN/suspects]")] = None,
    *,
    options: ExecutorOptions,
) -> None:
    """Find samples whose label is likely wrong, or pairs whose text likely belongs to another input, worst first."""
    from moso.analysis.label_issues import check_possible, find_label_issues
    from moso.analysis.pair_issues import check_pairs, find_pair_issues, has_pairs
    from moso.cli.printed_tables import console, print_tables
    from moso.cli.work import open_job, working
    from moso.configuration import CUSTOM
    from moso.evidence_kinds.out_of_sample import PREDICTIONS
    from moso.evidence_kinds.unseen_losses import UNSEEN_LOSSES
    from moso.report.page.page import PAGE, write_report
    from moso.report.suspects.pair_files import pairs_headline, pairs_text, write_pair_suspects
    from moso.report.suspects.suspects_files import headline, write_suspects
    from moso.report.suspects.suspects_tables import detection_text, suspects_text
    from moso.results.reading import Run
    from moso.run.stages import gather

    if top < 0:
        raise errors.SettingInvalid(f"--top {top}: give a number of suspects, or 0 for all")
    opened = Run.open(run)
    pairs = has_pairs(opened)
    if pairs and labels is not None:
        raise errors.SettingsConflict("--labels: the samples of this run are pairs of an input and a text, not labels")
    check_pairs(opened) if pairs else check_possible(opened)
    kind = UNSEEN_LOSSES if pairs else PREDICTIONS
    home = opened.directory.of_seed(opened.configuration, opened.known_seed(seed))
    if not kind.path(home).exists():
        if opened.configuration.dataset == CUSTOM:
            raise errors.DataInMemory(f"{run} was made from data in memory and has no out-of-sample predictions")
        job = open_job(run, options)
        with working(job, options) as executor:
            gather(job, executor, frozenset({kind.name}))
    place = out or opened.directory.root / "suspects"
    if pairs:
        found_pairs = find_pair_issues(opened, order=order, top=top or None, seed=seed)
        paths = write_pair_suspects(opened, found_pairs, place)
        said, tables = pairs_headline(found_pairs), [pairs_text(found_pairs, PRINTED)]
    else:
        found = find_label_issues(opened, order=order, top=top or None, labels=labels, seed=seed)
        paths = write_suspects(opened, found, place)
        tables = [suspects_text(found, PRINTED), *([detection_text(found)] if found.detections else [])]
        said = headline(found)
    page = opened.directory.root / PAGE
    if out is None and page.exists():  # the page shows what was found here
        paths.append(write_report(opened))
    opened.directory.push(*paths)
    if not options.quiet:
        print_tables(tables)
        console().print(said)
        console().print(f"see {', '.join(map(opened.directory.named, paths))}", soft_wrap=True)
