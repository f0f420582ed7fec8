"""`hf:PLACE`: a model of transformers in a local folder or in the hub's cache; nothing is downloaded or executed.

A folder has `config.json`, weights as safetensors (without them the weights are random, drawn from the seed) and
perhaps a tokenizer. Code that a folder brings along is never run, and pickled weights are not loaded.
"""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

from moso import errors
from moso.models.compat import import_transformers
from moso.quiet import quiet_notices

PREFIX = "hf:"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "tokenizer.model", "spiece.model")


def is_of_transformers(name: str) -> bool:
    """Return whether a network's name is `hf:PLACE`.

    Example:
        >>> is_of_transformers("hf:gpt2"), is_of_transformers("bert")
        (True, False)
    """
    return name.startswith(PREFIX)


def find_folder(name: str) -> Path:
    """Return the folder of a model named `hf:PLACE`: PLACE itself, or its snapshot in the hub's cache.

    Raises:
        ModelNameInvalid: PLACE is empty.
        FileMissing: There is no such folder, and nothing of this name in the cache.
    """
    place = name.removeprefix(PREFIX)
    if not place:
        raise errors.ModelNameInvalid(
            "model 'hf:' names no folder; the form is hf:FOLDER, or hf:NAME in the hub's cache"
        )
    folder = Path(place).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise errors.FileMissing(f"{folder} has no config.json; give the folder of a model of transformers")
        return folder
    import_transformers()
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(place, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError, OSError) as problem:
        raise errors.FileMissing(
            f"there is no folder {place}, and no model of this name in the hub's cache; nothing is downloaded here: "
            "save the model to a folder where there is a connection, and give that folder"
        ) from problem


def read_json(path: Path) -> Any:
    """Return what a JSON file of a model's folder holds.

    Raises:
        FileUnreadable: The file is not valid JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise errors.FileUnreadable(f"{path} is not valid JSON: {problem}") from problem


def read_config(folder: Path) -> Any:
    """Return the configuration of a model.

    Raises:
        FileUnreadable: `config.json` is not valid.
        FileUnsafe: The model needs code of its own.
        ModelUnsuitable: transformers does not know such models.
    """
    transformers = import_transformers()
    path = folder / "config.json"
    written = read_json(path)
    if not isinstance(written, dict) or "model_type" not in written:
        raise errors.FileUnreadable(f"{path} is no configuration of transformers: it names no model_type")
    if written["model_type"] not in transformers.CONFIG_MAPPING:
        if "auto_map" in written:
            raise errors.FileUnsafe(
                f"{folder} brings code of its own (auto_map in config.json), which is never run; use a model that "
                "transformers itself knows"
            )
        raise errors.ModelUnsuitable(
            f"{path}: transformers {transformers.__version__} knows no model_type {written['model_type']!r}"
        )
    try:
        with quiet_notices():
            return transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise errors.FileUnreadable(f"{path} cannot be read as a configuration: {problem}") from problem


def has_weights(folder: Path) -> bool:
    """Return whether the folder has weights as safetensors.

    Raises:
        FileUnsafe: The only weights are pickled.
    """
    if any((folder / name).exists() for name in _WEIGHTS):
        return True
    for name in _PICKLES:
        if (folder / name).exists():
            raise errors.FileUnsafe(
                f"{folder / name} is a pickle, and no pickle is loaded; save the model again as safetensors "
                "(model.save_pretrained)"
            )
    return False


def has_tokenizer(folder: Path) -> bool:
    """Return whether the folder has files of a tokenizer."""
    return any((folder / name).exists() for name in _TOKENIZERS)


def positions_of(config: Any) -> int | None:
    """Return the number of positions of a model, or None if its configuration names no limit."""
    for name in ("max_position_embeddings", "n_positions", "max_sequence_length"):
        found = getattr(config, name, None)
        if isinstance(found, int) and found > 0:
            # RoBERTa and its kin begin to count behind the padding token.
            offset = (getattr(config, "pad_token_id", None) or 0) + 1 if "roberta" in config.model_type else 0
            return found - offset
    return None


def loaded_model(folder: Path, config: Any, kind: str) -> Any:
    """Return the model of a folder with the head of this kind, its weights loaded or drawn at random.

    Args:
        folder: The folder.
        config: Its configuration, perhaps with other numbers of labels.
        kind: The class of transformers that adds the head, such as `AutoModelForCausalLM`.

    Raises:
        ModelUnsuitable: Models of this kind have no such head.
        WeightsMismatch: The weights lack some of the network, or do not fit.
    """
    transformers: ModuleType = import_transformers()
    auto = getattr(transformers, kind)
    if type(config) not in auto._model_mapping:
        raise errors.ModelUnsuitable(
            f"{folder}: a model of type {config.model_type!r} has no head for this task ({kind}); give another model"
        )
    try:
        with quiet_notices():
            if not has_weights(folder):
                return auto.from_config(config, trust_remote_code=False)
            model, told = auto.from_pretrained(
                folder, config=config, local_files_only=True, trust_remote_code=False, use_safetensors=True,
                output_loading_info=True,
            )  # fmt: skip
    except (OSError, ValueError, RuntimeError, KeyError) as problem:
        raise errors.WeightsMismatch(f"{folder} cannot be loaded: {str(problem).splitlines()[0]}") from problem
    # The pooling layer is a head, too, which features of hidden states do without.
    missing = sorted(key for key in told["missing_keys"] if kind != "AutoModel" or not key.startswith("pooler."))
    if missing and kind != "AutoModelForSequenceClassification":
        raise errors.WeightsMismatch(
            f"the weights of {folder} lack {missing[0]} ({len(missing)} in all), so its head would be random; give a "
            "model that was saved with this head"
        )
    return model
