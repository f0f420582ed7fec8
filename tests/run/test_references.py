"""References: what published methods take their evidence from, really trained, to the byte whatever happens."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from moso.evidence import read_out_of_sample, read_state
from moso.evidence_kinds.early_training import EARLY_ERRORS, EARLY_NORMS
from moso.evidence_kinds.final_outputs import FINAL
from moso.evidence_kinds.reference_features import FEATURES
from moso.evidence_kinds.training_dynamics import DYNAMICS
from moso.executors import InProcess
from moso.progress import silent
from moso.results import Run
from moso.run.job import Runtime
from moso.run.network_pieces import TrainReference, reference_seed
from moso.run.pieces import perform
from moso.run.seed_evidence import SeedEvidence
from moso.run.stages import begin, gather, score_stage, select_stage, train_stage
from moso.training.loop import StepPlan, train
from refusals import refusal

EVERYTHING = frozenset(
    {
        *("features", "early-errors", "early-norms", "final:entropy", "final:gap"),
        *("dynamics:probability", "dynamics:kl", "dynamics:correct"),
    }
)


def gathered(job, needs=EVERYTHING):
    with job.directory.locked():
        begin(job)
        gather(job, InProcess(), needs)
    return SeedEvidence(job, job.configuration.seed)


def files(root, *folders) -> dict[str, bytes]:
    found = [path for folder in folders for path in (root / folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One run whose references have left everything."""
    from moso.configuration import Configuration
    from moso.run import Job

    given = {"model": "mlp-w8", "epochs": 3, "partitions": 2, "time_steps": 3, "seeds": 1, "ratios": [0.5]}
    job = Job.open(tmp_path_factory.mktemp("references") / "run", Configuration.resolve(given))
    return gathered(job)


def literal_network(job, reference: int) -> nn.Module:
    """The network of an initialisation at the early epoch, trained here and now."""
    c, everything, seed = job.configuration, np.arange(len(job.data.train)), reference_seed(0, reference)
    model = job.model(seed)
    steps = c.early_epoch * job.steps_per_epoch(everything)
    train(model, StepPlan(job.training_data(c.surrogate, everything, seed), c.surrogate, seed), stop_after=steps)
    return model.eval()


def test_error_norms_are_those_of_networks_trained_up_to_the_early_epoch(whole):
    job, found = whole.job, whole.read(EARLY_ERRORS)
    assert found.shape == (2, len(job.data.train))
    inputs, labels = job.data.train.evaluation_view().batch(np.arange(len(job.data.train)))
    for reference in range(2):
        p = torch.softmax(literal_network(job, reference)(inputs), 1)
        error = p - nn.functional.one_hot(labels, 10)
        np.testing.assert_allclose(found[reference], error.square().sum(1).sqrt().detach(), rtol=1e-4, atol=1e-6)
    assert np.abs(found[0] - found[1]).max() > 0.05  # another start is another network


def test_gradient_norms_are_those_of_all_parameters_one_sample_at_a_time(whole):
    job, found = whole.job, whole.read(EARLY_NORMS)
    for reference in range(2):
        model = literal_network(job, reference)
        for sample in range(0, len(job.data.train), 97):
            inputs, labels = job.data.train.evaluation_view().batch(np.array([sample]))
            loss = nn.functional.cross_entropy(model(inputs), labels)
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            length = torch.sqrt(sum(part.double().square().sum() for part in gradients))
            assert found[reference, sample] == pytest.approx(float(length), rel=1e-4)


