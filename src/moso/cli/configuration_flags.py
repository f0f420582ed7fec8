"""The settings of a run as flags; names, types and help come from `Configuration`."""

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from moso import errors
from moso.cli.flags import Flags, flag
from moso.configuration import Configuration
from moso.configuration.configuration import read_toml
from moso.configuration.resolved_method import read_settings

# Settings whose flag may be repeated; the flag is the singular of the setting's name.
_REPEATED = {
    "methods": ("--method", str),
    "selectors": ("--selector", str),
    "ratios": ("--ratio", float),
    "baselines": ("--baseline", str),
    "settings": ("--setting", str),
}
_HELP = {
    "methods": "method to prune with; may be repeated, 'all' for every one",
    "epochs": "epochs of every training, in place of the recipe's",
    "retrain_epochs": "epochs of retraining alone",
    "batch_size": "samples a training step, in place of the recipe's",
    "learning_rate": "highest learning rate, in place of the recipe's",
    "augmentation": "none, crop, crop-flip or resized-crop-flip, in place of the recipe's",
    "device": "cpu, cuda, cuda:1, mps or auto [auto]",
    "match": "retraining on less data gets equal 'epochs' or equal 'steps' [as the recipe says]",
    "model": "the surrogate's network [convnet; bag for texts, mlp-w32 for numbers to predict]",
    "task": "what is learned: classification, regression or multi-label [as the data says]",
    "retrain_recipe": "how the network is retrained, if another way than --recipe says",
    "recipe": "how networks are trained: a name, or a TOML file of your own [one that fits the data]",
}
_SHORTCUTS: dict[str, type[int] | type[float] | type[str]] = {
    "epochs": int,
    "retrain_epochs": int,
    "batch_size": int,
    "learning_rate": float,
    "augmentation": str,
}
_NOT_FLAGS = {"format", "by_class", "surrogate", "retraining"}


class RunSettings(Flags):
    """The settings of a run that the user gave, one flag per setting."""

    def __init__(self, **values: Any) -> None:
        self.given = {name: value for name, value in values.items() if value not in (None, [])}

    @classmethod
    def flags(cls) -> list[inspect.Parameter]:
        """Return one flag per field of `Configuration`, and the shortcuts to a recipe's own settings."""
        found: dict[str, tuple[str, Any, str]] = {}
        for name, field in Configuration.model_fields.items():
            if name in _NOT_FLAGS:
                continue
            option, kind = _REPEATED.get(name, (f"--{name.replace('_', '-')}", None))
            unsaid = field.is_required() or field.default in (None, "", (), {}) or "[" in _HELP.get(name, "")
            default = "" if unsaid else field.default
            shown = ", ".join(map(str, default)) if isinstance(default, tuple) else default
            text = _HELP.get(name, field.description or name) + (f" [{shown}]" if shown != "" else "")
            number = next((one for one in (bool, int, float) if one in _plain_types(field.annotation)), str)
            found[name] = (option, list[kind] if kind else number, text)  # type: ignore[valid-type]
        for name, scalar in _SHORTCUTS.items():
            found[name] = (f"--{name.replace('_', '-')}", scalar, _HELP[name])
        return [
            flag(name, Annotated[kind | None, typer.Option(option, help=text, show_default=False)])
            for name, (option, kind, text) in found.items()
        ]


def _plain_types(annotation: Any) -> set[Any]:
    return {annotation, *getattr(annotation, "__args__", ())}


def configuration_from(
    file: Path | None, settings: dict[str, Any], defaults: dict[str, Any] | None = None
) -> tuple[Configuration, str | None]:
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
    given: dict[str, Any] = {}
    if file is not None:
        if file.is_dir():
            raise errors.FileUnreadable(f"{file} is a directory; give its run.toml, or --out {file} to go on with it")
        given = read_toml(file)
    out = given.pop("out", None)
    merged = {**(defaults or {}), **given, **settings}
    if "settings" in given and "settings" in settings:
        merged["settings"] = _both(read_settings(given["settings"]), read_settings(settings["settings"]))
    for name in ("dataset", "labels", "embedding", "weights", "embed"):
        if isinstance(merged.get(name), str):
            merged[name] = whole_path(merged[name])
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
