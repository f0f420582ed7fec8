"""Risks and the adjoint through a run: flags, files, kills, partitions, and Proposition 1.1 with another risk."""

import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from problems import digits
from torch import nn

import moso
from moso.adjoint import AdjointTerms, Replay, ReplayRecorder, adjoint_sweep, read_adjoint
from moso.configuration import Configuration
from moso.data.dataset import open_dataset
from moso.evidence import StepTerms, TrajectoryPoint, read_terms, step_terms, write_terms
from moso.evidence_kinds.training_adjoint import ADJOINT
from moso.executors import InProcess
from moso.gradients import SampleRisk
from moso.run.evidence_pieces import MeasureEvidence
from moso.run.job import Job
from moso.run.stages import begin, score_stage
from moso.run.training import at_start
from moso.scores import agreement
from moso.training.loop import StepPlan, train
from refusals import refusal


class Interruption(Exception):
    pass


def scored(job: Job) -> dict[str, np.ndarray]:
    with job.directory.locked():
        begin(job)
        score_stage(job, InProcess())
    return moso.Run.open(job.directory.root).scores()


def test_every_partition_is_the_adjoint_of_its_own_training(small_run, tmp_path):
    job = small_run(methods=["moso-adjoint"], risk="validation", validation_share=0.1, epochs=1, model="linear")
    found = scored(job)["moso-adjoint"]
    validation = job.data.validation
    assert len(job.data.train) + len(validation) == len(open_dataset("digits").train)
    recipe = job.configuration.surrogate
    for part, positions in enumerate(job.partitions(0)):
        data, total = job.training_data(recipe, positions, 0), job.total_steps(positions)
        recorder = ReplayRecorder(tmp_path / str(part), total)
        train(at_start(job, 0), StepPlan(data, recipe, seed=0), callbacks=[recorder])
        replay = Replay(recorder.folder, at_start(job, 0), data, recipe, 0, total)
        own = adjoint_sweep(replay, SampleRisk.of(validation.evaluation_view()))
        assert (found[positions] == own.change).all()
    assert not list((job.directory.root / "state").rglob("step-*"))


def test_trained_without_replay_information_it_is_recorded_by_training_again(small_run):
    job = small_run(methods=["moso", "moso-adjoint"], epochs=1, model="linear", probes=2)
    with job.directory.locked():
        begin(job)
        score_stage(job, InProcess(), [job.configuration.choice("moso")])
    history = job.directory.root / "state" / "part-000" / "history.json"
    before = history.read_bytes()
    found = scored(job)
    assert history.read_bytes() == before
    assert set(found) >= {"moso", "moso-adjoint"}
    assert read_adjoint(ADJOINT.path(job.directory.root, 0)).probes == 2


def test_killed_in_the_middle_the_piece_ends_with_the_same_bytes(small_run, monkeypatch):
    whole, killed = (small_run(name, methods=["moso-adjoint"], model="convnet-w4", epochs=1) for name in "ab")
    scored(whole)
    object.__setattr__(killed.runtime, "checkpoint_seconds", 0.0)
    path = ADJOINT.path(killed.directory.root, 1)

    def interrupt(label, done, total):
        if label.startswith("adjoint 2/2") and done > 8:
            raise Interruption

    with killed.directory.locked():
        begin(killed)
        with pytest.raises(Interruption):
            score_stage(killed, InProcess(interrupt))
    assert (killed.directory.root / "state" / "part-001" / "adjoint.safetensors").exists()
    assert not path.exists()
    MeasureEvidence(0, "adjoint", 1).perform(killed, lambda *_: None)
    assert path.read_bytes() == ADJOINT.path(whole.directory.root, 1).read_bytes()
    scored(killed)
    files = [job.directory.root / "scores.parquet" for job in (whole, killed)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert "moso-adjoint" in pq.read_table(files[0]).column_names


def test_proposition_1_1_with_another_risk_is_its_gradient_along_every_samples(tmp_path):
    """Against one backward pass a sample."""
    data = digits(12)
    own, held_out = data.positions[:8], data.positions[8:]
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).double()

    def loss(network, batch):
        return nn.functional.cross_entropy(network(batch[0].double()), batch[1], reduction="none")

    weights = np.array([0.1, 0.2, 0.3, 0.4])
    point = TrajectoryPoint(3, (0.5,), memory=model.state_dict())
    risk = SampleRisk(data.view, held_out, weights, batch_size=3)
    terms = step_terms(model, point, data.view, own, loss=loss, risk=risk)

    def gradient(value):
        return torch.cat([part.flatten() for part in torch.autograd.grad(value, list(model.parameters()))])

    of_risk = gradient((torch.from_numpy(weights) * loss(model, data.view.batch(held_out))).sum())
    single = [gradient(loss(model, data.view.batch(own[n : n + 1])).sum()) for n in range(8)]
    expected = np.array([float(of_risk @ one) for one in single])
    assert terms.dot[0] == pytest.approx(expected, rel=1e-10)
    assert agreement(terms) == pytest.approx(0.5 * expected)
    assert agreement(terms, "centred") == pytest.approx(0.5 * (expected - expected.mean()))
    same = step_terms(
        model, point, data.view, own, loss=loss, risk=lambda net: _mean(loss, net, data, held_out, weights)
    )
    assert same.dot == pytest.approx(terms.dot, rel=1e-10)
    write_terms(tmp_path / "step.npz", terms)
    assert not read_terms(tmp_path / "step.npz").own_risk
    with refusal("settings-conflict", "exact"):
        step_terms(model, point, data.view, own, loss=loss, risk=risk, estimator="last-layer")


