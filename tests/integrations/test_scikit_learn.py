"""`MosoSelector` among scikit-learn's estimators: its own checks, pipelines, and every kind of answer.

Of scikit-learn's checks, those for predictors and transformers find nothing to call (the selector has neither `predict`
nor `transform`), and the one for array-API inputs needs SCIPY_ARRAY_API in the environment.
"""

import pickle
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import moso
from moso.errors import MosoError

quick = partial(moso.MosoSelector, epochs=1, time_steps=1, random_state=0)


@parametrize_with_checks([quick()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_the_selection_is_that_of_prune():
    X, y = load_iris(return_X_y=True)
    selector = moso.MosoSelector(0.4, epochs=3, time_steps=3, random_state=7).fit(X, y)
    pruned = moso.prune(
        (X.astype(np.float32), y), ratio=0.4, epochs=3, time_steps=3, seed=7, partitions=1, progress=False
    )
    np.testing.assert_array_equal(selector.sample_indices_, pruned.kept)
    np.testing.assert_array_equal(selector.scores_, pruned.scores)
    assert np.bincount(y[selector.sample_indices_]).tolist() == [30, 30, 30]


def test_frames_keep_their_kind_and_labels_may_be_words():
    pandas = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True, as_frame=True)
    words = pandas.Series(np.array(["setosa", "versicolor", "virginica"])[y], index=X.index[::-1])
    X_kept, y_kept = quick(keep=60).fit_resample(X, words)
    assert X_kept.columns.tolist() == X.columns.tolist()
    selector = quick(keep=60).fit(X, words)
    assert selector.feature_names_in_.tolist() == X.columns.tolist()
    pandas.testing.assert_frame_equal(X_kept, X.iloc[selector.sample_indices_])
    pandas.testing.assert_series_equal(y_kept, words.iloc[selector.sample_indices_])
    np.testing.assert_array_equal(selector.sample_indices_, quick(keep=60).fit(X, y).sample_indices_)
    rows, _ = quick(keep=0.5).fit_resample(X.to_numpy().tolist(), y.tolist())
    assert isinstance(rows, list)
    assert len(rows) == 75


def test_numbers_to_predict_are_standardised():
    X, y = load_diabetes(return_X_y=True)
    fractions = quick(0.5, method="moso").fit(X, y + 0.25).scores_
    np.testing.assert_allclose(quick(0.5, method="moso").fit(X, 1000 * y - 17).scores_, fractions, rtol=1e-3)
    # Whole numbers are classes for scikit-learn, here only those of a whole type.
    whole = quick(0.5, method="moso", task="regression").fit(X, y.astype(int)).scores_
    np.testing.assert_allclose(whole, fractions, rtol=1e-3)
    named = moso.prune(
        (X.astype(np.float32), ((y - y.mean()) / y.std()).astype(np.float32)),
        ratio=0.5, method="moso", loss=moso.squared_error, epochs=1, time_steps=1, seed=0, partitions=1, progress=False,
    )  # fmt: skip
    np.testing.assert_allclose(named.scores, fractions, rtol=1e-3)


def test_a_column_of_answers_is_taken_with_a_warning_as_everywhere_in_scikit_learn():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(DataConversionWarning):
        found = quick(0.5).fit(X, y[:, None]).scores_
    np.testing.assert_array_equal(found, quick(0.5).fit(X, y).scores_)


def test_several_labels_and_several_numbers_per_row():
    X = load_iris().data
    marks = (np.median(X, axis=0) < X).astype(int)
    assert len(quick(0.2).fit(X, marks).sample_indices_) == 120
    assert len(quick(0.2).fit(X, X[:, :2] + 0.123).sample_indices_) == 120


def test_pictures_are_taken_as_they_are():
    digits = load_digits()
    images = digits.images[:100, None].astype(np.float32)
    selector = quick(0.5, model="convnet").fit(images, digits.target[:100])
    assert len(selector.sample_indices_) == 50


def test_random_states_are_those_of_scikit_learn():
    X, y = load_iris(return_X_y=True)
    fixed = [quick(0.5, random_state=np.random.RandomState(3)).fit(X, y).scores_ for _ in range(2)]
    np.testing.assert_array_equal(*fixed)
    shared = np.random.RandomState(3)
    first, second = (quick(0.5, random_state=shared).fit(X, y).scores_ for _ in range(2))
    assert not np.array_equal(first, second)


def test_parameters_travel_through_clones_and_settings():
    config = moso.PruneConfig(learning_rate=0.01, batch_size=16)
    selector = quick(0.5, config=config).set_params(method="moso", selector="top")
    again = clone(selector)
    assert again.get_params() == selector.get_params()
    X, y = load_iris(return_X_y=True)
    np.testing.assert_array_equal(again.fit(X, y).scores_, selector.fit(X, y).scores_)
    restored = pickle.loads(pickle.dumps(selector))  # noqa: S301
    np.testing.assert_array_equal(restored.sample_indices_, selector.sample_indices_)
    other = clone(selector).set_params(config=None).fit(X, y)
    assert not np.array_equal(other.scores_, selector.scores_)


@pytest.mark.parametrize(
    ("selector", "code"),
    [
        (quick(1.2), "ratio-out-of-range"),
        (quick(0.3, keep=20), "settings-conflict"),
        (quick(method="mosso"), "unknown-name"),
        (quick(task="classes"), "unknown-name"),
    ],
)
def test_wrong_settings_are_moso_errors_at_fit(selector, code):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(MosoError) as caught:
        selector.fit(X, y)
    assert caught.value.code == code


def test_a_step_of_imbalanced_learns_pipeline():
    pipelines = pytest.importorskip("imblearn.pipeline")
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    selector = moso.MosoSelector(0.5, epochs=5, time_steps=3, random_state=0)
    pipeline = pipelines.make_pipeline(StandardScaler(), selector, LogisticRegression(max_iter=500))
    pipeline.fit(X[:200], y[:200])
    kept = pipeline.named_steps["mososelector"].sample_indices_
    by_hand = LogisticRegression(max_iter=500)
    scaled = StandardScaler().fit(X[:200])
    by_hand.fit(scaled.transform(X[:200])[kept], y[:200][kept])
    np.testing.assert_array_equal(pipeline.predict(X[200:]), by_hand.predict(scaled.transform(X[200:])))
    assert len(kept) == 100
