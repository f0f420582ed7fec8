"""Registry of methods by name: the built-in ones, and those of installed packages (entry points `moso.methods`).

Any score can be combined with any selector whose needs it meets; a method is the combination that its source uses.
"""

from collections.abc import Iterable

from moso.methods.auto import AUTO, CHOSEN
from moso.methods.method import Family, Method
from moso.registry import Registry
from moso.scores import OUT_OF_SAMPLE, SCORES


def _of_score(name: str, family: Family, when: str, selector: str = "top", description: str | None = None) -> Method:
    """Return the method of a score of the same name and a selector with default settings."""
    score = SCORES.get(name)
    described = description or score.description
    return Method(name, name, selector, described, source=score.source, family=family, when=when)


_OURS = (
    _of_score(
        "moso",
        "ours",
        "to check the paper's Proposition 1.1 to the letter",
        "balanced",
        "Proposition 1.1 to the letter, the top of each class",
    ),
    _of_score(
        "moso-standardised",
        "ours",
        "to weigh all stages of training alike",
        "balanced",
        "MoSo, all stages of training on one scale",
    ),
    _of_score(
        "moso-rank",
        "ours",
        "the default: wrong labels, or most of the data removed from features that fit",
        "balanced",
        "MoSo by rank at all stages of training",
    ),
    _of_score(
        "moso-cross",
        "ours",
        "wrong labels, where networks learn samples by heart",
        "balanced",
        "MoSo by rank, judged by networks that did not see the sample",
    ),
    _of_score(
        "moso-adjoint",
        "ours",
        "small networks, where the effect on the final risk is worth several trainings",
        "balanced",
        "Definition 1 by the derivative of training itself",
    ),
    Method(
        AUTO,
        None,
        CHOSEN.name,
        "what does best on held-out training data; random selection if nothing does",
        family="ours",
        when="unknown data, and time for a few short trials per ratio",
    ),
)
_DIFFICULTY = (
    _of_score("forgetting", "difficulty", "clean labels, long training, little removed"),
    _of_score("grand", "difficulty", "clean labels, little removed, no time to train to the end"),
    _of_score("grand-steps", "difficulty", "beside MoSo, as its paper compares: the same time steps, norms alone"),
    _of_score("el2n", "difficulty", "clean labels, little removed, no time to train to the end"),
    _of_score("ssp", "difficulty", "no labels, much data; keep the easy end (bottom) where little is kept"),
    _of_score("moderate", "difficulty", "wrong labels, one network on all data", "median"),
    _of_score("entropy", "difficulty", "clean labels, a network that fits its data, little removed"),
    _of_score("least-confidence", "difficulty", "clean labels, a network that fits its data, little removed"),
    _of_score("margin", "difficulty", "clean labels, a network that fits its data, little removed"),
    _of_score("aum", "difficulty", "wrong labels, to find or to remove them; up to half of the data removed"),
    _of_score(
        "dyn-unc",
        "difficulty",
        "up to half of the data removed, with or without wrong labels, training of 10 epochs or more",
    ),
    _of_score("tdds", "difficulty", "clean labels, training of 10 epochs or more"),
    _of_score(
        "memorization",
        "difficulty",
        "clean labels, much data; wrong labels are memorised too, so remove its high end to drop those",
    ),
    _of_score("ddd", "difficulty", "some of the data removed, with or without wrong labels"),
    _of_score("dual", "difficulty", "most of the data removed, with or without wrong labels", "beta"),
    Method(
        "ccs",
        "aum",
        "coverage",
        "the hardest by AUM cut off, the rest covered evenly in strata",
        {"cut": 0.3, "strata": 50},
        "Zheng et al., ICLR 2023, Algorithm 1; the cut is their example, searched for each data set",
        "difficulty",
        "some or most of the data removed, with or without wrong labels",
    ),
    Method(
        "bws",
        "forgetting",
        "bws",
        "the window of the difficulty order that a linear classifier learns all training data from best",
        source="Choi, Ki & Chung, ICML 2024",
        family="difficulty",
        when="a difficulty score whose best cut for this ratio is unknown",
    ),
)
_COVERAGE = (
    Method(
        "herding",
        None,
        "herding",
        "samples whose mean features are those of their class",
        source="Welling, ICML 2009; class by class and by the running mean as in Rebuffi et al., CVPR 2017",
        family="coverage",
        when="features that fit, most of the data removed, with or without wrong labels",
    ),
    Method(
        "k-center",
        None,
        "k-center",
        "every sample near a kept one in feature space",
        source="Sener & Savarese, ICLR 2018, Algorithm 1",
        family="coverage",
        when="clean labels or none, most of the data removed",
    ),
    Method(
        "d2",
        "forgetting",
        "d2",
        "difficulty passed between neighbours, then discounted where one is kept",
        {"neighbours": 5, "gamma": 0.1},
        "Maharana et al., ICLR 2024; neighbours and gamma are its authors' example on CIFAR-10",
        "coverage",
        "clean labels, long training, hard samples that repeat each other",
    ),
    Method(
        "infomax",
        "el2n",
        "infomax",
        "the most information, less what kept samples repeat of each other",
        {"neighbours": 5, "weight": 0.3, "iterations": 20},
        "Tan et al., ICLR 2025, with labels: its information is EL2N",
        "coverage",
        "clean labels, hard samples that repeat each other",
    ),
    Method(
        "gm-matching",
        None,
        "herding",
        "herding towards the geometric median of each class, which outliers move little",
        {"centre": "geometric-median", "rule": "welling", "normalise": True},
        "Acharya et al., ICML 2025",
        "coverage",
        "as herding, where labels are wrong or samples corrupted",
    ),
    Method(
        "facility-location",
        None,
        "facility-location",
        "every sample of a class similar to a kept one, by greedy submodular cover",
        source="Wei, Iyer & Bilmes, ICML 2015",
        family="coverage",
        when="clean features, rare kinds of samples that must stay",
    ),
    Method(
        "graph-cut",
        None,
        "graph-cut",
        "samples similar to their whole class and not to each other",
        source="Wei, Iyer & Bilmes, ICML 2015",
        family="coverage",
        when="wrong labels and features alone; representative samples without repeats",
    ),
    Method(
        "semdedup",
        None,
        "semdedup",
        "near-duplicates in feature space go first, the rest at random",
        source="Abbas et al., SemDeDup, 2023",
        family="coverage",
        when="crawled data with near-duplicates, with or without labels",
    ),
    _of_score("zcore", "coverage", "no labels, no training: an embedding alone"),
)
_OPTIMISATION = (
    _of_score(
        "opt",
        "optimisation",
        "clean labels, little removed, a network that fits its data",
        "opt",
        "the set of samples without which the network would be nearly the same is removed",
    ),
    _of_score(
        "influence",
        "optimisation",
        "a trained head that fits its data, with --risk validation; wrong labels",
        "balanced",
    ),
    Method(
        "craig",
        None,
        "craig",
        "every sample of a class near a kept one in gradient; weighted by how many are",
        source="Mirzasoleiman et al., ICML 2020; per class, last layer, at the end of training",
        family="optimisation",
        when="clean labels, up to half of the data removed, a training that can weigh samples",
    ),
    Method(
        "gradmatch",
        None,
        "gradmatch",
        "weighted gradients that add up to the gradient of their class",
        source="Killamsetty et al., GRAD-MATCH, ICML 2021; per class, last layer, at the end of training",
        family="optimisation",
        when="up to half of the data removed, or wrong labels; a long training that can weigh samples",
    ),
    Method(
        "glister",
        None,
        "glister",
        "one step of training on what is kept reduces the loss of the data most",
        source="Killamsetty et al., AAAI 2021; with the training loss, last layer, at the end of training",
        family="optimisation",
        when="to compare: chosen once, at the end of training, it is at best level with random selection on features",
    ),
    Method(
        "badge",
        None,
        "badge",
        "large and different gradients, by k-means++",
        source="Ash et al., ICLR 2020, Algorithm 1; at the end of training",
        family="coverage",
        when="clean labels, little removed; its source chooses what is to be labelled",
    ),
    _of_score(
        "less",
        "optimisation",
        "fine-tuning with Adam towards a target (--risk validation)",
        "top",
        "samples whose Adam update is similar to what a target needs (--risk validation)",
    ),
)
_BASELINES = (
    Method(
        "random",
        "random",
        "random",
        "random selection, what every method has to beat",
        family="baselines",
        when="always, beside any other",
    ),
    Method(
        "dual-constant",
        "dual",
        "beta",
        "DUAL's draw by the Beta density alone, to see what its score adds",
        {"weight": "constant"},
        "Cho et al., ICML 2025, without the score",
        "baselines",
        "beside dual: does its gain come from its score?",
    ),
)
METHODS = Registry("method", Method, "moso.methods", (*_OURS, *_BASELINES, *_DIFFICULTY, *_COVERAGE, *_OPTIMISATION))