def test_features_and_predictions_are_those_of_the_trained_network(whole):
    job = whole.job
    model = job.model(0)
    model.load_state_dict(read_state(whole.home / "state" / "reference-00" / "final.safetensors")[0])
    inputs, _ = job.data.train.evaluation_view().batch(np.arange(len(job.data.train)))
    logits = model.eval()(inputs)
    p = torch.softmax(logits, 1)
    entropy = -(p * p.log()).sum(1)
    np.testing.assert_allclose(whole.read(FINAL, "entropy"), entropy.detach(), rtol=1e-4, atol=1e-6)
    two = p.topk(2, 1).values
    np.testing.assert_allclose(whole.read(FINAL, "gap"), (two[:, 0] - two[:, 1]).detach(), rtol=1e-4, atol=1e-5)
    head = [module for module in model.modules() if isinstance(module, nn.Linear)][-1]
    np.testing.assert_allclose(
        head(torch.from_numpy(np.array(whole.read(FEATURES)))).detach(), logits.detach(), rtol=1e-4, atol=1e-4
    )
    note = json.loads((whole.home / "features" / "reference-00.json").read_text())
    assert (note["network"], note["seed"], note["epochs"]) == ("mlp-w8", 0, 3)


def test_only_what_is_asked_for_is_trained_and_recorded(small_run):
    job = small_run("dynamics-alone")
    evidence = gathered(job, frozenset({"labels", "dynamics:margin"}))
    left = {path.name for path in evidence.home.iterdir()} - {".lock", "events.jsonl", "manifest.json", "run.toml"}
    assert left == {"state", "dynamics"}
    assert {path.name for path in (evidence.home / "state").iterdir()} == {"initial.safetensors", "reference-00"}
    assert evidence.read(DYNAMICS).columns == ("margin",)
    job = small_run("terms-alone")
    evidence = gathered(job, frozenset({"terms"}))
    names = {path.name for path in (evidence.home / "state").iterdir()}
    assert names == {"initial.safetensors", "part-000", "part-001"}
    assert not (evidence.home / "dynamics").exists()


def test_with_one_partition_the_surrogate_is_the_first_reference(small_run, whole):
    job = small_run("one", partitions=1, epochs=3)
    evidence = gathered(job, EVERYTHING | {"terms"})
    names = {path.name for path in (evidence.home / "state").iterdir()}
    assert names == {"initial.safetensors", "part-000", "reference-01"}
    same = ("dynamics", "terms/reference-00", "terms/reference-01", "predictions")
    assert files(evidence.home, *same) == files(whole.home, *same)
    np.testing.assert_array_equal(evidence.read(FEATURES), whole.read(FEATURES))


class Stopped(Exception):
    pass


def stop_at(step):
    def progress(label, done, total):
        if done >= step:
            raise Stopped

    return progress


@pytest.mark.parametrize("stops", [[20, 46], [60, 134]])
def test_stopped_and_begun_again_the_evidence_is_the_same_bytes(small_run, whole, stops):
    job = replace(small_run("stopped", epochs=3), runtime=Runtime(checkpoint_seconds=0.03))
    piece = TrainReference(0, 0, ("correct", "kl", "probability"))
    with job.directory.locked():
        begin(job)
        train_stage(job, InProcess(), [("random", "random")])  # records w_0 and nothing else
    for stop in stops:
        with pytest.raises(Stopped):
            perform(job, piece, stop_at(stop))
    gathered(job)
    home = job.directory.root
    same = ("dynamics", "terms/reference-00", "terms/reference-01", "predictions", "state/reference-00")
    assert files(home, *same) == files(whole.home, *same)


def test_what_was_begun_for_another_purpose_is_begun_anew(small_run, whole):
    """A position saved while recording one column is of no use to a training that is to record another."""
    job = replace(small_run("purposes", epochs=3), runtime=Runtime(checkpoint_seconds=0.03))
    with job.directory.locked():
        begin(job)
        train_stage(job, InProcess(), [("random", "random")])
    with pytest.raises(Stopped):
        perform(job, TrainReference(0, 0, ("correct",)), stop_at(70))
    evidence = gathered(job, frozenset({"dynamics:probability"}))
    np.testing.assert_array_equal(
        evidence.read(DYNAMICS).column("probability"), whole.read(DYNAMICS).column("probability")
    )
    # And a column that is asked for later is recorded by the same training once more.
    evidence = gathered(job, frozenset({"dynamics:kl"}))
    np.testing.assert_array_equal(evidence.read(DYNAMICS).column("kl"), whole.read(DYNAMICS).column("kl"))
    assert evidence.read(DYNAMICS).columns == ("kl", "probability")


