"""The verdict in sentences that claim no more than the numbers do.

The order: what can go and what that does to the worst class; random selection of the same size; baselines of the same
cost; what is saved; how sure that is.
"""

import math
from typing import TYPE_CHECKING

from moso.analysis.class_changes import ClassChange
from moso.analysis.wording import count_of, duration, percent
from moso.evaluation.paired import PairedDifference
from moso.evaluation.standings import Entry
from moso.tasks.metric import ACCURACY, Measure

if TYPE_CHECKING:  # the verdict is made of these words
    from moso.analysis.verdict import Finding, Verdict


def sentences_of(verdict: "Verdict") -> tuple[str, ...]:
    """Return the verdict in words; the first two sentences are the headline."""
    found = verdict.finding
    if found is None:
        return _unproven(verdict)
    said = (
        _share(verdict, found),
        _beside_random(verdict, found),
        _random_reach(verdict),
        _beside_matched(found),
        _saved(verdict, found),
        _certainty(verdict, found),
    )
    return tuple(filter(None, said))


def _unproven(verdict: "Verdict") -> tuple[str, ...]:
    if verdict.samples and not verdict.test_samples:
        return (
            f"Nothing is proven: {verdict.data} has no labelled test data, so no network was retrained on the kept "
            "samples.",
            "Whether the kept samples are enough, and whether they beat drawing at random, is not known.",
        )
    return (
        f"Nothing has been retrained on a pruned {verdict.data} yet, so nothing can be said about accuracy.",
        "Whether the kept samples beat drawing at random is not known.",
    )


def _share(verdict: "Verdict", found: "Finding") -> str:
    """Return how much can go within the tolerance; a harmed class is said here, in the headline."""
    row, measure = found.row, found.row.entry.measure
    removed = percent(found.ratio)
    kept = count_of(verdict.kept or 0, "sample")
    reaches = f"trained on the {kept} that {row.entry.name} keeps, the network reaches {_value(row.entry, named=True)}"
    if row.full is None or row.against_full is None:
        return f"With {removed} of {verdict.data} removed, {reaches}; training on all data has not been measured."
    beside = f"{_side(row.against_full)} all data ({_value(row.full)})"
    if found.within:
        can, within = _modal(row.against_full, verdict), _tolerance(verdict.tolerance, measure)
        whole = (
            f"{removed} of {verdict.data} {can} within {within}: {reaches}, {beside}{_class_clause(verdict, found)}."
        )
        return f"{whole} {_held_back(verdict)}".strip()
    if verdict.held_back is not None:
        return f"No share that was retrained can go. {_held_back(verdict)}"
    price = measure.title if measure.better == "higher" else "something"
    harmed = _class_clause(verdict, found)
    return f"Removing data costs {price} here: with {removed} of {verdict.data} removed, {reaches}, {beside}{harmed}."


def _held_back(verdict: "Verdict") -> str:
    held, worst = verdict.held_back, None if verdict.held_back is None else verdict.held_back.worst_class
    if held is None or worst is None or held.row.against_full is None:
        return ""
    return (
        f"{percent(held.ratio)} cannot: {held.row.entry.name} is {_side(held.row.against_full)} all data overall, but "
        f"class {worst.name} falls from {_accuracies(worst)}."
    )


def _class_clause(verdict: "Verdict", found: "Finding") -> str:
    worst = found.worst_class
    if worst is None:
        return ""
    if worst.is_harm(verdict.tolerance):
        return f", and class {worst.name} falls from {_accuracies(worst)}"
    if worst.change >= -verdict.tolerance:
        return f", and no class loses more (the worst, {worst.name}: {_accuracies(worst)})"
    tested = count_of(worst.test_samples, "test sample")
    return f"; the worst class, {worst.name}, goes from {_accuracies(worst)}, which its {tested} leave to chance"


def _accuracies(change: ClassChange) -> str:
    return f"{change.before:.1f} to {change.after:.1f} %"


def _tolerance(tolerance: float, measure: Measure) -> str:
    """Return the tolerance in words.

    Example:
        >>> _tolerance(1.0, ACCURACY), _tolerance(0.5, Measure("loss", unit=""))
        ('1 point of all data', '0.5 % of the loss on all data')
    """
    if measure.unit == "%":
        return f"{tolerance:g} point{'' if tolerance == 1 else 's'} of all data"
    return f"{tolerance:g} % of the {measure.title} on all data"


def _value(entry: Entry, named: bool = False) -> str:
    measure = entry.measure
    text = measure.text(entry.line.mean) + (" %" if measure.unit == "%" else "")
    return f"{text} ({measure.title})" if named and measure != ACCURACY else text


def _modal(against_full: PairedDifference, verdict: "Verdict") -> str:
    if math.isnan(against_full.widened):
        return "may be able to go"
    full = None if verdict.finding is None else verdict.finding.row.full
    scale = 1.0 if against_full.measure.unit == "%" or full is None else abs(full.line.mean) / 100
    sure = against_full.gain - against_full.widened >= -verdict.tolerance * scale
    return "can go" if sure else "can probably go"


