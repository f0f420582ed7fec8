"""`memorization`, `ddd` and out-of-sample scores against slow restatements of their definitions."""

import json

import numpy as np
import pytest
import torch

import moso
from moso.configuration import Configuration
from moso.evidence import read_state
from moso.evidence_kinds.subset_trainings import LEAST_SUBSETS, SUBSETS, SubsetAnswers, subset_mask
from moso.methods import METHODS, find_method
from moso.run.job import Job
from moso.run.seed_evidence import SeedEvidence
from moso.scores import SCORES, MemoryInput, find_score
from moso.scores.ensembles.ddd import ddd_score
from refusals import refusal
from tests.whole_runs import carried_out, scored

SETTINGS = {
    "dataset": "digits",
    "model": "mlp-w8",
    "epochs": 2,
    "partitions": 3,
    "seeds": 1,
    "ratios": [0.8],
    "device": "cpu",
}
KEYS = np.arange(40, dtype=np.uint64)


def job_at(path, **settings):
    return Job.open(path, Configuration.resolve({**SETTINGS, **settings}))


def one_nearest(points, labels, chosen):
    """Whether a 1-nearest-neighbour classifier of these samples is right about every sample."""
    distances = np.abs(points[:, None] - points[chosen][None])
    return labels[chosen][distances.argmin(axis=1)] == labels


def test_memorization_is_mean_correctness_with_minus_without():
    draw = np.random.default_rng(0)
    correct, inside = draw.random((9, 30)) < 0.6, draw.random((9, 30)) < 0.7
    inside[:2], inside[2:4] = True, False
    found = SubsetAnswers(correct, inside).difference()
    for z in range(30):
        with_z = [float(c) for c, i in zip(correct[:, z], inside[:, z], strict=True) if i]
        without = [float(c) for c, i in zip(correct[:, z], inside[:, z], strict=True) if not i]
        assert found.estimate[z] == pytest.approx(np.mean(with_z) - np.mean(without))
        error = np.var(with_z, ddof=1) / len(with_z) + np.var(without, ddof=1) / len(without)
        assert found.standard_error[z] == pytest.approx(error**0.5)


def test_a_nearest_neighbour_classifier_memorises_what_its_neighbour_contradicts():
    draw = np.random.default_rng(1)
    points, labels = draw.random(25), draw.integers(0, 2, 25)
    everything = np.arange(25)
    # Exact leave-one-out: the network with all samples, and one without each.
    inside = np.concatenate([np.ones((1, 25), dtype=bool), ~np.eye(25, dtype=bool)])
    correct = np.stack([one_nearest(points, labels, everything[mask]) for mask in inside])
    for z in everything:
        rows = np.array([0, z + 1])
        found = SubsetAnswers(correct[rows], inside[rows]).difference().estimate[z]
        others = np.delete(everything, z)
        nearest = others[np.abs(points[others] - points[z]).argmin()]
        assert found == float(labels[nearest] != labels[z])


def test_addressed_subsets_estimate_what_plain_random_subsets_do():
    draw = np.random.default_rng(2)
    points, labels = draw.random(90), draw.integers(0, 2, 90)
    ours = np.stack([subset_mask(np.arange(90, dtype=np.uint64), 0, one) for one in range(400)])
    plain = np.zeros((2000, 90), dtype=bool)
    for row in plain:
        row[draw.choice(90, 63, replace=False)] = True
    found, expected = (
        SubsetAnswers(np.stack([one_nearest(points, labels, np.flatnonzero(row)) for row in masks]), masks).difference()
        for masks in (ours, plain)
    )
    error = np.hypot(found.standard_error, expected.standard_error)
    assert (np.abs(found.estimate - expected.estimate) < 5 * error + 1e-9).all()
    assert np.ptp(expected.estimate) > 0.5


@pytest.mark.parametrize("subset", [0, 3, 9, 10, 27])
def test_a_subset_is_seven_tenths_and_does_not_depend_on_the_order_of_samples(subset):
    mask = subset_mask(KEYS, 5, subset)
    assert mask.sum() == 28
    order = np.random.default_rng(0).permutation(40)
    assert np.array_equal(subset_mask(KEYS[order], 5, subset), mask[order])


def test_as_few_subsets_as_are_allowed_leave_every_sample_out_and_in():
    inside = np.stack([subset_mask(KEYS, 0, one) for one in range(LEAST_SUBSETS)])
    assert inside.any(axis=0).all()
    assert not inside.all(axis=0).any()
    assert np.stack([subset_mask(KEYS, 0, one) for one in range(LEAST_SUBSETS - 1)]).all(axis=0).any()


