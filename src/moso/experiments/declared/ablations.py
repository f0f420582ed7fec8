"""The paper's ablations and tables: training dynamics, time steps, partitions, epochs of the surrogate."""

from moso.evidence import Sampling
from moso.experiments.declaration import Arm, Contender, Experiment
from moso.experiments.declared.presets import (
    BALANCED,
    CPU,
    CPU_SEEDS,
    CROSS,
    FEATURES,
    MOSO,
    PAPER,
    PAPER_RATIOS,
    PAPER_SEEDS,
    RANDOM,
    Settings,
)
from moso.experiments.derived import FEWER

_ON_FEATURES = "cifar100-features"
_DYNAMICS = (*RANDOM, *MOSO, *map(Contender, ("moso-last", "grand-last", "grand-steps")))

ABLATION_DYNAMICS = Experiment(
    "ablation-dynamics",
    "Figure 5 (a)",
    "all stages of training against the last update alone",
    "MoSo over all stages is better than its variant at the very last epoch, which the paper calls equivalent to the "
    "gradient norm. In sign it is not: late MoSo tends to minus the squared norm, so both are shown.",
    "ratios",
    {
        "cpu": (Arm("cifar100", CPU, _DYNAMICS, (0.8,), CPU_SEEDS, all_data=False),),
        "features": (Arm(_ON_FEATURES, FEATURES, (*_DYNAMICS, CROSS), PAPER_RATIOS, PAPER_SEEDS, all_data=False),),
        "paper": (Arm("cifar100", PAPER, _DYNAMICS, PAPER_RATIOS, PAPER_SEEDS),),
    },
)


def _by_steps(
    settings: Settings, counts: tuple[int, ...], scores: tuple[str, ...], seeds: int, data: str = "cifar100"
) -> tuple[Arm, ...]:
    """Return arms for several numbers of time steps, drawn from the recorded ones, for both ways of sampling."""
    ways: tuple[Sampling, ...] = ("stratified", "uniform")
    recorded = int(settings["time_steps"])
    arms = []
    for way in ways:
        for count in (*counts, recorded):
            suffix = "" if count == recorded else f"-{count}"
            contenders = tuple(Contender(f"{name}{suffix}", label=name) for name in scores)
            name = f"{way}, {count} steps" if count > 1 else f"{way}, 1 step"
            own = {**settings, "sampling": way}
            contenders = (*contenders, BALANCED)
            arms.append(Arm(data, own, contenders, (0.4,), seeds, name, float(count), series=way, all_data=False))
    return tuple(arms)


ABLATION_SAMPLING = Experiment(
    "ablation-sampling",
    "Figure 5 (b)",
    "number of time steps at 40 % pruned, uniform against stratified",
    "With fewer time steps the mean falls and the variance grows.",
    "arms",
    {
        # The other combinations would take three times as many retrainings of 60 % of the data.
        "cpu": _by_steps(CPU, (1, 5), ("moso",), CPU_SEEDS),
        "features": _by_steps(FEATURES, FEWER, tuple(score.method for score in MOSO), PAPER_SEEDS, _ON_FEATURES),
        "paper": _by_steps(PAPER, FEWER, tuple(score.method for score in MOSO), PAPER_SEEDS),
    },
    axis="time steps",
)


# The paper's tables are of 20 % pruned, where differences are small; heads are quick, so they have 80 %, too.
_TABLE_RATIOS = {"cifar100": (0.2,), _ON_FEATURES: (0.2, 0.8)}


def _by_partitions(settings: Settings, seeds: int, data: str = "cifar100") -> tuple[Arm, ...]:
    return tuple(
        Arm(
            data,
            {**settings, "partitions": count},
            (*MOSO, BALANCED),
            _TABLE_RATIOS[data],
            seeds,
            name="1 partition" if count == 1 else f"{count} partitions",
            value=float(count),
            all_data=False,
        )
        for count in (1, 2, 5, 10)
    )


TABLE_PARTITIONS = Experiment(
    "table-partitions",
    "Table 1",
    "number of partitions at 20 % pruned",
    "More partitions help: 74.35, 75.11, 75.76 and 75.81 with 1, 2, 5 and 10.",
    "arms",
    {
        "cpu": _by_partitions(CPU, 2),
        "features": _by_partitions(FEATURES, PAPER_SEEDS, _ON_FEATURES),
        "paper": _by_partitions(PAPER, PAPER_SEEDS),
    },
    axis="partitions",
    reference={"1": 74.35, "2": 75.11, "5": 75.76, "10": 75.81},
)


def _by_epochs(settings: Settings, epochs: tuple[int, ...], seeds: int, data: str = "cifar100") -> tuple[Arm, ...]:
    return tuple(
        Arm(
            data,
            {**settings, "surrogate": {"epochs": count}},
            (*MOSO, BALANCED),
            _TABLE_RATIOS[data],
            seeds,
            name=f"{count} epochs",
            value=float(count),
            all_data=False,
        )
        for count in epochs
    )


# In the cpu preset, the surrogates of all other experiments train for 10 epochs; compared here with four times as long.
TABLE_EPOCHS = Experiment(
    "table-epochs",
    "Table 2",
    "epochs of the surrogate at 20 % pruned",
    "Longer surrogates barely help: 75.76, 76.41, 76.19 and 76.58 after 50, 100, 150 and 200 epochs.",
    "arms",
    {
        "cpu": _by_epochs(CPU, (10, 40), 2),
        "features": _by_epochs(FEATURES, (50, 100, 150, 200), PAPER_SEEDS, _ON_FEATURES),
        "paper": _by_epochs(PAPER, (50, 100, 150, 200), PAPER_SEEDS),
    },
    axis="epochs of the surrogate",
    reference={"50": 75.76, "100": 76.41, "150": 76.19, "200": 76.58},
)
