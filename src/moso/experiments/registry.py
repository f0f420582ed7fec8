"""Registry of experiments: the paper's figures and tables, and more. A new one is a declaration and a line here."""

from moso.errors import unknown_name
from moso.experiments.declaration import Experiment
from moso.experiments.declared import ablations, figures, noise
from moso.experiments.declared.approximation import APPROXIMATION
from moso.experiments.declared.faithful import ADJOINT_PRUNING
from moso.experiments.declared.moso_choice import MOSO_CHOICE
from moso.experiments.declared.recipe_choice import RECIPE_CHOICE
from moso.experiments.declared.surrogate_choice import SURROGATE_CHOICE
from moso.experiments.declared.view_choice import VIEW_CHOICE

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (
        figures.FIGURE_1A,
        figures.FIGURE_1B,
        figures.FIGURE_1C,
        figures.CHOSEN_ON_FEATURES,
        figures.FINE_TUNING,
        figures.CLASS_WISE,
        figures.GENERALIZATION_SENET,
        figures.GENERALIZATION_EFFICIENTNET,
        noise.LABEL_NOISE_CIFAR100,
        noise.LABEL_NOISE_TINY,
        noise.LABEL_NOISE_HUMAN,
        noise.LABEL_NOISE_SWEEP,
        figures.COST,
        figures.EVERY_METHOD,
        ablations.ABLATION_DYNAMICS,
        ablations.ABLATION_SAMPLING,
        ablations.TABLE_PARTITIONS,
        ablations.TABLE_EPOCHS,
        APPROXIMATION,
        ADJOINT_PRUNING,
        RECIPE_CHOICE,
        SURROGATE_CHOICE,
        VIEW_CHOICE,
        MOSO_CHOICE,
    )
}


def find_experiment(name: str) -> Experiment:
    """Return the experiment of this name.

    Raises:
        UnknownName: There is none; the message lists the nearest names.

    Example:
        >>> find_experiment("figure-1a").source
        'Figure 1 (a)'
        >>> find_experiment("figure-1d")
        Traceback (most recent call last):
        ...
        moso.errors.UnknownName: unknown experiment 'figure-1d'; nearest: figure-1c, ...
    """
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]
