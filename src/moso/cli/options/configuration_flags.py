"""The settings of a run as flags; names, types and help come from `configuration/fields.py`."""

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic.fields import FieldInfo

from moso import errors
from moso.cli.options.flags import Flags, Keeps, flag, option
from moso.cli.options.panels import DATA, NETWORK, PROOF, SCORING
from moso.code_trust import allow_code, note_names
from moso.configuration.fields import GROUPS, title_of

if TYPE_CHECKING:
    from moso.configuration import Configuration

Quick = Annotated[
    bool,
    option(
        "--quick",
        panel=PROOF,
        help="a first look in minutes: auto, ratio 0.4, one seed, 5 time steps and few epochs on large data, "
        "unless flags say otherwise",
    ),
]
Unlabelled = Annotated[
    bool,
    option(
        "--unlabelled",
        panel=DATA,
        help="data without labels, or whose labels are not to be looked at: nothing is retrained (--task unlabelled)",
    ),
]
# Settings whose flag may be repeated; the flag is the singular of the setting's name.
_REPEATED = {
    "methods": "--method",
    "selectors": "--selector",
    "ratios": "--ratio",
    "baselines": "--baseline",
    "settings": "--setting",
    "match": "--match",
}
# Help where the command line knows more than the setting: several values, a default that depends on others.
_HELP = {
    "methods": "pruning method (see `moso methods`); may be repeated, 'all' for every possible one",
    "selectors": "how samples are chosen by score; may be repeated [default: each method's own]",
    "baselines": "baseline of equal cost to retrain: rs2, infobatch, full-fewer-steps; may be repeated",
    "device": "cpu, cuda, cuda:1 or mps [default: cuda or mps if there is one, else cpu]",
    "match": "what retraining on fewer samples keeps equal: epochs, steps, or epochs in smaller batches (batches); "
    "may be repeated, for tables side by side [default: as the recipe says]",
    "model": "network of the surrogates (see `moso models`) [default: convnet; bag for texts, mlp-w32 for regression]",
    "retrain_model": "network of the retrainings [default: that of the surrogates]",
    "retrain_recipe": "recipe of the retrainings [default: --recipe; with --prove network one that fits the network]",
    "task": "classification, regression, multi-label, contrastive, causal-lm, masked-lm [default: as the data says]",
    "features": "features that samples are compared by: reference (of the network trained on all data) or embedding "
    "[default: embedding without labels and for a linear head on features, else reference]",
    "recipe": "training recipe: a name, or a TOML file of your own [default: one that fits the data]",
    "class_mix": "mix of classes that is kept: equal (balanced) or as-is (proportional) [default: as-is if the largest "
    "class has more than 1.5 times the samples of the smallest, else equal]",
    "score_batch_size": "samples per batch while scoring [default: as many as fit]",
}
_SHORTCUTS: dict[str, tuple[type, str]] = {
    "epochs": (int, "epochs of every training [default: the recipe's]"),
    "retrain_epochs": (int, "epochs of the retrainings [default: the recipe's]"),
    "batch_size": (int, "samples per training step [default: the recipe's]"),
    "learning_rate": (float, "highest learning rate [default: the recipe's]"),
    "trunk_factor": (float, "share of the rate for what is trained before the classifier [default: the recipe's]"),
    "augmentation": (str, "none, crop, crop-flip or resized-crop-flip [default: the recipe's]"),
}
_OF_SCORES: dict[str, tuple[type, str]] = {
    "memorization_subsets": (int, "memorization: networks to train on random subsets of 70 %, 4 or more [default: 0]"),
    "out_of_sample": (bool, "scores by surrogates that did not see the sample (el2n, entropy, margin, ddd and others)"),
}
_NOT_FLAGS = {"format", "by_class", "also_match"}


# What `--quick` asks for unless other flags or a file say otherwise: one choice, one ratio, one seed.
QUICK = {"methods": ["auto"], "trial_share": 0.5, "ratios": [0.4], "seeds": 1, "time_steps": 5}
# With `--quick`, a training visits about this many samples, and a small data set as often as the recipe says.
QUICK_VISITS = 200_000


