"""Recipes are data: those of the package are valid, a user's own is checked, and nothing is guessed."""

import re
import tomllib
from pathlib import Path

import pytest
import tomli_w
from pydantic import ValidationError

from moso.configuration import Configuration
from moso.errors import MosoError
from moso.experiments.declaration import Grid
from moso.experiments.registry import EXPERIMENTS
from moso.training import recipe as recipe_module
from moso.training.recipe import Recipe, TrainingRecipe, load_recipe, recipes, written_recipe

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
    ("line", "sentence"),
    [
        ("epoch = 4", r"mine.toml: surrogate.epoch is not a setting of a recipe"),
        ("momentum = 1", "surrogate.momentum is 1: input should be less than 1"),
        ("weight_decay = true", "surrogate.weight_decay is True: input should be a valid number"),
        ("clip_norm = nan", "surrogate.clip_norm is nan: input should be a finite number"),
        ("augmentation = 'flop'", "surrogate.augmentation is 'flop': input should be 'none', 'crop'"),
        ("nesterov = true\nmomentum = 0", "surrogate: nesterov needs a momentum above 0"),
        ('optimizer = "adamw"\nnesterov = true', "surrogate: nesterov belongs to optimizer 'sgd', not to 'adamw'"),
        ('optimizer = "adma"', "surrogate.optimizer: unknown optimizer 'adma'; nearest: adam"),
        ("beta2 = 0.99", "surrogate: beta2 belongs to optimizer 'adam' or 'adamw', not to 'sgd'"),
        ("milestones = [0.5]", "surrogate: milestones belong to schedule 'multi-step', not to 'constant'"),
        ("final_learning_rate = 0.01", "final_learning_rate belongs to schedule 'cosine', not to 'constant'"),
        ("epochs = 4", "mine.toml is not valid TOML"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, sentence: str) -> None:
    with pytest.raises(MosoError, match=sentence):
        load_recipe(write(tmp_path, OWN.format(line)))


def test_everything_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(MosoError, match="description is missing; match is missing; surrogate is missing"):
        load_recipe(write(tmp_path, "[retraining]\nepochs = 1\n"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"epochs": 0}, "epochs is 0: input should be greater than or equal to 1"),
        ({"epochs": 2.5}, "epochs is 2.5"),
        ({"batch_size": -1}, "batch_size is -1"),
        ({"learning_rate": float("inf")}, "learning_rate is inf"),
        ({"schedule": "multi-step"}, "'multi-step' needs milestones"),
        ({"schedule": "multi-step", "milestones": (0.6, 0.3)}, r"ascending shares .* not \[0.6, 0.3\]"),
        ({"schedule": "multi-step", "milestones": (30, 60)}, r"between 0 and 1, not \[30, 60\]"),
        ({"schedule": "one-cycle", "warmup_epochs": 1}, "'one-cycle' warms up by itself"),
        ({"final_learning_rate": 0.2}, "final_learning_rate 0.2 is above learning_rate 0.1"),
        ({"epoch": 3}, "epoch is not a setting of a recipe"),
    ],
)
def test_changes_are_checked_like_a_file(changes: dict[str, object], sentence: str) -> None:
    recipe = TrainingRecipe(epochs=2, batch_size=8, learning_rate=0.1, schedule="cosine")
    with pytest.raises(MosoError, match=sentence):
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
    ("name", "sentence"),
    [
        ("paper-cifr", "unknown recipe 'paper-cifr'; nearest: paper-cifar"),
        ("no/such/file.toml", "recipe no/such/file.toml cannot be read: No such file or directory"),
    ],
)
def test_recipes_that_are_not_there_get_a_sentence(name: str, sentence: str) -> None:
    with pytest.raises(MosoError, match=sentence):
        load_recipe(name)


def test_binary_files_are_no_recipes(tmp_path: Path) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MosoError, match="it is not UTF-8 text"):
        load_recipe(str(path))
