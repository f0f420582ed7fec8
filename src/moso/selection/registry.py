"""Registry of selectors by name: the built-in ones, and those of installed packages (entry points `moso.selectors`)."""

from moso.registry import Registry
from moso.selection.greedy_cover import LARGEST as MOST_COVERED
from moso.selection.selector import Selector
from moso.selection.selectors.balanced import balanced
from moso.selection.selectors.beta import BetaSettings, beta
from moso.selection.selectors.bottom import bottom
from moso.selection.selectors.bws import BwsSettings, bws
from moso.selection.selectors.by_gradient.badge import BadgeSettings, badge
from moso.selection.selectors.by_gradient.craig import CraigSettings, craig
from moso.selection.selectors.by_gradient.factored_gradients import NEEDS as GRADIENTS
from moso.selection.selectors.by_gradient.glister import GlisterSettings, glister
from moso.selection.selectors.by_gradient.gradmatch import MOST_MATCHED, GradMatchSettings, gradmatch
from moso.selection.selectors.coverage import CoverageSettings, coverage
from moso.selection.selectors.d2 import D2Settings, d2
from moso.selection.selectors.drop import DropSettings, drop
from moso.selection.selectors.facility_location import SimilaritySettings, facility_location
from moso.selection.selectors.graph_cut import GraphCutSettings, graph_cut
from moso.selection.selectors.herding import HerdingSettings, herding
from moso.selection.selectors.infomax import InfoMaxSettings, infomax
from moso.selection.selectors.k_center import KCenterSettings, k_center
from moso.selection.selectors.median import MedianSettings, median
from moso.selection.selectors.opt_selection import OptSettings, opt
from moso.selection.selectors.proportional import proportional
from moso.selection.selectors.random import random
from moso.selection.selectors.semdedup import SemDeDupSettings, semdedup
from moso.selection.selectors.softmax import SoftmaxSettings, softmax
from moso.selection.selectors.tied import TiedSettings, tied
from moso.selection.selectors.top import top


def _needs(*evidence: str) -> frozenset[str]:
    return frozenset(evidence)


SELECTORS = Registry(
    "selector",
    Selector,
    "moso.selectors",
    (
        Selector("top", "the highest scores overall", top),
        Selector("bottom", "the lowest scores overall, as a control", bottom),
        Selector(
            "balanced", "the highest scores of each class, equally many of each", balanced, _needs("scores", "labels")
        ),
        Selector(
            "proportional",
            "the highest scores of each class, the same share of each",
            proportional,
            _needs("scores", "labels"),
        ),
        Selector("median", "the scores nearest to the median", median, settings=MedianSettings),
        Selector(
            "coverage",
            "CCS: the hardest cut off, the rest covered evenly in strata of score",
            coverage,
            settings=CoverageSettings,
        ),
        Selector(
            "k-center", "every sample near a kept one in feature space", k_center, _needs("features"), KCenterSettings
        ),
        Selector("herding", "the mean features of each class matched", herding, _needs("features"), HerdingSettings),
        Selector(
            "facility-location",
            "every sample of a class similar to a kept one",
            facility_location,
            _needs("features"),
            SimilaritySettings,
        ),
        Selector(
            "graph-cut",
            "similar to the whole class and not to each other",
            graph_cut,
            _needs("features"),
            GraphCutSettings,
        ),
        Selector(
            "bws",
            "BWS: the stretch of a difficulty order that teaches a linear classifier most",
            bws,
            _needs("scores", "labels", "features", "hard"),
            BwsSettings,
        ),
        Selector(
            "semdedup",
            "SemDeDup: near-duplicates go first, then the lowest scores",
            semdedup,
            _needs("features"),
            SemDeDupSettings,
        ),
        Selector("softmax", "drawn at random, high scores likelier", softmax, settings=SoftmaxSettings),
        Selector(
            "beta",
            "DUAL's draw: by score, towards easier samples the more is removed",
            beta,
            _needs("scores", "probability"),
            BetaSettings,
        ),
        Selector(
            "d2", "D2: scores passed between neighbours, then discounted", d2, _needs("scores", "features"), D2Settings
        ),
        Selector(
            "infomax",
            "InfoMax: total score less the likeness of what is kept",
            infomax,
            _needs("scores", "features"),
            InfoMaxSettings,
        ),
        Selector(
            "drop",
            "DRoP: more of the classes that held-out data shows to be hard",
            drop,
            _needs("labels", "class-error"),
            DropSettings,
        ),
        Selector(
            "opt",
            "OPT: the removed samples together move the network's parameters least",
            opt,
            _needs("influences"),
            OptSettings,
        ),
        Selector(
            "craig",
            "CRAIG: every sample of a class near a kept one in gradient, weighted by how many are",
            craig,
            GRADIENTS | {"labels"},
            CraigSettings,
            MOST_COVERED,
        ),
        Selector(
            "gradmatch",
            "GradMatch: weighted gradients that add up to the gradient of their class",
            gradmatch,
            GRADIENTS | {"labels"},
            GradMatchSettings,
            MOST_MATCHED,
        ),
        Selector(
            "glister",
            "GLISTER: one step on what is kept reduces the loss of the data most",
            glister,
            GRADIENTS | {"labels"},
            GlisterSettings,
        ),
        Selector("badge", "BADGE: large and different gradients, by k-means++", badge, GRADIENTS, BadgeSettings),
        Selector(
            "tied",
            "samples of a cluster of features share their mean score; the best clusters",
            tied,
            _needs("scores", "features"),
            TiedSettings,
        ),
        Selector("random", "any samples, whatever their scores", random, frozenset()),
    ),
)

selectors = SELECTORS.all
find_selector = SELECTORS.get
