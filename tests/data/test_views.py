import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from moso.data.augment import pad_crop
from moso.data.dataset import open_dataset
from moso.data.partitions import partition
from moso.data.samples import StoredSamples, UserSamples
from moso.data.views import Normalisation, as_view, check_repeatable, load, split_evenly
from moso.tasks import Classification
from refusals import refusal

IDS = [f"class/{number}.png" for number in range(60)]
AUGMENTATIONS = ("none", "crop", "crop-flip", "resized-crop-flip")


@pytest.fixture
def samples(images: np.ndarray) -> StoredSamples:
    stored = StoredSamples.from_arrays(images, np.arange(60) % 6, ids=IDS)
    return stored.normalised(Normalisation.measure(stored.reader))


@pytest.mark.parametrize("augmentation", AUGMENTATIONS)
def test_augmentation_does_not_depend_on_the_rest_of_the_batch(samples: StoredSamples, augmentation):
    view = samples.training_view(augmentation, seed=1)
    everything, _ = view.batch(np.arange(60), epoch=3)
    for positions in ([5], [59, 5, 0], [7, 7]):
        assert view.batch(np.array(positions), epoch=3)[0].equal(everything[positions])


@pytest.mark.parametrize("augmentation", AUGMENTATIONS[1:])
def test_augmentation_is_another_in_every_epoch_and_seed(samples: StoredSamples, augmentation):
    positions = np.arange(60)
    first = samples.training_view(augmentation, seed=1).batch(positions, epoch=0)[0]
    assert not first.equal(samples.training_view(augmentation, seed=1).batch(positions, epoch=1)[0])
    assert not first.equal(samples.training_view(augmentation, seed=2).batch(positions, epoch=0)[0])
    assert first.equal(samples.training_view(augmentation, seed=1).batch(positions, epoch=0)[0])


@pytest.mark.parametrize("augmentation", AUGMENTATIONS)
def test_sample_ids_survive_shuffling(samples: StoredSamples, augmentation):
    order = np.random.default_rng(1).permutation(60)
    moved = samples.take(order)
    assert moved.ids.to_pylist() == [IDS[position] for position in order]
    assert np.array_equal(moved.labels, samples.labels[order])
    assert np.array_equal(moved.keys, samples.keys[order])
    here, there = (part.training_view(augmentation, 4) for part in (samples, moved))
    plain, shuffled = here.batch(order, epoch=2), there.batch(np.arange(60), epoch=2)
    assert plain[0].equal(shuffled[0])
    assert plain[1].equal(shuffled[1])
    for one, two in zip(
        partition(samples.keys, samples.labels, 3, 0), partition(moved.keys, moved.labels, 3, 0), strict=True
    ):
        assert {IDS[position] for position in one} == {moved.ids[int(position)].as_py() for position in two}


def test_crops_are_windows_of_the_padded_image_at_every_offset(images: np.ndarray):
    many = np.repeat(images[:1], 2000, axis=0)
    keys = np.arange(2000, dtype=np.uint64)
    padded = np.pad(images[0], ((0, 0), (1, 1), (1, 1)))
    windows = {padded[:, top : top + 8, left : left + 8].tobytes() for top in range(3) for left in range(3)}
    mirrored = {np.frombuffer(window, np.uint8).reshape(3, 8, 8)[:, :, ::-1].tobytes() for window in windows}
    assert {image.tobytes() for image in pad_crop(many, keys, 0, 0, flip=False)} == windows
    flipped = [image.tobytes() for image in pad_crop(many, keys, 0, 0, flip=True)]
    assert set(flipped) == windows | mirrored
    assert 0.45 < np.mean([image in mirrored for image in flipped]) < 0.55


def test_the_evaluation_view_is_the_sample_itself(samples: StoredSamples, images: np.ndarray):
    inputs, labels = samples.evaluation_view().batch(np.arange(60))
    mean, std = (np.array(part).reshape(1, 3, 1, 1) for part in (images.mean((0, 2, 3)), images.std((0, 2, 3))))
    assert np.allclose(inputs.numpy(), (images - mean) / std, atol=1e-5)
    assert (inputs.dtype, labels.dtype) == (torch.float32, torch.int64)
    check_repeatable(samples.evaluation_view())


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_bring_the_same_batches_in_the_same_order(class_folder, workers: int):
    train = open_dataset(f"folder:{class_folder}", memory_limit=100).train
    view = train.training_view("crop-flip", seed=3)
    plan = split_evenly(np.random.default_rng(0).permutation(len(train)), 8)
    state = torch.get_rng_state()
    alone = list(load(view, plan, epoch=1))
    together = list(load(view, plan, epoch=1, workers=workers))
    assert len(alone) == len(together) == len(plan)
    for one, two in zip(alone, together, strict=True):
        assert one[0].equal(two[0])
        assert one[1].equal(two[1])
    assert torch.get_rng_state().equal(state)


