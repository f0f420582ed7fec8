"""Doubt of texts from neighbours, against a slow restatement of the formula."""

import math
from collections import Counter

import numpy as np
import pytest

from moso.evaluation import text_doubt as module
from moso.evaluation.text_doubt import text_doubt
from moso.selection.feature_rows import Features


def slow(rows, texts, count):
    """The module's formula, pair by pair."""
    found_in = Counter(word for text in texts for word in set(text))
    bags = []
    for text in texts:
        bag = {word: math.log(len(texts) / found_in[word]) for word in set(text)}
        length = math.sqrt(sum(value**2 for value in bag.values()))
        bags.append({word: value / length for word, value in bag.items()} if length else {})

    def shared(one, other):
        return sum(value * bags[other].get(word, 0.0) for word, value in bags[one].items())

    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = unit @ unit.T
    doubt = []
    for one in range(len(texts)):
        others = [other for other in np.argsort(-cosines[one]) if other != one][:count]
        weights = np.exp(cosines[one, others] / 0.1)
        near = sum(weight * shared(one, other) for weight, other in zip(weights, others, strict=True)) / weights.sum()
        doubt.append(np.mean([shared(one, other) for other in range(len(texts))]) - near)
    return np.array(doubt)


@pytest.mark.parametrize("count", [1, 3, 8])
@pytest.mark.parametrize("block", [4, 4_096])
def test_doubt_is_that_of_the_formula(count, block, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", block)
    draw = np.random.default_rng(0)
    rows = draw.normal(0, 1, (30, 5)).astype(np.float32)
    texts = [["a", *draw.choice(["red", "blue", "cat", "dog", "tree"], draw.integers(0, 4))] for _ in range(30)]
    np.testing.assert_allclose(text_doubt(Features(rows), texts, count), slow(rows, texts, count), atol=1e-6)


def test_swapped_texts_are_doubted_more():
    draw = np.random.default_rng(1)
    centres, kind = draw.normal(0, 1, (4, 8)), np.arange(200) % 4
    rows = (centres[kind] + draw.normal(0, 0.5, (200, 8))).astype(np.float32)
    names = ["cat", "dog", "tree", "car"]
    swapped = draw.permutation(200) < 40
    texts = [["one", names[(one + wrong) % 4]] for one, wrong in zip(kind, swapped, strict=True)]
    doubt = text_doubt(Features(rows), texts)
    assert np.median(doubt[swapped]) > doubt[~swapped].max()


def test_words_that_all_texts_have_say_nothing():
    rows = Features(np.random.default_rng(0).normal(0, 1, (8, 3)).astype(np.float32))
    assert text_doubt(rows, [["a", "photo"]] * 8, 2).tolist() == [0.0] * 8
    assert text_doubt(rows, [[], *[["a", "cat"]] * 7], 2)[0] == 0.0
