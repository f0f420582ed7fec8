"""What can be set: with names and types, and nothing that would not apply."""

import importlib
import inspect
import subprocess
import sys
import typing
from dataclasses import fields

import numpy as np
import pytest
import torch
from small_problems import FAST, pictures, table
from torch.utils.data import TensorDataset

import moso
from moso.api.prune_config import _REFUSED, PruneConfig, PruneSettings
from moso.configuration import Configuration
from moso.errors import MosoError

ARGUMENTS = {"task", "labels", "model", "risk", "device"}


def refused(code: str, *arguments, **keywords) -> str:
    with pytest.raises(MosoError) as problem:
        moso.prune(*arguments, **keywords)
    assert problem.value.code == code, str(problem.value)
    assert "--" not in str(problem.value)  # no flags of the command line
    return str(problem.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("label_noise", 0.9), ("resize", 8), ("test_share", 0.2), ("validation_share", 0.1), ("on_broken", "skip"),
        ("memory_limit", 1.0), ("ratios", [0.5]), ("methods", ["moso"]), ("dataset", "digits"),
        ("validation", "digits"), ("selectors", ["top"]), ("by_class", True),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_apply_is_refused(name, value):
    assert name in refused("settings-conflict", table(), ratio=0.5, **FAST, **{name: value})


def test_every_setting_of_a_run_applies_or_is_refused():
    known = {field.name for field in fields(PruneConfig)}
    assert {*Configuration.model_fields} - known - _REFUSED.keys() - ARGUMENTS == set()


def test_keywords_and_the_object_have_the_same_names_and_types():
    assert typing.get_type_hints(PruneSettings) == typing.get_type_hints(PruneConfig)
    for name in typing.get_type_hints(PruneConfig):
        assert f"        {name}:" in (PruneConfig.__doc__ or ""), name


def test_values_by_name_are_those_of_a_run():
    run, own = typing.get_type_hints(Configuration), typing.get_type_hints(PruneConfig)
    for name in run.keys() & own.keys():
        if typing.get_origin(run[name]) is typing.Literal:
            one = next(part for part in typing.get_args(own[name]) if typing.get_origin(part) is typing.Literal)
            assert set(typing.get_args(one)) == set(typing.get_args(run[name])), name


def test_an_object_sets_what_keywords_set(tmp_path):
    keywords = {name: value for name, value in FAST.items() if name != "model"}
    one = moso.prune(table(), ratio=0.5, out=tmp_path / "one", **FAST)
    config = moso.PruneConfig(**keywords)
    two = moso.prune(table(), ratio=0.5, model="mlp-w8", config=config, out=tmp_path / "two")
    np.testing.assert_array_equal(one.scores, two.scores)
    assert (tmp_path / "one/run.toml").read_text() == (tmp_path / "two/run.toml").read_text()
    assert "twice" in refused("settings-conflict", table(), ratio=0.5, config=config, epochs=2, time_steps=3)
    refused("wrong-type", table(), ratio=0.5, config={"epochs": 2})


def test_a_typo_is_answered_with_the_nearest_name():
    assert "epochs" in refused("unknown-name", table(), ratio=0.5, **FAST, epoch=3)


def test_unknown_pictures_are_neither_mirrored_nor_cropped():
    quick = {"model": "mlp-w8", "epochs": 1, "time_steps": 1, "partitions": 1, "batch_size": 16}
    plain = moso.prune(pictures(), ratio=0.5, **quick)
    assert {plain.run.configuration.surrogate.augmentation, plain.run.configuration.retraining.augmentation} == {"none"}
    asked = moso.prune(pictures(), ratio=0.5, augmentation="crop-flip", **quick)
    assert asked.run.configuration.surrogate.augmentation == "crop-flip"
    assert not np.array_equal(plain.scores, asked.scores)


def test_the_default_network_and_recipe_fit_the_data():
    quick = {"epochs": 1, "time_steps": 1, "partitions": 1}
    texts = (["a b", "b c", "c d"] * 8, [0, 1, 2] * 8)
    expected = (("mlp-w32", "table"), ("convnet", "pictures"), ("bag", "text"))
    for data, fitting in zip((table(), pictures(), texts), expected, strict=True):
        found = moso.prune(data, ratio=0.5, **quick).run.configuration
        assert (found.model, found.recipe) == fitting


def test_what_stays_can_be_said_in_place_of_what_goes():
    rows = [
        moso.prune(table(), **share, **FAST).kept
        for share in ({"ratio": 0.4}, {"ratio": "40%"}, {"keep": 0.6}, {"keep": 36}, {"keep": "60%"})
    ]
    for other in rows[1:]:
        np.testing.assert_array_equal(rows[0], other)
    assert "0.4?" in refused("ratio-out-of-range", table(), ratio=40, **FAST)
    refused("ratio-out-of-range", table(), keep=61, **FAST)
    refused("settings-conflict", table(), keep=0.6, ratio=0.4, **FAST)
    refused("setting-missing", table(), **FAST)


def test_select_takes_the_top_without_labels():
    assert moso.select([0.1, 0.9, 0.5, 0.7], ratio=0.5).tolist() == [1, 3]
    assert moso.select([0.1, 0.9, 0.5, 0.7], keep=1).tolist() == [1]
    assert moso.select([0.1, 0.9, 0.5, 0.7], ratio="50%", labels=["a", "b", "a", "b"]).tolist() == [1, 2]
    with pytest.raises(MosoError) as problem:
        moso.select([0.1, 0.9], keep=[0])
    assert problem.value.code == "wrong-type"


def public_signatures():
    for name in moso.__all__:
        thing = getattr(moso, name)
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing) and name in ("Pruned", "Run", "Recorder", "SampleRisk", "Trajectory"):
            for member, value in vars(thing).items():
                function = getattr(value, "__func__", getattr(value, "fget", getattr(value, "func", value)))
                if inspect.isfunction(function) and (not member.startswith("_") or member == "__init__"):
                    yield f"{name}.{member}", function