class Augmented(torch.utils.data.Dataset):
    """Somebody's dataset that mirrors half of its pictures, from one of the global generators."""

    def __init__(self, draw) -> None:
        self.draw = draw
        self.inputs = torch.arange(40.0).reshape(10, 4)

    def __len__(self) -> int:
        return 10

    def __getitem__(self, position: int):
        inputs = self.inputs[position]
        return (inputs.flip(0) if self.draw() < 0.5 else inputs), position % 2


def torch_draw() -> float:
    return float(torch.rand(()))


def numpy_draw() -> float:
    return float(np.random.rand())  # noqa: NPY002 - this is what people's datasets do


def python_draw() -> float:
    import random

    return random.random()


DRAWS = [torch_draw, numpy_draw, python_draw]


@pytest.mark.parametrize("draw", DRAWS)
def test_a_dataset_that_augments_itself_is_refused(draw):
    for _ in range(20):
        with refusal("dataset-random", "train_set", "score_set"):
            check_repeatable(as_view(Augmented(draw)), "train_set")


@pytest.mark.parametrize("draw", DRAWS)
def test_a_users_own_randomness_is_addressed(draw):
    plain = TensorDataset(torch.arange(40.0).reshape(10, 4), torch.arange(10) % 2)
    samples = UserSamples(Augmented(draw), plain, Classification(classes=("a", "b")), np.arange(10) % 2)
    check_repeatable(samples.evaluation_view())
    view = samples.training_view("none", seed=1)
    everything = view.batch(np.arange(10), epoch=2)[0]
    assert view.batch(np.array([7, 2]), epoch=2)[0].equal(everything[[7, 2]])
    assert not all(view.batch(np.arange(10), epoch=epoch)[0].equal(everything) for epoch in range(5))
    alone = list(load(view, split_evenly(np.arange(10), 4), epoch=2))
    together = list(load(view, split_evenly(np.arange(10), 4), epoch=2, workers=2))
    assert torch.cat([batch[0] for batch in together]).equal(torch.cat([batch[0] for batch in alone]))
    assert torch.cat([batch[0] for batch in alone]).equal(everything)


def test_repeatable_data_of_any_structure_passes():
    items = [
        {"pixels": torch.zeros(2, dtype=torch.bfloat16), "text": "a", "nan": float("nan")},
        {"pixels": torch.ones(2, dtype=torch.bfloat16), "text": "b", "mask": np.array([True])},
        {"pixels": torch.tensor(3), "text": "", "pair": (1, [torch.zeros(0)])},
    ]
    check_repeatable(as_view(items))


def test_an_empty_dataset_is_refused():
    with refusal("data-empty"):
        check_repeatable(as_view([]))


def test_pictures_are_needed_to_augment():
    features = StoredSamples.from_arrays(np.zeros((4, 3)), [0, 1, 0, 1])
    for augmentation in AUGMENTATIONS[1:]:
        with refusal("pictures-required", "augmentation"):
            features.training_view(augmentation, 0).batch(np.arange(4))


def test_features_are_normalised_each_on_its_own():
    values = np.random.default_rng(0).normal([0, 100], [1, 50], (500, 2))
    stored = StoredSamples.from_arrays(values, np.arange(500) % 2)
    view = stored.normalised(Normalisation.measure(stored.reader)).evaluation_view()
    inputs = view.batch(np.arange(500))[0]
    assert inputs.mean(0).abs().max() < 1e-5
    assert (inputs.std(0, correction=0) - 1).abs().max() < 1e-5


def test_a_constant_channel_stays_finite():
    stored = StoredSamples.from_arrays(np.full((4, 1, 2, 2), 9, dtype=np.uint8), [0, 1, 0, 1])
    inputs = stored.normalised(Normalisation.measure(stored.reader)).evaluation_view().batch(np.arange(4))[0]
    assert inputs.abs().max() == 0


def test_a_view_is_a_map_style_dataset(samples: StoredSamples):
    view = samples.evaluation_view()
    inputs, label = view[-1]
    assert inputs.equal(view.batch(np.array([59]))[0][0])
    assert label == samples.labels[59]
    assert len(list(view)) == 60
    with pytest.raises(IndexError):
        view[60]