def test_an_early_network_that_is_asked_for_later_costs_the_early_epochs_alone(small_run, whole):
    job = small_run("later", partitions=1, epochs=3)
    gathered(job, frozenset({"terms"}))
    history = (job.directory.root / "state" / "part-000" / "history.json").read_bytes()
    steps = []
    with job.directory.locked():
        gather(job, InProcess(lambda label, done, total: steps.append((label, total))), frozenset({"early-errors"}))
    trained = {label: total for label, total in steps if label.startswith(("surrogate", "reference"))}
    assert set(trained.values()) == {45}  # one epoch of three
    assert (job.directory.root / "state" / "part-000" / "history.json").read_bytes() == history
    np.testing.assert_array_equal(SeedEvidence(job, 0).read(EARLY_ERRORS), whole.read(EARLY_ERRORS))


def test_out_of_sample_predictions_come_from_surrogates_that_did_not_see_the_sample(small_run):
    job = small_run("unseen", partitions=3)
    evidence = gathered(job, frozenset({"predictions"}))
    found = read_out_of_sample(evidence.home)
    inputs, labels = job.data.train.evaluation_view().batch(np.arange(len(job.data.train)))
    expected = np.zeros((len(labels), 10))
    for part, positions in enumerate(evidence.partitions):
        model = job.model(0)
        model.load_state_dict(read_state(evidence.home / "state" / f"part-{part:03d}" / "final.safetensors")[0])
        p = torch.softmax(model.eval()(inputs), 1).detach().numpy()
        p[positions] = 0
        expected += p / 2
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert Run(job.directory).out_of_sample().shape == (len(labels), 10)


def test_predictions_that_cannot_be_had_get_one_clear_sentence(small_run):
    job = small_run("seen", partitions=1)
    with refusal("evidence-missing", 1):
        gathered(job, frozenset({"predictions"}))


def test_a_failed_measurement_leaves_nothing_behind(small_run, monkeypatch):
    job = small_run("failing")
    gathered(job, frozenset({"dynamics:margin"}))
    monkeypatch.setattr(
        "moso.evidence_kinds.early_training.gradient_norms", lambda *_: (_ for _ in ()).throw(Stopped())
    )
    with pytest.raises(Stopped):
        gathered(job, frozenset({"early-norms"}))
    assert not list((job.directory.root / "terms").rglob("*norms*"))


def test_selectors_are_given_what_they_ask_for(small_run):
    job = small_run("selectors", methods=["dual", "aum", "herding"], partitions=2)
    choices = [job.configuration.choice(*pair) for pair in (("dual", None), ("aum", "drop"), ("herding", None))]
    with job.directory.locked():
        begin(job)
        score_stage(job, InProcess(silent), choices)
        select_stage(job, choices)
    evidence = SeedEvidence(job, 0)
    given = evidence.for_selector(choices[0])
    np.testing.assert_allclose(
        given["probability"], evidence.read(DYNAMICS).column("probability").mean(axis=0), rtol=1e-5
    )
    errors = evidence.for_selector(choices[1])["class_error"]
    predicted = read_out_of_sample(evidence.home).argmax(axis=1)
    labels = job.data.train.labels
    for label in range(10):
        assert errors[label] == pytest.approx(np.mean(predicted[labels == label] != label))
    assert evidence.for_selector(choices[2])["evidence"]["features"].shape == (len(labels), 8)
    kept = [Run(job.directory).kept(choice.method, 0.5, choice.selector.name) for choice in choices]
    assert [len(one) for one in kept] == [719, 719, 719]
