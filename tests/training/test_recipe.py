"""Recipes are data: those of the package are valid, a user's own is checked, and nothing is guessed."""

import re
import tomllib
from pathlib import Path

import pytest
import tomli_w
from pydantic import ValidationError

from moso.configuration import Configuration
from moso.experiments.declaration import Grid
from moso.experiments.registry import EXPERIMENTS
from moso.training import recipe as recipe_module
from moso.training.recipe import Recipe, TrainingRecipe, load_recipe, recipes, written_recipe
from refusals import refusal

NAMES = sorted(path.stem for path in Path(recipe_module.__file__).with_name("recipes").iterdir())
MANUAL = Path(__file__).parents[2]
# What fits data of each kind, as the manual has it.
FITTING = {"digits": "digits", "text:reviews.csv": "text", "diabetes": "table", "folder:pets": "cpu-small"}
OWN = """
description = "mine"
match = "steps"
[surrogate]
epochs = 3
batch_size = 8
learning_rate = 0.1
schedule = "constant"
{}
[retraining]
epochs = 3
batch_size = 8
learning_rate = 0.1
schedule = "constant"
"""


def write(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def test_the_named_recipes_are_there() -> None:
    """Those that are chosen where nobody says, those of experiments, and those that the manual tells people to give."""
    assert [name for name, description in recipes() if description] == NAMES
    chosen = {dataset: Configuration.resolve({"dataset": dataset}).recipe for dataset in FITTING}
    assert chosen == FITTING
    presets = [own for one in EXPERIMENTS.values() for own in one.presets.values() if not isinstance(own, Grid)]
    declared = {arm.settings["recipe"] for own in presets for arm in own if "recipe" in arm.settings}
    pages = [MANUAL / "README.md", *(MANUAL / "docs").glob("*.md")]
    told = {name for page in pages for name in re.findall(r"--recipe ([a-z][a-z-]+)(?![\w./-])", page.read_text())}
    assert declared
    assert told
    assert declared | told <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_survives_being_written_down(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    written = tomli_w.dumps(recipe.model_dump(exclude_none=True))
    assert Recipe.model_validate(tomllib.loads(written)) == recipe


def test_the_paper_recipe_is_the_papers() -> None:
    surrogate, retraining = load_recipe("paper-cifar").surrogate, load_recipe("paper-cifar").retraining
    assert (surrogate.epochs, surrogate.batch_size, surrogate.learning_rate) == (50, 256, 0.1)
    assert (surrogate.final_learning_rate, surrogate.weight_decay, surrogate.clip_norm) == (1e-4, 2e-4, 1.0)
    assert (surrogate.momentum, surrogate.nesterov) == (0.9, True)
    assert (retraining.epochs, retraining.weight_decay) == (200, 5e-4)
    assert load_recipe("paper-tiny").retraining.weight_decay == 1e-4


def test_digits_are_never_mirrored() -> None:
    recipe = load_recipe("digits")
    assert {recipe.surrogate.augmentation, recipe.retraining.augmentation} <= {"none", "crop"}


def test_a_users_own_file_is_a_recipe(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path, OWN.format("clip_norm = 2")))
    assert (recipe.name, recipe.match, recipe.surrogate.clip_norm) == ("mine", "steps", 2.0)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("epoch = 4", ("recipe-invalid", "mine.toml", "surrogate.epoch")),
        ("momentum = 1", ("recipe-invalid", "surrogate.momentum", 1)),
        ("weight_decay = true", ("recipe-invalid", "surrogate.weight_decay")),
        ("clip_norm = nan", ("recipe-invalid", "surrogate.clip_norm")),
        ("augmentation = 'flop'", ("recipe-invalid", "surrogate.augmentation", "flop", "none", "crop")),
        ("nesterov = true\nmomentum = 0", ("recipe-invalid", 0)),
        ('optimizer = "adamw"\nnesterov = true', ("recipe-invalid", "sgd", "adamw")),
        ('optimizer = "adma"', ("recipe-invalid", "surrogate.optimizer", "adma", "adam")),
        ("beta2 = 0.99", ("recipe-invalid", "adam", "adamw", "sgd")),
        ("milestones = [0.5]", ("recipe-invalid", "multi-step", "constant")),
        ("final_learning_rate = 0.01", ("recipe-invalid", "final_learning_rate", "cosine", "constant")),
        ("epochs = 4", ("file-unreadable", "mine.toml")),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, told: str) -> None:
    with refusal(*told):
        load_recipe(write(tmp_path, OWN.format(line)))


def test_everything_missing_is_named(tmp_path: Path) -> None:
    with refusal("recipe-invalid", "mine.toml", "retraining.batch_size"):
        load_recipe(write(tmp_path, "[retraining]\nepochs = 1\n"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"epochs": 0}, ("recipe-invalid", 0, 1)),
        ({"epochs": 2.5}, ("recipe-invalid", "2.5")),
        ({"batch_size": -1}, ("recipe-invalid", "batch_size", -1)),
        ({"learning_rate": float("inf")}, ("recipe-invalid", "learning_rate")),
        ({"schedule": "multi-step"}, ("recipe-invalid", "multi-step")),
        ({"schedule": "multi-step", "milestones": (0.6, 0.3)}, ("recipe-invalid", 0, 1, "0.6", "0.3")),
        ({"schedule": "multi-step", "milestones": (30, 60)}, ("recipe-invalid", 0, 1, 30, 60)),
        ({"schedule": "one-cycle", "warmup_epochs": 1}, ("recipe-invalid", "one-cycle")),
        ({"final_learning_rate": 0.2}, ("recipe-invalid", "final_learning_rate", "0.2", "learning_rate", "0.1")),
        ({"epoch": 3}, ("recipe-invalid",)),
    ],
)
def test_changes_are_checked_like_a_file(changes: dict[str, object], told: str) -> None:
    recipe = TrainingRecipe(epochs=2, batch_size=8, learning_rate=0.1, schedule="cosine")
    with refusal(*told):
        recipe.changed(**changes)


def test_settings_that_came_later_are_written_only_where_they_are_set() -> None:
    """Files and digests of runs from before the settings existed stay as they are."""
    plain = TrainingRecipe(epochs=2, batch_size=8, learning_rate=0.1, schedule="cosine", optimizer="adamw")
    assert not {"beta2", "epsilon"} & plain.model_dump().keys()
    other = plain.changed(optimizer="adam", beta2=0.9)
    assert other.model_dump()["beta2"] == 0.9
    assert "epsilon" not in other.model_dump()
    assert written_recipe(other.model_dump(mode="json"), "[surrogate]") == other


def test_changes_leave_the_rest_and_the_original_alone() -> None:
    recipe = TrainingRecipe(epochs=2, batch_size=8, learning_rate=0.1, schedule="cosine")
    other = recipe.changed(epochs=5, batch_size=None)
    assert (other.epochs, other.batch_size, recipe.epochs) == (5, 8, 2)
    with pytest.raises(ValidationError, match="frozen"):
        recipe.epochs = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("paper-cifr", ("unknown-name", "paper-cifr", "paper-cifar")),
        ("no/such/file.toml", ("file-unreadable",)),
    ],
)
def test_recipes_that_are_not_there_get_a_sentence(name: str, told: str) -> None:
    with refusal(*told):
        load_recipe(name)


def test_binary_files_are_no_recipes(tmp_path: Path) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with refusal("file-unreadable", 8):
        load_recipe(str(path))
