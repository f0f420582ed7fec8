"""Each published score against a literal, slow restatement of its definition."""

import itertools
import math
import statistics

import numpy as np
import pytest

from moso.evidence import PartitionTerms, StepTerms
from moso.evidence.dynamics import Dynamics, DynamicsRecorder
from moso.scores import SCORES, MemoryInput, find_score
from moso.scores.dynamics.dual import DualSettings, dual, mean_probability
from moso.scores.dynamics.dyn_unc import dynamic_uncertainty
from moso.scores.dynamics.forgetting import forgetting_events
from moso.scores.dynamics.tdds import TddsSettings, dual_depth
from moso.scores.dynamics.windows import over_samples, shortened
from moso.scores.moderate import distances_to_centre

DRAW = np.random.default_rng(0)


def column(epochs: int, samples: int = 40) -> np.ndarray:
    return np.random.default_rng(epochs).random((epochs, samples))


def test_forgetting_counts_the_times_a_sample_was_right_and_then_wrong():
    correct = (DRAW.random((12, 200)) < DRAW.random(200)).astype(float)
    correct[:, :3] = 0  # never learned
    correct[:, 3] = 1  # never forgotten
    found = forgetting_events(correct)
    for sample in range(200):
        history = correct[:, sample].tolist()
        events = 0
        for before, after in itertools.pairwise(history):
            if before > after:
                events += 1
        assert found[sample] == (events if 1.0 in history else 12)
    learned = correct.any(axis=0)
    assert found[~learned].min() > found[learned].max()
    assert found[3] == 0


@pytest.mark.parametrize(("epochs", "window"), [(30, 10), (21, 10), (20, 10), (7, 3), (3, 2), (2, 10)])
def test_dynamic_uncertainty_is_equations_1_and_2_of_he_et_al(epochs, window):
    p, J = column(epochs), shortened(window, epochs)
    found = dynamic_uncertainty(p, window)
    for sample in range(p.shape[1]):
        assert found[sample] == pytest.approx(dyn_unc_by_hand(p[:, sample].tolist(), J), rel=1e-12)


def dyn_unc_by_hand(history: list[float], J: int) -> float:
    spreads = []
    for k in range(max(1, len(history) - J)):  # k = 0 .. K-J-1
        part = history[k : k + J]
        mean = sum(part) / J
        spreads.append(math.sqrt(sum((value - mean) ** 2 for value in part) / (J - 1)))
    return sum(spreads) / len(spreads)


@pytest.mark.parametrize(("epochs", "window"), [(30, 10), (20, 10), (7, 3), (2, 10)])
def test_dual_is_difficulty_times_uncertainty_averaged_over_windows(epochs, window):
    p, J = column(epochs), shortened(window, epochs)
    found = dual(p, window)
    for sample in range(p.shape[1]):
        assert found[sample] == pytest.approx(dual_by_hand(p[:, sample].tolist(), J), rel=1e-12)


def dual_by_hand(history: list[float], J: int) -> float:
    parts = [history[k : k + J] for k in range(len(history) - J + 1)]
    return statistics.mean((1 - statistics.mean(part)) * statistics.stdev(part) for part in parts)


@pytest.mark.parametrize(("epochs", "window", "decay"), [(30, 10, 0.9), (20, 10, 0.5), (6, 3, 0.9), (3, 10, 0.9)])
def test_tdds_is_the_spread_of_divergences_in_windows_newer_ones_counting_more(epochs, window, decay):
    """From whole probability vectors, as the authors' code goes about it, but with the paper's divergence."""
    draw = np.random.default_rng(epochs)
    vectors = draw.dirichlet(np.ones(5), size=(epochs, 25))
    changes = np.full((epochs, 25), np.nan)
    for t in range(1, epochs):
        changes[t] = (vectors[t] * np.log(vectors[t] / vectors[t - 1])).sum(axis=1)
    found, J = dual_depth(changes, window, decay), max(3, shortened(window, epochs))
    for sample in range(25):
        assert found[sample] == pytest.approx(tdds_by_hand(vectors[:, sample], J, decay), rel=1e-9)


def tdds_by_hand(vectors: np.ndarray, J: int, decay: float, absolute: bool = False) -> float:
    """Of one sample's probability vectors, `[epochs, classes]`; `absolute` as in the authors' code."""
    T, total = len(vectors), 0.0
    for k in range(T - J + 1):
        inside = []
        for j in range(J - 1):
            new, old = vectors[k + j + 1], vectors[k + j]
            terms = [a * (math.log(a) - math.log(b)) for a, b in zip(new, old, strict=True)]
            inside.append(sum(map(abs, terms) if absolute else terms))
        mean = sum(inside) / (J - 1)
        uneven = math.sqrt(sum((value - mean) ** 2 for value in inside))
        total += uneven * decay * (1 - decay) ** (T - J - k)
    return total


@pytest.mark.parametrize("centre", ["mean", "median"])
def test_moderate_is_the_distance_to_the_centre_of_the_class(centre):
    features = DRAW.normal(size=(60, 4)).astype(np.float32)
    labels = np.arange(60) % 3 * 2  # a class number may be missing
    found = distances_to_centre(features, labels, centre)
    for sample in range(60):
        own = [features[other].tolist() for other in range(60) if labels[other] == labels[sample]]
        middle = [getattr(statistics, centre)([row[place] for row in own]) for place in range(4)]
        assert found[sample] == pytest.approx(math.dist(features[sample].tolist(), middle), rel=1e-5)