def classes_in(hint) -> set[type]:
    if isinstance(hint, type) and not typing.get_args(hint):
        return {hint}
    return set().union(*(classes_in(one) for one in typing.get_args(hint) if not isinstance(one, list)), set())


def test_everything_in_a_public_signature_is_exported():
    exported = {getattr(moso, name) for name in moso.__all__ if isinstance(getattr(moso, name), type)}
    missing = set()
    for name, function in public_signatures():
        for hint in typing.get_type_hints(function).values():
            own = {one for one in classes_in(hint) if one.__module__.startswith("moso.")}
            missing |= {(name, one.__name__) for one in own - exported if one is not PruneSettings}
    assert missing == set()


def test_nothing_else_shows():
    assert dir(moso) == moso.__all__
    importlib.import_module("moso.report")  # a loaded room does not show either

    assert dir(moso) == moso.__all__
    with pytest.raises(AttributeError):
        moso.prunes  # noqa: B018


def test_import_moso_loads_no_torch():
    program = "import moso, sys; moso.MosoError; assert 'torch' not in sys.modules; moso.prune"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_few_updates_have_no_more_time_steps_than_updates():
    few = {"model": "mlp-w8", "recipe": "quick", "partitions": 1}
    assert moso.prune(table(), ratio=0.5, **few).run.configuration.time_steps == 2
    refused("setting-invalid", table(), ratio=0.5, **few, time_steps=3)


def as_dataset():
    rows, labels = table()
    return TensorDataset(torch.from_numpy(rows), torch.from_numpy(labels))


def test_arguments_that_cannot_apply_are_refused():
    refused("settings-conflict", table(), ratio=0.5, validation_set=table(), **FAST)
    refused("settings-conflict", table(), ratio=0.5, score_set=table(), **FAST)
    refused("settings-conflict", as_dataset(), ratio=0.5, augmentation="crop-flip", **FAST)
    refused("settings-conflict", as_dataset(), ratio=0.5, retraining={"augmentation": "crop"}, **FAST)
    refused("settings-conflict", table(), ratio=0.5, retrain_model="linear", **{**FAST, "model": lambda: None})


def test_a_dataset_that_augments_by_itself_is_recorded_as_not_augmented_by_us():
    flips = {**FAST, "recipe": "cpu-small", "epochs": 1, "time_steps": 1}
    run = moso.prune(as_dataset(), ratio=0.5, **flips).run.configuration
    assert (run.surrogate.augmentation, run.retraining.augmentation) == ("none", "none")


def test_collate_makes_the_batches_of_arrays_too():
    seen = []

    def collate(items):
        seen.append(len(items))
        return torch.stack([torch.as_tensor(row) * 2 for row, _ in items]), torch.tensor([int(one) for _, one in items])

    moso.prune(table(), ratio=0.5, collate=collate, **FAST)
    assert sum(seen) >= 120
