"""Laws of the index of gradients: products of gradients up to a stated error, files that resume or are refused."""

import json

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

import moso
from moso.gradients import Point
from moso.gradients.estimates.hashed import error_of, hashed_projections, hashed_sketches, numbers_for, sketch_of
from moso.indexing.gradient_index import IndexSettings
from refusals import refusal

SAMPLES = 120


@pytest.fixture(scope="module")
def problem():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 60), nn.Tanh(), nn.Linear(60, 10))
    inputs = torch.randn(SAMPLES, 30)
    labels = inputs[:, :10].argmax(1)
    data = torch.utils.data.TensorDataset(inputs, labels)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    checkpoints = []
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        checkpoints.append(({name: value.clone() for name, value in model.state_dict().items()}, 0.5))
    return model, data, checkpoints


def targets(data):
    labels = data.tensors[1]
    return {f"class {one}": moso.SampleRisk.of(data, torch.nonzero(labels == one)[:, 0].tolist()) for one in (0, 1)}


def test_an_index_that_is_not_projected_has_the_scores_of_moso(problem, tmp_path):
    model, data, checkpoints = problem
    index = moso.GradientIndex.build(
        tmp_path, model, data, checkpoints, settings=IndexSettings(error=0.01, precision="float32", shard=50)
    )
    assert index.error == 0
    found, exact = index.query(model, targets(data)), moso.score(model, data, checkpoints, risk=targets(data))
    for name in exact:
        np.testing.assert_allclose(found[name], exact[name], rtol=1e-4, atol=1e-7)


def test_projected_products_rank_nearer_to_exact_ones_the_smaller_the_error(problem, tmp_path):
    model, data, checkpoints = problem
    exact, agreements = moso.score(model, data, checkpoints, risk=targets(data)), []
    for error, numbers in ((0.3, 23), (0.1, 200), (0.04, 1250)):
        place = tmp_path / str(numbers)
        index = moso.GradientIndex.build(place, model, data, checkpoints, settings=IndexSettings(error=error))
        assert index.what.numbers == numbers
        found = index.query(model, targets(data))
        agreements.append(np.mean([spearmanr(found[name], exact[name])[0] for name in exact]))
    assert agreements == sorted(agreements)
    assert agreements[-1] > 0.7


def test_the_stated_error_holds_over_seeds(problem):
    model, data, _ = problem
    point, batch = Point.of(model, moso.cross_entropy), data.tensors
    exact = torch.cat(list(hashed_sketches(point, lambda: [batch], hashed_projections(point, 10**6, 0))))
    lengths = exact.norm(dim=1)
    truth = (exact @ exact.T) / (lengths[:, None] * lengths[None])
    numbers, errors = 400, []
    for seed in range(20):
        made = torch.cat(list(hashed_sketches(point, lambda: [batch], hashed_projections(point, numbers, seed))))
        errors.append((made @ made.T) / (lengths[:, None] * lengths[None]) - truth)
    errors = torch.stack(errors)
    assert float(errors.square().mean().sqrt()) <= error_of(numbers)
    assert abs(float(errors.mean())) < 0.2 * error_of(numbers)  # unbiased
    assert error_of(numbers_for(0.07)) <= 0.07


def test_sketches_are_linear_so_a_target_and_its_samples_have_one_scale(problem):
    model, data, _ = problem
    point = Point.of(model, moso.cross_entropy)
    projections = hashed_projections(point, 300, 0)
    rows = torch.cat(list(hashed_sketches(point, lambda: [data.tensors], projections)))
    from moso.gradients import risk_gradient

    mean = sketch_of(risk_gradient(point, moso.SampleRisk.of(data)), projections)
    assert torch.allclose(mean, rows.mean(0), atol=1e-6)


def test_an_interrupted_index_continues_and_has_the_same_bytes(problem, tmp_path):
    model, data, checkpoints = problem
    settings = IndexSettings(error=0.1, shard=30)
    moso.GradientIndex.build(tmp_path / "whole", model, data, checkpoints, settings=settings)

    def stop(label, done, total):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        moso.GradientIndex.build(tmp_path / "other", model, data, checkpoints, settings=settings, progress=stop)
    with refusal("file-missing", "build"):
        moso.GradientIndex.open(tmp_path / "other")
    moso.GradientIndex.build(tmp_path / "other", model, data, checkpoints, settings=settings)
    files = {path.relative_to(tmp_path / "whole") for path in (tmp_path / "whole").rglob("*") if path.is_file()}
    assert files == {path.relative_to(tmp_path / "other") for path in (tmp_path / "other").rglob("*") if path.is_file()}
    assert all((tmp_path / "whole" / one).read_bytes() == (tmp_path / "other" / one).read_bytes() for one in files)


