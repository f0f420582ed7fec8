"""`Method`: a named preset of a score (or none), a selector, and the settings of its source."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from moso import errors
from moso.evidence_kinds.registry import BEHIND, needed_kinds
from moso.methods.auto import CHOSEN
from moso.scores import OUT_OF_SAMPLE, Score, find_score
from moso.selection import Selector, find_selector

# Ideas that methods share: what is hard is needed; what is not covered cannot be learned; the kept samples should do
# for training what all samples do; ours; and what every method has to beat.
Family = Literal["difficulty", "coverage", "optimisation", "ours", "baselines"]


@dataclass(frozen=True)
class Method:
    """A score and the selector that its source uses.

    Attributes:
        score: Name of the score; None if the selector needs no score.
        selector: Name of the selector.
        settings: Settings of the selector, as in the source.
        family: The idea behind it; None for coverage if it needs nothing but features, otherwise difficulty.
        when: When to use it, in one line.
    """

    name: str
    score: str | None
    selector: str
    description: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    family: Family | None = None
    when: str = ""

    def find_score(self) -> Score | None:
        """Return the method's score, or None.

        Raises:
            UnknownName: No score has this name.
        """
        return None if self.score is None else find_score(self.score)

    def find_selector(self) -> Selector:
        """Return the method's selector.

        Raises:
            UnknownName: No selector has this name.
        """
        return CHOSEN if self.selector == CHOSEN.name else find_selector(self.selector)

    def out_of_sample(self) -> "Method":
        """Return the method with the out-of-sample form of its score, under a name of its own.

        Raises:
            MethodImpossible: The method has no score, or its score has no such form.
        """
        score = self.find_score()
        if score is None:
            raise errors.MethodImpossible(
                f"method {self.name!r} has no score that could be out of sample; leave out_of_sample out, or this "
                "method"
            )
        ending = f"{self.description}; by networks that did not see the sample"
        return replace(self, name=f"{self.name}{OUT_OF_SAMPLE}", score=score.out_of_sample().name, description=ending)

    def needs(self, by_class: bool = True) -> frozenset[str]:
        """Return the names of the evidence that score and selector need with the settings of the source.

        Args:
            by_class: Whether samples have classes; without them a selector that can takes all samples together.

        Example:
            >>> sorted(Method("gentle-ccs", "aum", "coverage", "CCS with a smaller cut", {"cut": 0.1}).needs())
            ['dynamics:margin', 'labels']
        """
        selector, score = self.find_selector(), self.find_score()
        asked = selector.needed(selector.fitting(self.settings, by_class)) - {"scores", "hard"}
        own = frozenset() if score is None else score.needed()
        return own | {BEHIND.get(name, name) for name in asked}

    def traits(self) -> "Traits":
        """Return what the method can do without, and what it costs, as its needs declare."""
        kinds = needed_kinds(self.needs())
        networks = {kind.network for kind in kinds}
        trained = networks - {"none", "own"}
        # Networks of a run learn from labels, and an embedding that is given replaces the features of one.
        from_networks = [kind for kind in kinds if kind.network != "none"]
        embeddings = all(kind.is_embedding for kind in from_networks)
        efforts = dict.fromkeys(kind.effort for kind in kinds if kind.effort)
        return Traits(
            without_labels=embeddings and not any(k.about_classes for k in needed_kinds(self.needs(by_class=False))),
            without_training=not trained,
            embeddings_alone=embeddings and bool(from_networks),
            cost="; ".join([*(words for key, words in _TRAINED.items() if key & networks), *efforts]) or "nothing",
        )

    def group(self) -> Family:
        """Return the family that the method states, or the one that its needs suggest."""
        traits = self.traits()
        return self.family or ("coverage" if self.score is None and traits.embeddings_alone else "difficulty")


# What is trained, by the networks that evidence is measured from.
_TRAINED: dict[frozenset[str], str] = {
    frozenset({"surrogate", "surrogates"}): "one network per partition",
    frozenset({"reference"}): "one network on all data",
    frozenset({"initialisation"}): "several networks on all data, to the early epoch",
    frozenset({"own"}): "an embedding, unless one is given",
}


@dataclass(frozen=True)
class Traits:
    """What follows from the evidence that a method needs.

    Attributes:
        without_labels: It can be computed where no sample has a label.
        without_training: No network of the run is trained for it; an embedding may be given.
        embeddings_alone: It can be computed from an embedding of the samples (and labels, if it needs them).
        cost: What is trained and measured for it, in words.
    """

    without_labels: bool
    without_training: bool
    embeddings_alone: bool
    cost: str