class RunSettings(Flags):
    """The settings of a run that the user gave, one flag per setting.

    Attributes:
        given: Settings by name.
        keep: Values of `--keep`, which become ratios when the number of samples is known.
        quick: Whether a quick look is asked for.
    """

    def __init__(
        self, keep: list[str] | None = None, quick: bool = False, unlabelled: bool = False, **values: Any
    ) -> None:
        self.given = {name: value for name, value in values.items() if value not in (None, [])}
        if unlabelled and self.given.setdefault("task", "unlabelled") != "unlabelled":
            raise errors.SettingsConflict(
                f"--unlabelled learns nothing, and --task {self.given['task']} says otherwise"
            )
        self.keep = keep or []
        self.quick = quick

    @classmethod
    def flags(cls) -> list[inspect.Parameter]:
        """Return one flag per setting, and the shortcuts to a recipe's own settings, by heading."""
        found = []
        for group in GROUPS:
            panel = title_of(group)
            for name, field in group.model_fields.items():
                if name not in _NOT_FLAGS:
                    found.append(_setting_flag(name, field, panel))
                if name == "ratios":
                    found.append(flag("keep", Keeps))
                if name == "task":
                    found.append(flag("unlabelled", Unlabelled, default=False))
            if panel == NETWORK:
                found += [_flag(name, kind, text, panel) for name, (kind, text) in _SHORTCUTS.items()]
            if panel == SCORING:
                found += [_flag(name, kind, text, panel) for name, (kind, text) in _OF_SCORES.items()]
            if panel == PROOF:
                found.append(flag("quick", Quick, default=False))
        return found


def _setting_flag(name: str, field: FieldInfo, panel: str) -> inspect.Parameter:
    text = _HELP.get(name, field.description or name)
    if "[default" not in text and field.default not in (None, "", (), {}):
        default = field.default
        text += f" [default: {', '.join(map(str, default)) if isinstance(default, tuple) else default}]"
    if name in _REPEATED:
        return _flag(name, list[str], text, panel)
    annotated = {field.annotation, *getattr(field.annotation, "__args__", ())}
    return _flag(name, next((one for one in (bool, int, float) if one in annotated), str), text, panel)


def _flag(name: str, kind: Any, text: str, panel: str) -> inspect.Parameter:
    return flag(name, Annotated[kind | None, option(option_of(name), panel=panel, help=text, show_default=False)])


def option_of(name: str) -> str:
    """Return the flag of a setting.

    Example:
        >>> option_of("methods"), option_of("time_steps")
        ('--method', '--time-steps')
    """
    return _REPEATED.get(name, f"--{name.replace('_', '-')}")


def says_mix(file: Path | None, settings: dict[str, Any]) -> bool:
    """Return whether flags or a file say which mix of classes is kept; a file of a run does, also an old one."""
    from moso.configuration.configuration import read_toml

    given = {} if file is None else read_toml(file)
    return "class_mix" in settings or "class_mix" in given or "format" in given


def configuration_from(
    file: Path | None, settings: dict[str, Any], defaults: dict[str, Any] | None = None
) -> "tuple[Configuration, str | None]":
    """Merge a TOML file and flags into a configuration; flags override the file.

    Args:
        file: The TOML file, if there is one.
        settings: Settings given as flags.
        defaults: Defaults of the verb, which file and flags override.

    Returns:
        The configuration, and the file's `out` if it has one.

    Raises:
        FileUnreadable: `file` is a directory or cannot be read.
        MosoError: A setting is unknown or invalid.
    """
    from moso.configuration.configuration import Configuration, read_toml
    from moso.configuration.network_settings import network_names
    from moso.configuration.resolved_method import read_settings

    given: dict[str, Any] = {}
    if file is not None:
        if file.is_dir():
            raise errors.FileUnreadable(f"{file} is a directory; give its run.toml, or --out {file} to go on with it")
        given = read_toml(file)
        note_names(network_names(given), file)
    allow_code(network_names(settings))
    out = given.pop("out", None)
    merged = {**(defaults or {}), **given, **settings}
    if "settings" in given and "settings" in settings:
        merged["settings"] = _both(read_settings(given["settings"]), read_settings(settings["settings"]))
    for name in ("dataset", "labels", "embedding", "weights", "embed"):
        if isinstance(merged.get(name), str):
            merged[name] = whole_path(merged[name])
    if str(merged.get("model", "")).startswith("hf:"):
        merged["model"] = whole_path(merged["model"])
    return Configuration.resolve(merged), None if out is None else str(out)


def _both(file: dict[str, dict[str, Any]], flags: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Merge the settings of a file and of flags; flags override the file."""
    return {owner: {**file.get(owner, {}), **flags.get(owner, {})} for owner in {**file, **flags}}


def whole_path(name: str) -> str:
    """Return a name with its relative path made absolute, if the path exists: a run can then be opened anywhere.

    Example:
        >>> whole_path("digits"), whole_path("folder:/nowhere/at/all")
        ('digits', 'folder:/nowhere/at/all')
    """
    kind, colon, rest = name.partition(":")
    place, mark, options = rest.partition("?")
    # The forms are tried in this order: KIND:PATH, KIND:PATH?OPTIONS, FILE:KEY and FILE.
    for before, path, after in (
        (kind + colon, rest, ""),
        (kind + colon, place, mark + options),
        ("", kind, colon + rest),
    ):
        if path and Path(path).exists() and (colon or Path(path).is_file()):
            return f"{before}{Path(path).resolve()}{after}"
    return name