@pytest.mark.parametrize(("networks", "expected"), [(1, [0, 0.5]), (4, [0, 1.2, 1.4, 1.6, 0.8])])
def test_ddd_puts_the_middle_first_then_what_is_trivial_then_what_is_impossible(networks, expected):
    right = np.arange(networks + 1) / networks
    assert ddd_score(right, networks) == pytest.approx(expected)


def test_ddd_is_the_three_lines_of_its_source_with_ties_by_mean_accuracy():
    answers = (np.random.default_rng(0).random((5, 60)) < np.linspace(0, 1, 60)).astype(np.float32)
    found = find_score("ddd")(MemoryInput(60, evidence={"early-answers": answers}))
    right = answers.sum(axis=0)
    kind = np.where(right == 5, 1, np.where(right == 0, -1, 0))
    order = sorted(range(60), key=lambda z: (kind[z] != 0, -right[z], z))
    assert np.argsort(-found, kind="stable").tolist() == order


def test_constant_predictors_find_nothing_between_trivial_and_impossible():
    labels = np.arange(12) % 3
    answers = np.repeat((labels == 1)[None].astype(np.float32), 4, axis=0)
    found = find_score("ddd")(MemoryInput(12, evidence={"early-answers": answers}))
    assert set(found[labels == 1]) == {0.8}
    assert set(found[labels != 1]) == {0.0}


def logits_of(job, name):
    """The logits of a stored network on all samples, by plain PyTorch."""
    model = job.model(0)
    state, _ = read_state(job.directory.root / "state" / name)
    model.load_state_dict(state)
    model.eval()
    inputs, labels = job.data.train.evaluation_view().batch(np.arange(len(job.data.train)))
    with torch.no_grad():
        return model(inputs).double(), labels


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    names = ["memorization", "ddd", "el2n", "entropy", "margin", "least-confidence", "moso-cross"]
    unseen = [f"{name}-out-of-sample" for name in ("ddd", "el2n", "entropy", "margin", "least-confidence", "infomax")]
    job = job_at(tmp_path_factory.mktemp("run"), methods=names + unseen, time_steps=2)
    return job, carried_out(job)


def brute_force(job, columns):
    """Per column, what each surrogate says of every sample, and which samples it was trained on."""
    said, inside = {name: [] for name in columns}, []
    for part, own in enumerate(job.partitions(0)):
        logits, labels = logits_of(job, f"part-{part:03d}/final.safetensors")
        p = logits.softmax(1)
        two = p.topk(2).values
        values = {
            "correct": (logits.argmax(1) == labels).double(),
            "el2n": (p - torch.nn.functional.one_hot(labels, p.shape[1])).norm(dim=1),
            "entropy": -(p * p.log()).sum(1),
            "margin": two[:, 1] - two[:, 0],
            "least-confidence": 1 - two[:, 0],
        }
        for name in columns:
            said[name].append(values[name].numpy())
        inside.append(np.isin(np.arange(len(labels)), own))
    return {name: np.stack(rows) for name, rows in said.items()}, np.stack(inside)


def test_out_of_sample_scores_are_those_of_surrogates_that_did_not_see_the_sample(finished):
    job, run = finished
    said, inside = brute_force(job, ("el2n", "entropy", "margin", "least-confidence"))
    for name, rows in said.items():
        expected = np.where(inside, 0, rows).sum(axis=0) / (~inside).sum(axis=0)
        assert run.scores()[f"{name}-out-of-sample"] == pytest.approx(expected, abs=1e-5)
        assert np.abs(run.scores()[name] - expected).max() > 1e-3


def test_the_coarse_memorization_and_ddd_out_of_sample_come_from_the_surrogates(finished):
    job, run = finished
    said, inside = brute_force(job, ("correct",))
    correct = said["correct"].astype(bool)
    expected = SubsetAnswers(correct, inside).difference().estimate
    assert run.scores()["memorization"] == pytest.approx(expected, abs=1e-6)
    right = (correct & ~inside).sum(axis=0) / 2
    assert run.scores()["ddd-out-of-sample"] == pytest.approx(ddd_score(right, 2))


def test_ddd_asks_the_early_networks(finished):
    job, run = finished
    right = []
    for number in range(2):
        logits, labels = logits_of(job, f"reference-{number:02d}/early.safetensors")
        right.append((logits.argmax(1) == labels).double().numpy())
    assert run.scores()["ddd"] == pytest.approx(ddd_score(np.mean(right, axis=0), 2))


