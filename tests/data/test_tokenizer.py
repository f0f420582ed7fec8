"""The tokenizer's laws, and texts as inputs."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moso.data.tokenizer import LONGEST, PADDING, SPECIAL, START, UNKNOWN, TextReader, Tokenizer, tokens

TEXTS = st.lists(st.text(alphabet="ab ?!É", min_size=1, max_size=12), min_size=1, max_size=8)


@given(TEXTS, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_vocabulary_does_not_depend_on_the_order_of_rows(texts, random):
    shuffled = random.sample(texts, len(texts))
    assert Tokenizer.fit(texts) == Tokenizer.fit(shuffled)


@given(TEXTS)
@settings(max_examples=60, deadline=None)
def test_ids_are_those_of_a_slow_restatement(texts):
    tokenizer = Tokenizer.fit(texts)
    words = [word for text in texts for word in tokens(text)]
    known = [word for word in sorted(set(words), key=lambda word: (-words.count(word), word)) if words.count(word) > 1]
    ids = tokenizer.encode(texts)
    assert ids.shape == (len(texts), tokenizer.length)
    assert ids.dtype == np.int64
    for text, row in zip(texts, ids, strict=True):
        expected = [START] + [SPECIAL + known.index(w) if w in known else UNKNOWN for w in tokens(text)]
        expected = (expected + [PADDING] * tokenizer.length)[: tokenizer.length]
        assert row.tolist() == expected


def test_words_of_the_test_are_unknown():
    tokenizer = Tokenizer.fit(["red red blue", "blue green"])
    assert tokenizer.encode(["red violet green"]).tolist() == [[START, SPECIAL + 1, UNKNOWN, UNKNOWN]]
    assert tokenizer.vocabulary == SPECIAL + 2


def test_the_length_covers_nearly_all_training_texts_and_longer_ones_are_cut():
    texts = ["a b"] * 199 + ["a " * 50]
    tokenizer = Tokenizer.fit(texts)
    assert tokenizer.length == 3
    assert tokenizer.encode(["b a b a b"]).tolist() == [[START, 4, 3]]
    with pytest.warns(UserWarning, match=f"1 of 2 texts are longer than {LONGEST} tokens"):
        assert Tokenizer.fit(["a " * 1000, "b"]).length == LONGEST


def test_a_reader_of_texts_takes_subsets_and_knows_its_content():
    texts = pa.array(["one two", "two two one", "three"], pa.large_string())
    reader = TextReader(texts).tokenised(Tokenizer.fit(texts.to_pylist()))
    part = reader.take(np.array([2, 0]))
    np.testing.assert_array_equal(part.read(np.array([0, 1])), reader.read(np.array([2, 0])))
    assert part.text(1) == "one two"
    assert part.picture(0) is None
    assert reader.fingerprint() == TextReader(texts).fingerprint()
    assert reader.fingerprint() != part.fingerprint()
    # Where one text ends and the next begins is part of the content.
    assert TextReader(pa.array(["ab", "c"])).fingerprint() != TextReader(pa.array(["a", "bc"])).fingerprint()
