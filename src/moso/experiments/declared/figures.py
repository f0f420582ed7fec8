"""Figure 1, the class-wise accuracy, the cost and the two generalization tests."""

from dataclasses import replace

from moso.experiments.declaration import Arm, Contender, Experiment
from moso.experiments.declared.presets import (
    BALANCED,
    BASELINES,
    CHOSEN,
    COVERED,
    CPU,
    CPU_LOW_RATIO,
    CPU_MORE_SEEDS,
    CPU_RATIOS,
    CPU_SEEDS,
    CPU_TINY,
    CROSS,
    FAITHFUL,
    FEATURES,
    FINE_TUNED,
    FITTED,
    FITTED_HEAD,
    FROM_FEATURES,
    HEADS,
    MOSO,
    PAPER,
    PAPER_IMAGENET,
    PAPER_RATIOS,
    PAPER_SEEDS,
    PAPER_TINY,
    PUBLISHED,
    RANDOM,
)
from moso.experiments.declared.published import CIFAR100, TINY_IMAGENET
from moso.methods import METHODS

_ALL = (*RANDOM, *MOSO, COVERED, *PUBLISHED)
# What three seeds of the preset `fitted` left open at 80 % removed, with more of them.
_FITTED_CLOSER = (*RANDOM, *MOSO, Contender("herding"), CROSS)
_SMALL_SE = "moso.experiments.networks:seresnet8"
_SMALL_EFFICIENTNET = "moso.experiments.networks:small_efficientnet"


def _heads(data: str, contenders: tuple[Contender, ...], ratios: tuple[float, ...] = PAPER_RATIOS) -> tuple[Arm, ...]:
    """Return the arms of the preset `features`: one per head."""
    return tuple(
        Arm(data, settings, contenders, ratios, PAPER_SEEDS, name=name, baselines=BASELINES)
        for name, settings in HEADS.items()
    )


FIGURE_1A = Experiment(
    "figure-1a",
    "Figure 1 (a)",
    "accuracy against pruning ratio, CIFAR-100",
    "MoSo above random and above EL2N, GraNd and Forgetting at 70 and 80 % pruned, not below random at 20 %; EL2N "
    "falls below random at high ratios.",
    "ratios",
    {
        "cpu": (
            # Without the adjoint, which costs five trainings per surrogate; adjoint-pruning measures it.
            Arm("cifar100", CPU, _ALL, CPU_RATIOS, CPU_SEEDS, baselines=BASELINES),
            Arm("cifar100", CPU, (BALANCED, *MOSO, *PUBLISHED), (CPU_LOW_RATIO,), CPU_SEEDS, all_data=False),
            Arm("cifar100", CPU, (*RANDOM, *MOSO, COVERED), CPU_RATIOS, CPU_MORE_SEEDS, all_data=False),
        ),
        "features": _heads("cifar100-features", (*_ALL, CROSS, CHOSEN)),
        # Does the published order of methods return where networks fit their data?
        "fitted": (
            Arm("cifar100-20-classes", FITTED, (*_ALL, CROSS), (0.2, 0.8), CPU_SEEDS),
            Arm("cifar100-20-classes", FITTED, _FITTED_CLOSER, (0.8,), CPU_MORE_SEEDS, all_data=False),
        ),
        "paper": (Arm("cifar100", PAPER, (*_ALL, FAITHFUL), PAPER_RATIOS, PAPER_SEEDS, baselines=BASELINES),),
    },
    published=CIFAR100,
)

FIGURE_1B = Experiment(
    "figure-1b",
    "Figure 1 (b)",
    "accuracy against pruning ratio, Tiny-ImageNet",
    "MoSo above Moderate and above random at high pruning ratios.",
    "ratios",
    {
        "cpu": (
            Arm(
                "tiny-imagenet-subset",
                CPU_TINY,
                (*RANDOM, *MOSO, *map(Contender, ("el2n", "forgetting", "moderate"))),
                (0.8,),
                CPU_SEEDS,
            ),
        ),
        "features": _heads("tiny-imagenet-features", (*_ALL, CROSS, CHOSEN)),
        "paper": (Arm("tiny-imagenet", PAPER_TINY, _ALL, PAPER_RATIOS, PAPER_SEEDS, baselines=BASELINES),),
    },
    published=TINY_IMAGENET,
)

# No cpu preset: a million images take longer than a day on a CPU with any network.
FIGURE_1C = Experiment(
    "figure-1c",
    "Figure 1 (c)",
    "accuracy against pruning ratio, ImageNet-1K",
    "MoSo holds up across pruning ratios on large data.",
    "ratios",
    {"paper": (Arm("imagenet", PAPER_IMAGENET, _ALL, PAPER_RATIOS, 1),)},
)

_CLASS_WISE = {**PAPER, "model": "resnet18"}
CLASS_WISE = Experiment(
    "class-wise",
    "Figure 2",
    "accuracy of each class before and after 80 % are pruned",
    "The order of the classes is preserved: Spearman 0.913 between their accuracies before and after.",
    "classes",
    {
        "cpu": (Arm("cifar100", CPU, (*RANDOM, *MOSO), (0.8,), CPU_SEEDS),),
        "features": (Arm("cifar100-features", FEATURES, (*RANDOM, *MOSO, CROSS), (0.8,), PAPER_SEEDS),),
        "paper": (Arm("cifar100", _CLASS_WISE, (*RANDOM, *MOSO), (0.8,), PAPER_SEEDS),),
    },
    reference={"Spearman": 0.913},
)

