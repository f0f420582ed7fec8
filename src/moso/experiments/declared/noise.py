"""Robustness to label noise: the paper's 20 %, labels by human annotators, and a sweep to where MoSo breaks."""

from dataclasses import replace

from moso.experiments.declaration import Arm, Contender, Experiment, Preset
from moso.experiments.declared.presets import (
    CHOSEN,
    COVERED,
    CPU,
    CPU_SEEDS,
    CPU_TINY,
    CROSS,
    FEATURES,
    HEADS,
    MOSO,
    PAPER,
    PAPER_RATIOS,
    PAPER_SEEDS,
    PAPER_TINY,
    PUBLISHED,
    RANDOM,
    Settings,
)
from moso.experiments.declared.published import CIFAR100_NOISE

_Contenders = tuple[Contender, ...]
RATE = 0.2
SWEEP = (0.2, 0.5, 0.8)
_SOME = (*RANDOM, *MOSO, COVERED, *map(Contender, ("herding", "moderate", "forgetting", "grand")))
_ALL = (*RANDOM, *MOSO, *PUBLISHED)
_FIRST = next(iter(HEADS))
_ROBUST = (Contender("moso-robust"), Contender("moso-robust-rank"))
_CLAIM = (
    "MoSo well above random and within 1 point of Herding, the best baseline; Forgetting and GraNd fall far behind."
)


def _noisy(settings: Settings, rate: float = RATE) -> Settings:
    return {**settings, "label_noise": rate}


def _cpu(data: str, settings: Settings) -> tuple[Arm, ...]:
    """Return the arms of the cpu preset; training on all data costs five retrainings, so it has one seed, for scale."""
    plain = Arm(data, settings, _SOME, (0.8,), CPU_SEEDS, all_data=False)
    return plain, replace(plain, seeds=1, all_data=True)


def _features(data: str, rate: float) -> tuple[Arm, ...]:
    """Return the arms of the preset `features`: all ratios with a linear head, the largest with an MLP head, too."""
    contenders = (*_ALL, COVERED, CROSS, CHOSEN)
    return tuple(
        Arm(data, _noisy(settings, rate), contenders, PAPER_RATIOS if name == _FIRST else (0.8,), PAPER_SEEDS, name)
        for name, settings in HEADS.items()
    )


LABEL_NOISE_CIFAR100 = Experiment(
    "label-noise-cifar100",
    "Figure 3 (c)",
    "20 % symmetric label noise, CIFAR-100",
    _CLAIM,
    "ratios",
    {
        "cpu": _cpu("cifar100", _noisy(CPU)),
        "features": _features("cifar100-features", RATE),
        "paper": (Arm("cifar100", _noisy(PAPER), _ALL, PAPER_RATIOS, PAPER_SEEDS),),
    },
    published=CIFAR100_NOISE,
)

LABEL_NOISE_TINY = Experiment(
    "label-noise-tiny",
    "Figure 3 (d)",
    "20 % symmetric label noise, Tiny-ImageNet",
    _CLAIM,
    "ratios",
    {
        "cpu": _cpu("tiny-imagenet-subset", _noisy(CPU_TINY)),
        "features": _features("tiny-imagenet-features", RATE),
        "paper": (Arm("tiny-imagenet", _noisy(PAPER_TINY), _ALL, PAPER_RATIOS, PAPER_SEEDS),),
    },
)

LABEL_NOISE_HUMAN = Experiment(
    "label-noise-human",
    "beyond the paper",
    "labels that people gave, 40 % of them wrong: CIFAR-100N",
    "Not in the paper: does what holds for labels drawn at random hold for the mistakes that people make?",
    "ratios",
    {
        "cpu": _cpu("cifar100n", CPU),
        "features": _features("cifar100n-features", 0.0),
        "paper": (Arm("cifar100n", PAPER, _ALL, PAPER_RATIOS, PAPER_SEEDS),),
    },
)


def _sweep(
    settings: Settings, seeds: int, robust: tuple[float, ...] = SWEEP, data: str = "cifar100", more: _Contenders = ()
) -> tuple[Arm, ...]:
    return tuple(
        Arm(
            data,
            _noisy(settings, rate),
            (*RANDOM, *MOSO, *more, *(_ROBUST if rate in robust else ())),
            (0.8,),
            seeds,
            name=f"{rate:.0%} noise",
            value=rate,
            all_data=False,
        )
        for rate in SWEEP
    )


# The robust mean costs as much as scoring, so the cpu preset has it only for heavy noise, its purpose.
_SWEEPS: dict[Preset, tuple[Arm, ...]] = {
    "cpu": _sweep(CPU, 2, robust=SWEEP[1:]),
    "features": _sweep(FEATURES, PAPER_SEEDS, data="cifar100-features", more=(CROSS,)),
    "paper": _sweep(PAPER, PAPER_SEEDS),
}
LABEL_NOISE_SWEEP = Experiment(
    "label-noise-sweep",
    "beyond the paper, its section on limitations",
    "label noise up to where MoSo breaks, with a robust mean beside it",
    "The paper says that MoSo is not guaranteed where noise dominates, and gives no number.",
    "arms",
    _SWEEPS,
    axis="share of labels drawn at random",
)
