"""Laws of samples of language models: layouts, masked prompts, padding, truncation, no packing, addressed masks."""

import json

import numpy as np
import pytest

import moso
from moso.data.dataset import open_dataset
from moso.data.sequences import Document, Limits, TokenSettings, WordCoder
from moso.data.tokenizer import START, Tokenizer
from moso.models.transformers_tokenizer import TransformersCoder
from moso.tasks import IGNORED
from refusals import refusal
from tests.models.small_language_models import VOCABULARY, written_tokenizer

QUESTIONS = ["who was he ?", "where is it ?", "who is it ?", "where was he ?"] * 3


def written(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return f"text:{path}"


def opened(path, records, task="causal-lm", **settings):
    return open_dataset(written(path, records), task=task, test_share=0.25, **settings)


def row(samples, position):
    """Token ids and labels of a sample, without padding."""
    ids = samples.reader.ids[position]
    length = int((ids != samples.reader.padding).sum())
    return ids[:length].tolist(), samples.targets[position][:length].tolist()


def test_all_of_a_text_is_predicted_but_its_beginning(tmp_path):
    train = opened(tmp_path / "a.jsonl", [{"text": text} for text in QUESTIONS]).train
    ids, labels = row(train, 0)
    assert ids[0] == ids[-1] == START
    assert labels == [IGNORED, *ids[1:]]
    assert train.task.name == "causal-lm"
    assert train.task.outputs == (train.shape[0], train.vocabulary)


@pytest.mark.parametrize("layout", ["prompt", "messages"])
def test_prompts_have_no_labels_and_answers_have_all(tmp_path, layout):
    records = [{"prompt": text, "completion": " it was"} for text in QUESTIONS]
    if layout == "messages":
        said = [[("user", text), ("assistant", "it was")] for text in QUESTIONS]
        records = [{"messages": [{"role": role, "content": text} for role, text in own]} for own in said]
    train = opened(tmp_path / "a.jsonl", records).train
    coder = train.reader.coder
    for position in range(len(train)):
        ids, labels = row(train, position)
        assert coder.words(ids)[-3:] == ["it", "was", "<|>"]
        assert labels == [IGNORED] * (len(ids) - 3) + ids[-3:]


def test_several_answers_of_a_chat_are_all_predicted():
    chat = Document(messages=(("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "b c")))
    coder = WordCoder(Tokenizer.fit(["a b c user assistant :"] * 2))
    ids, predicted = coder.coded(chat)
    said = [word for word, known in zip(coder.words(ids), predicted, strict=True) if known]
    assert said == ["b", "b", "c", "<|>"]


def test_a_chat_template_says_what_is_prompt(tmp_path):
    template = (
        "{% for message in messages %}{{ message.role + ' : ' + message.content + ' ' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'assistant : ' }}{% endif %}"
    )
    tokenizer = written_tokenizer(tmp_path, chat_template=template)
    coder = TransformersCoder(tokenizer, VOCABULARY)
    ids, predicted = coder.coded(Document(messages=(("user", "who was he ?"), ("assistant", "it was he"))))
    assert [word.strip() for word in coder.words(ids)] == [
        "user",
        ":",
        "who",
        "was",
        "he",
        "?",
        "assistant",
        ":",
        "it",
        "was",
        "he",
    ]
    assert predicted == [False] * 8 + [True] * 3


def test_a_template_that_rewrites_earlier_messages_is_refused(tmp_path):
    template = "{% for message in messages %}{{ loop.revindex ~ message.content }}{% endfor %}"
    coder = TransformersCoder(written_tokenizer(tmp_path, chat_template=template), VOCABULARY)
    with refusal("model-unsuitable", "prompt"):
        coder.coded(Document(messages=(("user", "who"), ("assistant", "he"))))


def test_pieces_are_tokenised_by_themselves(tmp_path):
    coder = TransformersCoder(written_tokenizer(tmp_path), VOCABULARY)
    ids, predicted = coder.coded(Document((("who", False), ("was", True))))
    assert coder.words(ids) == ["<s>", "who", "was", "</s>"]  # and not "whowas"
    assert predicted == [False, False, True, True]


def test_samples_are_rows_of_their_own_and_batches_as_long_as_their_longest(tmp_path):
    texts = ["who was he ?", "it", "who is it ? where was he ? it is"] * 4
    train = opened(tmp_path / "a.jsonl", [{"text": text} for text in texts]).train
    view = train.evaluation_view()
    lengths = (train.reader.ids != train.reader.padding).sum(1)
    for chosen in ([0], [0, 1], np.arange(len(train)).tolist()):
        inputs, labels = view.batch(np.array(chosen))
        assert inputs.shape == (len(chosen), lengths[chosen].max())
        assert len(labels) == len(chosen)


def test_what_is_too_long_loses_its_end(tmp_path):
    records = [{"text": text} for text in QUESTIONS]
    whole = opened(tmp_path / "a.jsonl", records).train
    with pytest.warns(UserWarning, match="longer than 4 tokens"):
        cut = opened(tmp_path / "a.jsonl", records, tokens=TokenSettings(most=4)).train
    assert cut.shape == (4,)
    assert (cut.reader.ids == whole.reader.ids[:, :4]).all()


def test_a_sample_without_a_predicted_token_is_refused_by_its_id(tmp_path):
    records = [{"prompt": "who", "completion": " it"} for _ in range(12)]
    records[7] = {"prompt": "who is it ? " * 5, "completion": " it"}
    with pytest.warns(UserWarning, match="longer"), refusal("data-empty", "sample 7", "max_tokens"):
        opened(tmp_path / "a.jsonl", records, tokens=TokenSettings(most=6))


def test_masks_are_addressed_by_sample_and_do_not_depend_on_the_order(tmp_path):
    texts = [f"who was he ? it is {number}" for number in range(12)]
    found = {}
    for name, order in (("one", range(12)), ("again", range(12)), ("reversed", range(11, -1, -1))):
        data = moso.SequenceData([texts[number] for number in order], task="masked-lm")
        found[name] = [data[position] for position in range(12)]
    assert all(
        one["input_ids"].equal(other["input_ids"]) for one, other in zip(found["one"], found["again"], strict=True)
    )
    masks = [(one["labels"] != IGNORED).tolist() for one in found["one"]]
    # Ids are rows, so the mask of row 0 is the same whatever text is there.
    assert masks == [(one["labels"] != IGNORED).tolist() for one in found["reversed"]]
    assert all(sum(mask) >= 1 for mask in masks)
    assert len({tuple(mask) for mask in masks}) > 1


def test_masked_positions_show_the_mask_and_the_label_the_token(tmp_path):
    data = moso.SequenceData(["who was he ? it is here"] * 6, task="masked-lm")
    plain = moso.SequenceData(["who was he ? it is here"] * 6, data.coder)
    for position in range(len(data)):
        ids, labels = data[position]["input_ids"], data[position]["labels"]
        hidden = labels != IGNORED
        assert (ids[hidden] == data.coder.mask).all()
        assert labels[hidden].equal(plain[position]["input_ids"][hidden])
        assert ids[~hidden].equal(plain[position]["input_ids"][~hidden])


def test_a_tokenizer_without_a_mask_is_refused(tmp_path):
    tokenizer = written_tokenizer(tmp_path)
    tokenizer.mask_token = None
    with refusal("model-unsuitable", "mask"):
        moso.SequenceData(["who was he ?"] * 3, tokenizer, task="masked-lm")


@pytest.mark.parametrize(
    ("record", "code", "named"),
    [
        ({"text": " "}, "data-empty", "text"),
        ({"text": 3}, "column-type", "text"),
        ({"other": "a"}, "column-missing", "messages"),
        ({"prompt": "a"}, "column-missing", "completion"),
        ({"prompt": "a", "completion": ""}, "data-empty", "completion"),
        ({"text": "a", "messages": []}, "data-ambiguous", "messages"),
        ({"messages": []}, "column-type", "messages"),
        ({"messages": [{"role": "user"}]}, "column-type", "messages"),
        ({"messages": [{"role": "user", "content": "a"}]}, "data-empty", "assistant"),
    ],
)
def test_records_that_cannot_be_read_are_refused_with_their_place(tmp_path, record, code, named):
    with refusal(code, named):
        opened(tmp_path / "a.jsonl", [record])


def test_language_models_want_texts():
    for task in ("causal-lm", "masked-lm"):
        with refusal("settings-conflict", "text:FILE"):
            open_dataset("digits", task=task)


def test_labels_are_not_for_language_models(tmp_path):
    place = written(tmp_path / "a.jsonl", [{"text": text, "label": 1} for text in QUESTIONS])
    with refusal("settings-conflict"):
        open_dataset(f"{place}?label=label", task="causal-lm")
    assert len(open_dataset(place, task="causal-lm").train.classes) == 0


def test_limits_of_a_network_are_held():
    texts = ["a b c d e f"] * 2
    with refusal("model-unsuitable", 4):
        TokenSettings(limits=Limits(vocabulary=4)).coder_for(texts)
    with refusal("setting-invalid", 9, 8):
        moso_data = TokenSettings(None, 9, Limits(vocabulary=40, longest=8))
        from moso.data.sequences.token_coding import length_for

        length_for([3], moso_data.coder_for(texts), 9)


def test_the_built_in_tokenizer_of_other_data_gives_the_same_ids():
    data = moso.SequenceData(["who was he ?"] * 3 + ["where is it ?"] * 3)
    other = moso.SequenceData(["where was he ?", "is it he ?"], data.coder)
    assert other.words(0) == ["<|>", "where", "was", "he", "?", "<|>"]
    assert other.vocabulary == data.vocabulary


def test_wrong_uses_of_sequence_data_are_refused():
    with refusal("data-empty"):
        moso.SequenceData([])
    with refusal("setting-invalid", "causal-lm"):
        moso.SequenceData(["a"], task="regression")
    with refusal("wrong-type", "int"):
        moso.SequenceData(["a", 3])
    with refusal("wrong-type", "object"):
        moso.SequenceData(["a"], object())