def test_many_targets_in_one_query_are_each_as_alone(problem, tmp_path):
    model, data, checkpoints = problem
    index = moso.GradientIndex.build(tmp_path, model, data, checkpoints)
    together = index.query(model, targets(data))
    for name, risk in targets(data).items():
        np.testing.assert_allclose(index.query(model, {name: risk})[name], together[name], rtol=1e-4, atol=1e-7)


def test_cosines_do_not_depend_on_the_length_of_gradients(problem, tmp_path):
    model, data, checkpoints = problem
    settings = IndexSettings(error=0.01, precision="float32")
    index = moso.GradientIndex.build(tmp_path, model, data, checkpoints[:1], settings=settings)
    found = index.query(model, targets(data), similarity="cosine")["class 0"]
    point = Point.of(model, moso.cross_entropy, checkpoints[0][0])
    rows = torch.cat(list(hashed_sketches(point, lambda: [data.tensors], hashed_projections(point, 10**6, 0))))
    mean = rows[data.tensors[1] == 0].mean(0)
    expected = 0.5 * nn.functional.cosine_similarity(rows, mean[None])
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-6)


def test_damaged_and_foreign_files_are_refused_in_one_sentence(problem, tmp_path):
    model, data, checkpoints = problem
    with refusal("file-missing", "build"):
        moso.GradientIndex.open(tmp_path)
    index = moso.GradientIndex.build(tmp_path, model, data, checkpoints[:1])
    with refusal("output-exists"):
        moso.GradientIndex.build(tmp_path, model, data, checkpoints[:1], settings=IndexSettings(seed=1))
    with refusal("checkpoint-mismatch"):
        index.query(nn.Sequential(nn.Linear(30, 50), nn.Tanh(), nn.Linear(50, 10)), targets(data))
    with refusal("setting-invalid", "targets"):
        index.query(model, {})
    with refusal("setting-invalid", "angle"):
        index.query(model, targets(data), similarity="angle")
    [shard] = list(tmp_path.rglob("00000.npy"))
    shard.write_bytes(shard.read_bytes()[:100])
    with refusal("file-damaged", "build"):
        index.query(model, targets(data))
    shard.unlink()
    with refusal("file-missing", "build"):
        index.query(model, targets(data))
    (tmp_path / "index.json").write_text(json.dumps({"format": 9}))
    with refusal("file-unreadable", "index.json"):
        moso.GradientIndex.open(tmp_path)


@pytest.mark.parametrize("error", [0, 1, -1])
def test_errors_outside_of_their_range_are_refused(error):
    with refusal("setting-invalid", error):
        numbers_for(error)


def test_parameter_groups_have_their_own_rates(problem, tmp_path):
    model, data, checkpoints = problem
    groups = (("0.weight", "0.bias"), ("2.weight", "2.bias"))
    point = moso.TrajectoryPoint(1, (0.1, 0.4), groups, memory=checkpoints[0][0])
    trajectory = moso.Trajectory([point], 7)
    settings = IndexSettings(error=0.01, precision="float32")
    index = moso.GradientIndex.build(tmp_path, model, data, trajectory, settings=settings)
    found, exact = index.query(model, targets(data)), moso.score(model, data, trajectory, risk=targets(data))
    np.testing.assert_allclose(found["class 1"], exact["class 1"], rtol=1e-4, atol=1e-8)


def flipped(path, place=None):
    """One bit is another one."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 4
    path.write_bytes(bytes(content))


def test_a_flipped_bit_in_any_file_is_found_and_mended_by_the_same_call(problem, tmp_path):
    model, data, checkpoints = problem
    settings = IndexSettings(error=0.1, shard=50)

    def build():
        return moso.GradientIndex.build(tmp_path, model, data, checkpoints, settings=settings)

    expected = build().query(model, targets(data))
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file() and path.name != "index.json")
    assert len(files) == 1 + 3 * (1 + 2 * 3)  # positions; per time step the network, and rows and lengths of shards
    whole = {path: path.read_bytes() for path in files}
    for path in files:
        for code, damage in (("file-damaged", flipped), ("file-missing", lambda path: path.unlink())):
            damage(path)
            with refusal(code, path, "build"):
                moso.GradientIndex.open(tmp_path).query(model, targets(data))
            found = build().query(model, targets(data))
            assert path.read_bytes() == whole[path]
            assert all(np.array_equal(found[name], expected[name]) for name in expected)
    note = tmp_path / "index.json"
    flipped(note, note.read_bytes().index(b'"seed": 0') + 8)
    for action in (build, lambda: moso.GradientIndex.open(tmp_path)):
        with refusal("file-damaged", "remove its folder"):
            action()