COST = Experiment(
    "cost",
    "Figure 4, time comparison",
    "accuracy against the time each method takes, surrogates included",
    "MoSo is the best trade-off: more accurate than Moderate and cheaper, OPT by far the most expensive. GraNd takes "
    "MoSo's time steps here, as in the paper.",
    "cost",
    {
        "cpu": (Arm("cifar100", CPU, (*_ALL, Contender("grand-steps")), (0.8,), CPU_SEEDS),),
        "features": (
            Arm("cifar100-features", FEATURES, (*_ALL, CROSS, Contender("grand-steps")), (0.4, 0.8), PAPER_SEEDS),
        ),
        "paper": (Arm("cifar100", PAPER, (*_ALL, Contender("grand-steps")), (0.4, 0.8), PAPER_SEEDS),),
    },
)

# Without the adjoint, which costs several trainings more (`docs/adjoint.md` compares it), without `auto`, which is one
# of the others, and without `less`, which compares samples with a target.
_LEFT_OUT = ("random", "moso-adjoint", "auto", "less")
_EVERY = tuple(Contender(name) for name in METHODS.built_in() if name not in _LEFT_OUT)
EVERY_METHOD = Experiment(
    "every-method",
    "beyond the paper",
    "every method there is, from shared networks, CIFAR-100",
    "Each as its source has it. What keeps hard samples falls below random when most is removed; what covers, or keeps "
    "a middle, does not.",
    "ratios",
    {
        "cpu": (Arm("cifar100", CPU, (*RANDOM, *_EVERY), (0.8,), 1, all_data=False),),
        "features": tuple(
            Arm(
                "cifar100-features-20k",
                {**FEATURES, "label_noise": noise},
                (*RANDOM, *_EVERY),
                (0.4, 0.8),
                3,
                name=name,
            )
            for name, noise in {"clean labels": 0.0, "20 % noise": 0.2}.items()
        ),
        "paper": (Arm("cifar100", PAPER, (*RANDOM, *_EVERY), PAPER_RATIOS, PAPER_SEEDS),),
    },
)

CHOSEN_ON_FEATURES = Experiment(
    "chosen-on-features",
    "Figure 1 (a), other surrogates",
    "scored with a head on features of a pretrained network, retrained from scratch, CIFAR-100",
    "Not in the paper: a score is as good as what it is measured on. Surrogates trained from scratch at CPU size chose "
    "worse than random selection (figure-1a); do heads on pretrained features choose better for the same network?",
    "ratios",
    {
        "features": (
            Arm(
                "cifar100",
                FROM_FEATURES,
                (*RANDOM, *MOSO, CROSS, COVERED, Contender("herding")),
                CPU_RATIOS,
                CPU_MORE_SEEDS,
                name="surrogates with strong weight decay",
                all_data=False,
            ),
            Arm(
                "cifar100",
                {**FROM_FEATURES, "surrogate": FITTED_HEAD},
                (*RANDOM, Contender("moso-rank"), COVERED),
                (0.7, 0.8),
                CPU_MORE_SEEDS,
                name="surrogates that fit their samples",
                all_data=False,
            ),
        ),
    },
)

FINE_TUNING = Experiment(
    "fine-tuning",
    "beyond the paper",
    "scored with a head on features of a pretrained network, which is then fine-tuned whole, CIFAR-100",
    "Not in the paper: does what a linear head finds worth keeping serve the whole network, too?",
    "ratios",
    {
        "features": (
            Arm(
                "cifar100-10k",
                FINE_TUNED,
                (BALANCED, Contender("moso-rank"), CROSS, Contender("herding")),
                (0.8,),
                CPU_SEEDS,
                all_data=False,
            ),
        ),
    },
)

_UNSEEN_CPU = Arm(
    "cifar100",
    CPU,
    (BALANCED, *MOSO, Contender("ssp"), Contender("opt")),
    (0.8,),
    CPU_SEEDS,
    all_data=False,
)
_UNSEEN_FEATURES = replace(_UNSEEN_CPU, settings=FROM_FEATURES, contenders=(*_UNSEEN_CPU.contenders, CROSS))
_UNSEEN_PAPER = Arm("cifar100", PAPER, (*RANDOM, *MOSO, *PUBLISHED), PAPER_RATIOS, PAPER_SEEDS)

GENERALIZATION_SENET = Experiment(
    "generalization-senet",
    "Figure 3 (a)",
    "scored with one network, retrained with an SE network",
    "MoSo matches or outperforms SSP and OPT on a network it has not seen.",
    "ratios",
    {
        "cpu": (replace(_UNSEEN_CPU, network=_SMALL_SE),),
        "features": (replace(_UNSEEN_FEATURES, network=_SMALL_SE),),
        "paper": (replace(_UNSEEN_PAPER, network="seresnet18"),),
    },
)

GENERALIZATION_EFFICIENTNET = Experiment(
    "generalization-efficientnet",
    "Figure 3 (b)",
    "scored with one network, retrained with an EfficientNet",
    "MoSo matches or outperforms SSP and OPT on a network it has not seen.",
    "ratios",
    {
        "cpu": (replace(_UNSEEN_CPU, network=_SMALL_EFFICIENTNET, seeds=2),),
        "features": (replace(_UNSEEN_FEATURES, network=_SMALL_EFFICIENTNET, seeds=2),),
        "paper": (replace(_UNSEEN_PAPER, network="efficientnet-b0"),),
    },
)