methods = METHODS.all


def known_method(name: str) -> Method | None:
    """Return the method of a name, or None; `NAME-out-of-sample` is the method NAME by networks that did not see it.

    Raises:
        MosoError: ``method-impossible`` if the method has no out-of-sample form.

    Example:
        >>> known_method("el2n-out-of-sample").score, known_method("no-such")
        ('el2n-out-of-sample', None)
    """
    found, base = METHODS.find(name), METHODS.find(name.removesuffix(OUT_OF_SAMPLE))
    return base.out_of_sample() if found is None and base is not None else found


def find_method(name: str) -> Method:
    """Return the method of a name, as `known_method` does.

    Raises:
        MosoError: ``unknown-name``, ``method-impossible``.
    """
    found = known_method(name)
    if found is None:
        raise METHODS.unknown(name)
    return found


def out_of_sample_names(names: Iterable[str], every: bool = False) -> tuple[str, ...]:
    """Return the names of the out-of-sample forms of methods; random selection stays.

    Args:
        names: Names of methods.
        every: Leave out methods without such a form, in place of refusing them.

    Raises:
        MosoError: ``method-impossible`` if a method has none.

    Example:
        >>> out_of_sample_names(["el2n", "random", "herding"], every=True)
        ('el2n-out-of-sample', 'random')
    """
    found = []
    for name in names:
        score = find_method(name).find_score()
        if name == "random":
            found.append(name)
        elif not every or (score is not None and score.unseen is not None):
            found.append(find_method(name).out_of_sample().name)
    return tuple(found)