def _side(difference: PairedDifference, margin: bool = False) -> str:
    """Return the difference in words: "2.8 points above"; with the half width of its interval if asked and known."""
    text = difference.measure.text(abs(difference.value))
    width = difference.measure.text(difference.margin) if margin and not math.isnan(difference.margin) else ""
    if float(text) == 0:
        return f"the same (± {width}) as" if width else "the same as"
    unit = "" if difference.measure.unit != "%" else " point" if text == "1.0" and not width else " points"
    return f"{text}{f' ± {width}' if width else ''}{unit} {'above' if difference.value > 0 else 'below'}"


def _beside_random(verdict: "Verdict", found: "Finding") -> str:
    row = found.row
    if row.random is None or row.against_random is None:
        return "Random selection of the same size has not been measured beside it."
    pairs = row.against_random.pairs
    shared = {len(row.entry.by_seed), len(row.random.by_seed)} == {pairs}
    over = "" if shared else f" over the {count_of(pairs, 'seed')} that both have"
    baseline = f"random selection of the same size ({_value(row.random)}){over}"
    side = _side(row.against_random, margin=True)
    match row.against_random.verdict:
        case "unknown":
            return f"That is {side} {baseline}, but a single seed has no interval and cannot tell merit from chance."
        case "level":
            found_by = count_of(pairs, "seed") + _among(row.against_random)
            said = f"That is {side} {baseline}: no difference that {found_by} can tell from chance."
        case "better":
            return f"That is {side} {baseline}."
        case "worse":
            said = f"But that is {side} {baseline}, which is the better choice here."
    if verdict.anything_beats_random:
        return said
    # A difference that chance may have made is no proof of merit, and none of its absence either.
    if row.against_random.verdict == "level" and row.against_random.gain > 0:
        return f"{said} Nothing here is shown to beat drawing at random; more seeds may tell."
    return f"{said} Nothing here beats drawing at random."


def _among(difference: PairedDifference) -> str:
    """Return the number of comparisons, where the interval alone leaves zero out and only their number brings it in."""
    if abs(difference.value) <= difference.margin:
        return ""
    return f", allowing for {count_of(difference.comparisons, 'comparison')},"


def _random_reach(verdict: "Verdict") -> str:
    """Return how much random selection can remove, where that is more than any method can."""
    if verdict.random_ratio is None or verdict.random_ratio <= verdict.removable:
        return ""
    return f"Random selection stays within the tolerance up to {percent(verdict.random_ratio)}."


def _beside_matched(found: "Finding") -> str:
    """Return whether the choice of samples matters, if baselines with as many updates and no pruning were measured."""
    row = found.row
    if row.matched is None or row.against_matched is None:
        return ""
    reached = f"As many updates without any pruning ({row.matched.name}) reach {_value(row.matched)}"
    match row.against_matched.verdict:
        case "better":
            return f"{reached}, so it is the choice of samples that helps."
        case "worse":
            return f"{reached}, which is better: not to prune costs no more time here."
        case "level":
            return f"{reached}: pruning is no better than that, as far as the seeds can tell."
        case "unknown":
            return f"{reached}."


def _saved(verdict: "Verdict", found: "Finding") -> str:
    """Return what is saved; nothing where accuracy is lost, and no payback where random selection does as well."""
    if not found.within or verdict.kept is None:
        return ""
    times = [verdict.spent.retraining.get(ratio) for ratio in (0.0, found.ratio)]
    said = f"That saves {count_of(verdict.samples - verdict.kept, 'sample')} of {verdict.samples:,}"
    if times[0] is None or times[1] is None:
        return f"{said}."
    if times[1] >= times[0]:
        return f"{said}, but no training time ({duration(times[1])} per retraining)."
    said += f" and {duration(times[0] - times[1])} of the {duration(times[0])} of a retraining."
    cost, kept = duration(verdict.scoring_seconds), percent(1 - found.ratio)
    if verdict.beats_random is False:
        return f"{said} Random selection saves the same without the {cost} of scoring."
    after = verdict.paid_after
    if after is None:
        return said
    save = f"{count_of(after, 'retraining')} on the kept {kept} save{'s' if after == 1 else ''}"
    return f"{said} Scoring costs {cost}, as much as {save}."


def _certainty(verdict: "Verdict", found: "Finding") -> str:
    tested = f"{verdict.test_samples:,} test samples" if verdict.test_samples else "the test data"
    if verdict.seeds == 1:
        return f"Measured once, on {tested}: repeat it with 3 or more seeds before you rely on it."
    half = " Intervals are 95 % of Student's t over the seeds." if found.row.against_random is not None else ""
    return f"Measured under {count_of(verdict.seeds, 'seed')} on {tested}.{half}"