def test_a_run_keeps_both_forms_of_a_score_apart_and_says_which_is_which(finished):
    _, run = finished
    assert {"el2n", "el2n-out-of-sample"} <= set(run.table().column_names)
    note = json.loads((run.directory.root / "scores" / "el2n-out-of-sample.json").read_text())
    assert note["needs"] == ["labels", "unseen:error_norm"]
    kept = {(one.method, one.selector) for one in run.selections()}
    assert {("el2n", "top"), ("el2n-out-of-sample", "top"), ("infomax-out-of-sample", "infomax")} <= kept
    assert {row["method"] for row in run.evaluation()} >= {"el2n", "el2n-out-of-sample"}
    assert run.score_of("infomax-out-of-sample") == pytest.approx(run.scores()["el2n-out-of-sample"])


def test_the_switch_turns_every_method_into_its_out_of_sample_form():
    found = Configuration.resolve({**SETTINGS, "methods": ["el2n", "random"], "out_of_sample": True})
    assert found.methods == ("el2n-out-of-sample", "random")
    assert 'methods = [\n    "el2n-out-of-sample"' in found.to_toml()
    every = Configuration.resolve({**SETTINGS, "methods": ["all"], "out_of_sample": True}).methods
    unseen = {name for name in METHODS.built_in() if (s := find_method(name).find_score()) and s.unseen is not None}
    assert set(every) == {f"{name}-out-of-sample" for name in unseen} | {"random"}
    assert {"el2n", "entropy", "margin", "least-confidence", "ddd", "infomax"} <= unseen


@pytest.mark.parametrize(
    ("method", "said"),
    [("moso-rank", "moso-cross"), ("aum", "epoch"), ("herding", "score"), ("memorization", "already")],
)
def test_methods_without_an_out_of_sample_form_are_refused_with_the_reason(method, said):
    with refusal("method-impossible", method, said):
        Configuration.resolve({**SETTINGS, "methods": [method], "out_of_sample": True})
    with refusal("method-impossible", method, said):
        Configuration.resolve({**SETTINGS, "methods": [f"{method}-out-of-sample"]})


@pytest.mark.parametrize("name", SCORES.names())
def test_a_score_has_an_out_of_sample_form_or_says_why_not(name):
    score = find_score(name)
    if score.unseen is None:
        assert score.no_unseen
    else:
        assert score.out_of_sample().needed() == score.unseen.needs
        assert score.out_of_sample().hard == score.hard


def test_one_partition_one_network_and_few_subsets_are_refused():
    with refusal("method-impossible", "el2n-out-of-sample", 1):
        Configuration.resolve({**SETTINGS, "methods": ["el2n"], "out_of_sample": True, "partitions": 1})
    with refusal("method-impossible", "memorization", 1):
        Configuration.resolve({**SETTINGS, "methods": ["memorization"], "partitions": 1})
    with refusal("method-impossible", "ddd", "initialisations"):
        Configuration.resolve({**SETTINGS, "methods": ["ddd"], "initialisations": 1})
    with refusal("method-impossible", "memorization", LEAST_SUBSETS - 1, LEAST_SUBSETS):
        Configuration.resolve({**SETTINGS, "methods": ["memorization"], "memorization_subsets": LEAST_SUBSETS - 1})
    with refusal("settings-conflict", "rounds"):
        Configuration.resolve({**SETTINGS, "methods": ["memorization"], "memorization_subsets": 4, "rounds": 2})


def test_networks_on_random_subsets_are_pieces_that_resume_to_the_same_bytes(tmp_path):
    settings = {"methods": ["memorization"], "memorization_subsets": 4, "epochs": 1}
    job = job_at(tmp_path / "whole", **settings)
    run = scored(job)
    answers = SeedEvidence(job, 0).read(SUBSETS)
    assert run.scores()["memorization"] == pytest.approx(answers.difference().estimate)
    assert np.array_equal(answers.inside[2], subset_mask(job.data.train.keys, 0, 2))
    note = json.loads((run.directory.root / "scores" / "memorization.json").read_text())
    assert note["memorization_subsets"] == 4
    assert 0 < note["standard_error"] < 1
    assert not list((run.directory.root / "state").glob("part-*/history.json")), "no surrogate is needed"
    files = [SUBSETS.path(job.directory.root, number) for number in range(4)]
    before = [path.read_bytes() for path in files]
    files[1].unlink()
    scored(job_at(tmp_path / "whole", **settings))
    assert [path.read_bytes() for path in files] == before


def test_the_library_takes_out_of_sample_names():
    draw = np.random.default_rng(0)
    labels = np.arange(120) % 3
    inputs = (draw.random((120, 4)) + labels[:, None]).astype(np.float32)
    pruned = moso.prune(
        (inputs, labels), ratio=0.5, method="entropy-out-of-sample", model="mlp-w8", recipe="quick", epochs=1, seeds=1
    )
    assert len(pruned.kept) == 60
