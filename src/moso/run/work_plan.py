"""The plan: which networks have to be trained, and what measured of them, for evidence of some names to be there."""

from collections.abc import Iterable, Iterator
from typing import Any

from moso.results.layout import part_name, piece_name, reference_name
from moso.run.job import Job
from moso.run.pieces import Piece
from moso.run.sharding import rounds

# What the first reference leaves when it is trained or looked at; columns of dynamics and predictions besides.
_OF_REFERENCE = frozenset({"features", "early-errors", "early-norms", "influences"})
_EARLY = ("early-errors", "early-norms")
_ONCE = ("embedding", "influences", "features", "predictions")


def columns(needs: Iterable[str], kind: str) -> list[str]:
    """The columns among evidence of a kind.

    >>> columns({"terms", "dynamics:margin", "dynamics:correct"}, "dynamics")
    ['correct', 'margin']
    """
    return sorted(name.removeprefix(f"{kind}:") for name in needs if name.startswith(f"{kind}:"))


def needs_reference(needs: frozenset[str]) -> bool:
    """Whether a network has to be trained on all of the data.

    >>> needs_reference(frozenset({"terms", "labels"})), needs_reference(frozenset({"final:entropy"}))
    (False, True)
    """
    return bool(needs & _OF_REFERENCE or columns(needs, "dynamics") or columns(needs, "final"))


def needs_surrogates(needs: frozenset[str]) -> bool:
    """Whether every partition has to have a network."""
    return bool(needs & {"terms", "predictions", "adjoint"})


def averages(needs: frozenset[str]) -> bool:
    """Whether networks of several initialisations are averaged."""
    return bool(needs & set(_EARLY))


def training(job: Job, needs: frozenset[str]) -> list[Piece]:
    """The networks to train, the longest first."""
    c, found = job.configuration, list[Piece]()
    reference, shared = needs_reference(needs), c.partitions == 1
    recorded = columns(needs, "dynamics")
    for seed in c.all_seeds():
        if reference and not shared:
            found.append(_reference(seed, 0, recorded))
        if needs_surrogates(needs) or (reference and shared):
            leaves: dict[str, Any] = {"final": "predictions" in needs}
            if reference and shared:
                leaves = {"columns": recorded, "early": True, "final": True}
            if "adjoint" in needs:
                leaves["replay"] = True
            for part in range(c.partitions):
                arguments = {"seed": seed, "part": part, **leaves}
                found.append(Piece("train", piece_name(seed, part_name(part)), arguments))
        if averages(needs):
            found += [_reference(seed, r, []) for r in range(1, c.initialisations)]
    return found


def _reference(seed: int, reference: int, recorded: list[str]) -> Piece:
    arguments = {"seed": seed, "reference": reference, "columns": recorded}
    return Piece("reference", piece_name(seed, reference_name(reference)), arguments)


def measuring(job: Job, needs: frozenset[str]) -> list[Piece]:
    """What is to be measured of networks that are trained."""
    c, found = job.configuration, list[Piece]()
    for seed in c.all_seeds():
        # The longest first: an embedding is a training of its own.
        found += [_measure(what, seed, reference_name(0)) for what in _ONCE if what in needs]
        if "adjoint" in needs:
            found += [_measure("adjoint", seed, part_name(part), part=part) for part in range(c.partitions)]
        if "terms" in needs:
            found += [_measure("score", seed, part_name(part), part=part) for part in range(c.partitions)]
        for what in _EARLY:
            if what in needs:
                found += [_measure(what, seed, reference_name(r), reference=r) for r in range(c.initialisations)]
        said = columns(needs, "final")
        if said:
            found.append(_measure("final", seed, reference_name(0), columns=said))
    return found


def sharded_rounds(job: Job) -> Iterator[list[Piece]]:
    """The rounds of scoring in shards; the pieces of one can be done side by side, when those before it are done."""
    for one in rounds(job):
        yield [_shard(stage, **arguments) for stage, arguments in one]


def _shard(stage: str, **arguments: int) -> Piece:
    shard = f"-{arguments['shard']:05d}" if "shard" in arguments else ""
    name = f"{part_name(arguments['part'])}/step-{arguments['step']:08d}/{stage}{shard}"
    return Piece(stage, piece_name(arguments["seed"], name), dict(arguments))


def _measure(what: str, seed: int, name: str, **arguments: Any) -> Piece:
    return Piece(what, piece_name(seed, f"{name}/{what}"), {"seed": seed, **arguments})
