"""Settings of networks and their recipes: which fit, and which exclude each other."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moso import errors
from moso.configuration.fields import CUSTOM
from moso.data.sources.registry import fitting
from moso.evidence_kinds.label_free_embedding import INPUTS
from moso.models import check_embeds, starts_at_random
from moso.models.adapters import is_adapter
from moso.models.freezing import ALL, HEAD
from moso.tasks import TASKS, LanguageModelling, MaskedLanguageModelling, Unlabelled
from moso.training.recipe import TrainingRecipe, load_recipe

if TYPE_CHECKING:
    from moso.configuration.configuration import Configuration

GIVEN_FEATURES = "features:"
_NETWORKS = ("model", "retrain_model", "embed")
_HEAD_RECIPE, _FITTED_HEAD_RECIPE, _WHOLE_RECIPE = "linear-probe", "fitted-probe", "finetune"


def network_names(values: Mapping[str, Any]) -> list[str]:
    """Return the names of all networks among settings.

    Example:
        >>> network_names({"model": "mine:make", "ratios": [0.4]})
        ['mine:make']
    """
    return [values[name] for name in _NETWORKS if isinstance(values.get(name), str)]


def fitting_networks(values: dict[str, Any], dataset: str) -> tuple[str, str]:
    """Return the default network and recipe of a run.

    Args:
        values: Settings of the user, by name.
        dataset: Name of the data set.

    Example:
        >>> fitting_networks({"embed": "timm:resnet50"}, "digits"), fitting_networks({}, "digits")
        (('linear', 'linear-probe'), ('convnet', 'digits'))
        >>> fitting_networks({"pretrained": True}, "digits")
        ('convnet', 'finetune')
        >>> fitting_networks({"embed": "timm:resnet50", "prove": "network", "retrain_model": "resnet18"}, "digits")
        ('linear', 'fitted-probe')
    """
    if "model" in values and "recipe" in values:
        return values["model"], values["recipe"]  # a finished run is opened without a look at its data
    if isinstance(TASKS.find(str(values.get("task", ""))), LanguageModelling):
        return "gpt", "language"
    # Without labels, inputs that are their own embedding are vectors, which no network for pictures takes.
    if values.get("embed") and values.get("retrain_model"):
        return "linear", _FITTED_HEAD_RECIPE
    if values.get("embed") or (values.get("task") == Unlabelled.name and values.get("embedding") == INPUTS):
        return "linear", _HEAD_RECIPE
    model, recipe = fitting(dataset)
    if values.get("train", ALL) == HEAD:
        return model, _HEAD_RECIPE
    return model, _WHOLE_RECIPE if values.get("pretrained") or values.get("weights") else recipe


def retraining_recipe(values: dict[str, Any], dataset: str) -> TrainingRecipe | None:
    """Return the recipe of retraining if it is not that of the run's recipe; its name goes into `values`.

    A network that is retrained on the data itself cannot follow the recipe of a head.
    """
    if values.get("prove") == "network":
        usual = fitting(dataset)[1] if values.get("retrain_model") else _WHOLE_RECIPE
        values.setdefault("retrain_recipe", usual)
    name = values.get("retrain_recipe")
    return load_recipe(str(name)).retraining if name else None


def check_networks(configuration: "Configuration") -> None:
    """Refuse settings of networks that exclude each other.

    Raises:
        MosoError: ``settings-conflict``, ``setting-missing``, ``setting-invalid``.
    """
    c, start = configuration, configuration.start  # the start checks itself
    if c.task == MaskedLanguageModelling.name and (c.model == "gpt" or c.model.startswith("gpt:")):
        raise errors.SettingMissing(
            "task 'masked-lm' needs a network that looks both ways: give --model hf:FOLDER (a config.json is enough)"
        )
    if not c.embed and (c.prove == "network" or c.embed_size is not None):
        flag = "--prove network" if c.prove == "network" else "--embed-size"
        raise errors.SettingsConflict(f"{flag} belongs to --embed NETWORK; without it the data itself is trained on")
    given = c.embed.startswith(GIVEN_FEATURES)
    if given and c.prove == "network" and not c.retrain_model:
        raise errors.SettingMissing("--prove network with given features needs --retrain-model NAME")
    if given and (not start.is_from_scratch or c.embed_size is not None):
        raise errors.SettingsConflict(
            "--pretrained, --weights and --embed-size are for features that are computed; these are given"
        )
    # A network that is given itself may have been trained before.
    if (
        c.train != ALL
        and not is_adapter(c.train)
        and not c.embed
        and c.model != CUSTOM
        and starts_at_random(c.model, start)
    ):
        raise errors.SettingMissing(
            f"--train {c.train} freezes the rest of {c.model!r} at random weights, which nobody has trained; give its "
            "weights: --pretrained, or --weights FILE"
        )
    if c.embed and c.prove == "head" and c.train != ALL:
        raise errors.SettingsConflict(f"--train {c.train} goes with --prove network; a head on features is all trained")
    if c.embed and not given:
        check_embeds(c.embed, start)
    if c.feature_views and (c.embed or c.train == ALL):
        raise errors.SettingsConflict("feature_views is for a frozen trunk; set train to head or last:N")
