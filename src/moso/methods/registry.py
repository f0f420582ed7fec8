"""Registry of methods by name: the built-in ones, and those of installed packages (entry points `moso.methods`).

Any score can be combined with any selector whose needs it meets; a method is the combination that its source uses.
"""

from moso.methods.auto import AUTO, CHOSEN
from moso.methods.method import Method
from moso.registry import Registry
from moso.scores import SCORES


def _of_score(name: str, selector: str = "top", description: str | None = None) -> Method:
    """Return the method of a score of the same name and a selector with default settings."""
    score = SCORES.get(name)
    return Method(name, name, selector, description or score.description, source=score.source)


METHODS = Registry(
    "method",
    Method,
    "moso.methods",
    (
        _of_score("moso", "balanced", "Proposition 1.1 to the letter, the top of each class"),
        _of_score("moso-standardised", "balanced", "MoSo, all stages of training on one scale"),
        _of_score("moso-rank", "balanced", "MoSo by rank at all stages of training"),
        _of_score("moso-cross", "balanced", "MoSo by rank, judged by networks that did not see the sample"),
        _of_score("moso-adjoint", "balanced", "Definition 1 by the derivative of training itself"),
        _of_score("less", "top", "samples whose Adam update is similar to what a target needs (--risk validation)"),
        Method(AUTO, None, CHOSEN.name, "what does best on held-out training data; random selection if nothing does"),
        Method("random", "random", "random", "random selection, what every method has to beat"),
        Method(
            "herding",
            None,
            "herding",
            "samples whose mean features are those of their class",
            source="Welling, ICML 2009; class by class and by the running mean as in Rebuffi et al., CVPR 2017",
        ),
        _of_score("forgetting"),
        _of_score("grand"),
        _of_score("grand-steps"),
        _of_score("el2n"),
        _of_score("opt", "opt", "the set of samples without which the network would be nearly the same is removed"),
        _of_score("ssp"),
        _of_score("moderate", "median"),
        _of_score("entropy"),
        _of_score("least-confidence"),
        _of_score("margin"),
        _of_score("aum"),
        _of_score("dyn-unc"),
        _of_score("tdds"),
        _of_score("dual", "beta"),
        Method(
            "ccs",
            "aum",
            "coverage",
            "the hardest by AUM cut off, the rest covered evenly in strata",
            {"cut": 0.3, "strata": 50},
            "Zheng et al., ICLR 2023, Algorithm 1; the cut is their example, searched for each data set",
        ),
        Method(
            "d2",
            "forgetting",
            "d2",
            "difficulty passed between neighbours, then discounted where one is kept",
            {"neighbours": 5, "gamma": 0.1},
            "Maharana et al., ICLR 2024; neighbours and gamma are its authors' example on CIFAR-10",
        ),
        Method(
            "infomax",
            "el2n",
            "infomax",
            "the most information, less what kept samples repeat of each other",
            {"neighbours": 5, "weight": 0.3, "iterations": 20},
            "Tan et al., ICLR 2025, with labels: its information is EL2N",
        ),
        Method(
            "k-center",
            None,
            "k-center",
            "every sample near a kept one in feature space",
            source="Sener & Savarese, ICLR 2018, Algorithm 1",
        ),
    ),
)

methods = METHODS.all
find_method = METHODS.get