def _mean(loss, network, data, positions, weights):
    return (torch.from_numpy(weights) * loss(network, data.view.batch(positions))).sum()


def test_terms_of_the_training_risk_are_written_as_before(tmp_path):
    write_terms(tmp_path / "a.npz", StepTerms(1, (0.1,), np.ones((1, 2)), np.ones((1, 2))))
    with np.load(tmp_path / "a.npz") as file:
        assert "own_risk" not in file


def test_the_library_takes_a_validation_set_or_a_function():
    draw = np.random.default_rng(0)
    images, labels = draw.integers(0, 255, (40, 1, 8, 8)).astype("uint8"), np.arange(40) % 2
    given = {"ratio": 0.5, "model": "linear", "recipe": "quick", "time_steps": 2, "partitions": 1}
    kept = moso.prune((images, labels), validation_set=(images[:10], labels[:10]), risk="validation", **given)
    again = moso.prune((images, labels), validation_set=(images[:10], labels[:10]), risk="validation", **given,
                       method="moso-adjoint")  # fmt: skip
    plain = moso.prune((images, labels), **given)
    assert not np.allclose(kept.scores, plain.scores)
    assert np.corrcoef(kept.scores, again.scores)[0, 1] > 0.3
    own = moso.prune((images, labels), risk=lambda net: sum(p.square().sum() for p in net.parameters()), **given)
    assert own.scores.shape == (40,)
    with refusal("setting-missing", "risk"):
        moso.prune((images, labels), risk="validation", **given)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"risk": "validation", "estimator": "sketched"}, ("settings-conflict", "risk")),
        ({"risk": "validation", "probes": 2}, ("settings-conflict", "probes")),
        ({"risk": "validation", "methods": ["grand-steps"]}, ("method-impossible", "risk")),
        (
            {"methods": ["moso-adjoint"], "surrogate": {"precision": "bfloat16"}},
            ("method-impossible", "moso-adjoint", "float32"),
        ),
        ({"risk": "tests"}, ("setting-invalid", "tests", "train")),
    ],
)
def test_what_does_not_go_together_is_refused(settings, told):
    with refusal(*told):
        Configuration.resolve(settings)


def test_no_validation_set_is_one_sentence(small_run):
    for risk, told in (
        ("validation", ("setting-missing", "validation")),
        ("own", ("settings-conflict", "moso.prune")),
    ):
        with refusal(*told):
            small_run(f"run-{risk}", risk=risk).check()


def test_a_validation_set_by_name_must_fit():
    data = open_dataset("digits", validation="digits")
    assert len(data.validation) == 1797
    with refusal("settings-conflict"):
        open_dataset("digits", validation="digits", validation_share=0.1)
    with refusal("setting-invalid", 1):
        open_dataset("digits", validation_share=1)
    with refusal("too-few-samples", "1e-06"):
        open_dataset("digits", validation_share=1e-6)


def test_a_self_term_is_trusted_by_as_much_as_is_not_noise():
    change, own = np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 6.0])
    exact = AdjointTerms(change, True, own, np.zeros(3), 3)
    noise = AdjointTerms(change, True, own, np.full(3, own.var()), 2)
    assert exact.trust() == 1.0
    assert exact.scores() == pytest.approx((3 * change - own) / 2)
    assert noise.trust() == 0.0
    assert noise.scores() == pytest.approx((3 * change - own.mean()) / 2)


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "adjoint.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    exec(compile(block, "docs/adjoint.md", "exec"), {})