def test_grand_at_mosos_steps_is_the_mean_length_of_the_gradient_over_groups_and_steps():
    parts = [np.array([0, 2, 4]), np.array([1, 3])]
    gradients = DRAW.normal(size=(3, 5, 6))  # steps, samples, parameters; the last two are a group of their own
    terms = []
    for positions in parts:
        steps = []
        for step in range(3):
            own = gradients[step, positions] ** 2
            norms = np.stack([own[:, :4].sum(axis=1), own[:, 4:].sum(axis=1)])
            steps.append(StepTerms(step + 1, (0.1, 0.2), np.zeros_like(norms), norms))
        terms.append(PartitionTerms(9, steps))
    found = find_score("grand-steps")(MemoryInput(5, evidence={"terms": terms}, parts=parts))
    for sample in range(5):
        lengths = [math.sqrt(sum(value**2 for value in gradients[step, sample])) for step in range(3)]
        assert found[sample] == pytest.approx(sum(lengths) / 3, rel=1e-12)


def test_el2n_and_grand_average_initialisations():
    errors, norms = DRAW.random((3, 8)).astype(np.float32), DRAW.random((3, 8))
    given = MemoryInput(8, evidence={"early-errors": errors, "early-norms": norms}, initialisations=3)
    for sample in range(8):
        assert find_score("el2n")(given)[sample] == pytest.approx(sum(errors[:, sample].tolist()) / 3, rel=1e-6)
        assert find_score("grand")(given)[sample] == pytest.approx(sum(norms[:, sample].tolist()) / 3, rel=1e-12)


def test_uncertainty_scores_put_the_undecided_first():
    finals = {"entropy": np.array([0.1, 0.6]), "confidence": np.array([0.9, 0.5]), "gap": np.array([0.85, 0.1])}
    given = MemoryInput(2, evidence={f"final:{name}": values for name, values in finals.items()})
    for name in ("entropy", "least-confidence", "margin"):
        low, high = find_score(name)(given)
        assert low < high
    assert find_score("least-confidence")(given)[1] == pytest.approx(0.5)
    assert find_score("margin")(given)[0] == pytest.approx(-0.85)


@pytest.fixture
def recorded(tmp_path) -> Dynamics:
    """Five epochs of thirty samples, written by the recorder from logits."""
    from torch import nn, tensor

    class Said(nn.Module):
        def forward(self, logits):
            return logits

    labels = np.arange(30) % 3
    columns = ["correct", "kl", "kl_absolute", "margin", "probability"]
    recorder = DynamicsRecorder(tmp_path, columns, labels, epochs=5, classes=3)
    model = Said()
    with recorder.watching(model):
        for epoch in range(5):
            model(tensor(np.random.default_rng(epoch).normal(size=(30, 3))))
            recorder.record(epoch, np.arange(30))
    recorder.finish()
    return Dynamics.open(tmp_path)


def test_scores_read_their_columns(recorded):
    given = MemoryInput(30, labels=np.arange(30) % 3, evidence={"dynamics": recorded})
    logits = np.stack([np.random.default_rng(epoch).normal(size=(30, 3)) for epoch in range(5)])
    labels = np.arange(30) % 3
    for sample in range(30):
        label = labels[sample]
        margins = [z[label] - max(np.delete(z, label)) for z in logits[:, sample]]  # Equation 1 of Pleiss et al.
        assert find_score("aum")(given)[sample] == pytest.approx(sum(margins) / 5, rel=1e-5)  # and Equation 2
        right = [int(np.argmax(z) == label) for z in logits[:, sample]]
        events = sum(a > b for a, b in itertools.pairwise(right)) if any(right) else 5
        assert find_score("forgetting")(given)[sample] == events
    p = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    own = p[:, np.arange(30), labels]
    np.testing.assert_allclose(mean_probability(given, DualSettings(epochs=3)), own[:3].mean(axis=0), rtol=1e-5)
    # Five epochs are shorter than two of the sources' windows, which are then half of them.
    by_hand = {
        "dyn-unc": [dyn_unc_by_hand(own[:, sample].tolist(), 2) for sample in range(30)],
        "dual": [dual_by_hand(own[:, sample].tolist(), 2) for sample in range(30)],
    }
    for name, expected in by_hand.items():
        np.testing.assert_allclose(find_score(name)(given), expected, rtol=1e-5)
    for divergence in ("kl", "absolute"):
        found = find_score("tdds")(given, TddsSettings(divergence=divergence, window=3))
        expected = [tdds_by_hand(p[:, sample], 3, 0.9, divergence == "absolute") for sample in range(30)]
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)


def test_only_the_first_epochs_count_where_the_source_says_so(recorded):
    given = MemoryInput(30, labels=np.arange(30) % 3, evidence={"dynamics": recorded})
    early = recorded.column("probability")[:3].astype(float)
    expected = [dual_by_hand(early[:, sample].tolist(), 2) for sample in range(30)]
    np.testing.assert_allclose(find_score("dual")(given, DualSettings(epochs=3)), expected, rtol=1e-12)


@pytest.mark.parametrize("chunk", [1, 7, 40, 1000])
def test_scores_do_not_depend_on_how_many_samples_are_read_at_a_time(chunk):
    p = column(12)
    np.testing.assert_array_equal(over_samples(p, dynamic_uncertainty, chunk), dynamic_uncertainty(p))


@pytest.mark.parametrize(
    "name", [name for name, score in SCORES.all().items() if score.needs & {"dynamics:probability"}]
)
def test_a_sample_whose_prediction_never_moves_has_the_lowest_uncertainty(name):
    p = column(20)
    p[:, 0] = 0.4
    found = {"dyn-unc": dynamic_uncertainty, "dual": dual}[name](p)
    assert found.argmin() == 0
    assert found[0] == pytest.approx(0, abs=1e-12)
