"""The per-sample loss of each kind of head is the model's own loss of a batch of one."""

import numpy as np
import pytest
import torch
from torch import nn

import moso
from moso.errors import MosoError
from moso.integrations.head_losses import check_own_loss, head_loss

transformers = pytest.importorskip("transformers")

SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 20}
IDS = torch.randint(3, 20, (5, 6), generator=torch.Generator().manual_seed(0))
MASK = torch.ones(5, 6, dtype=torch.long)
MASK[1, 4:] = MASK[3, 2:] = 0
TEXT = {"input_ids": IDS, "attention_mask": MASK}
NEXT = torch.where(MASK.bool(), IDS, -100)
SOME = torch.where(torch.rand(IDS.shape, generator=torch.Generator().manual_seed(1)) < 0.5, IDS, -100)
SOME[:, 0] = IDS[:, 0]


def bert(kind, **options):
    return getattr(transformers, kind)(transformers.BertConfig(max_position_embeddings=12, **SIZES, **options))


def gpt2(kind):
    config = transformers.GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2, n_positions=12, pad_token_id=0)
    return getattr(transformers, kind)(config)


def vit():
    sizes = {name: value for name, value in SIZES.items() if name != "vocab_size"}
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(image_size=8, patch_size=4, num_channels=1, num_labels=3, **sizes)
    )


def t5():
    config = transformers.T5Config(
        vocab_size=20, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, decoder_start_token_id=0
    )
    return transformers.T5ForConditionalGeneration(config)


CLASSES = torch.tensor([0, 2, 1, 0, 1])
HEADS = {
    "classes": lambda: (bert("BertForSequenceClassification", num_labels=3), {**TEXT, "labels": CLASSES}),
    "images": lambda: (vit(), {"pixel_values": torch.randn(5, 1, 8, 8), "labels": CLASSES}),
    "one number": lambda: (bert("BertForSequenceClassification", num_labels=1), {**TEXT, "labels": torch.randn(5)}),
    "numbers": lambda: (
        bert("BertForSequenceClassification", num_labels=2, problem_type="regression"),
        {**TEXT, "labels": torch.randn(5, 2)},
    ),
    "several labels": lambda: (
        bert("BertForSequenceClassification", num_labels=3),
        {**TEXT, "labels": torch.tensor([[1.0, 0, 1]] * 5)},
    ),
    "tokens": lambda: (bert("BertForTokenClassification", num_labels=20), {**TEXT, "labels": SOME}),
    "masked words": lambda: (bert("BertForMaskedLM"), {**TEXT, "labels": SOME}),
    "next words": lambda: (gpt2("GPT2LMHeadModel"), {**TEXT, "labels": NEXT}),
    "sequence to sequence": lambda: (t5(), {**TEXT, "labels": SOME}),
    "answers": lambda: (
        bert("BertForQuestionAnswering"),
        {**TEXT, "start_positions": CLASSES, "end_positions": torch.tensor([3, 5, 2, 1, 4])},
    ),
}


@pytest.mark.parametrize("head", HEADS)
def test_the_loss_of_one_sample_is_the_models_own(head):
    torch.manual_seed(0)
    model, batch = HEADS[head]()
    model.eval()
    losses = head_loss(model, batch)
    assert losses.shape == (5,)
    each = [model(**{name: value[number : number + 1] for name, value in batch.items()}).loss for number in range(5)]
    torch.testing.assert_close(losses, torch.stack(each))


@pytest.mark.parametrize("head", ["classes", "next words", "tokens", "images"])
def test_scores_by_a_head_are_those_of_single_gradients(head):
    torch.manual_seed(0)
    model, batch = HEADS[head]()
    model = model.double().eval()
    batch = {name: value.double() if value.is_floating_point() else value for name, value in batch.items()}
    items = [{name: value[number] for name, value in batch.items()} for number in range(5)]
    found = moso.score(model, items, [(model.state_dict(), 0.1)], loss=head_loss, total_steps=7)
    rows = []
    for number in range(5):
        loss = model(**{name: value[number : number + 1] for name, value in batch.items()}).loss
        gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        rows.append(torch.cat([one.flatten() for one in gradients if one is not None]))
    gradients = torch.stack(rows)
    expected = 7 / 5 * 0.1 * (5 * gradients @ gradients.mean(0) - gradients.square().sum(1)) / 4
    # Logits of positions go through float32 in transformers' own losses, and so here.
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-6 * expected.abs().max().item())


def test_a_sample_without_a_labelled_position_has_no_loss():
    model = bert("BertForTokenClassification", num_labels=20)
    assert head_loss(model, {**TEXT, "labels": torch.full_like(IDS, -100)}).tolist() == [0] * 5


class Returning(nn.Module):
    def __init__(self, output):
        super().__init__()
        self.output = output

    def forward(self, **inputs):
        return self.output


@pytest.mark.parametrize(
    ("output", "batch", "code"),
    [
        ({"logits": torch.zeros(2, 3)}, {"inputs": torch.zeros(2)}, "labels-missing"),
        (torch.zeros(2, 3), {"labels": torch.zeros(2)}, "loss-invalid"),
        ({"last_hidden_state": torch.zeros(2, 3)}, {"labels": torch.zeros(2)}, "loss-invalid"),
        ({"logits": torch.zeros(2, 3, 4, 4)}, {"labels": torch.zeros(2, 4, 4).long()}, "loss-invalid"),
    ],
)
def test_what_no_loss_is_known_for_is_refused(output, batch, code):
    with pytest.raises(MosoError) as caught:
        head_loss(Returning(output), batch)
    assert caught.value.code == code


def test_answers_behind_a_truncated_text_have_no_loss():
    model = bert("BertForQuestionAnswering").eval()
    starts = nn.functional.cross_entropy(model(**TEXT).start_logits, CLASSES, reduction="none")
    batch = {**TEXT, "start_positions": CLASSES, "end_positions": torch.full((5,), 9)}
    torch.testing.assert_close(head_loss(model, batch), starts / 2)


class OtherLoss(nn.Module):
    def forward(self, inputs, labels):
        return {"loss": 2 * nn.functional.cross_entropy(inputs, labels), "logits": inputs}


def test_a_model_that_returns_another_loss_is_noticed():
    one = {"inputs": torch.randn(1, 3), "labels": torch.tensor([1])}
    with pytest.raises(MosoError) as caught:
        check_own_loss(OtherLoss(), one)
    assert caught.value.code == "loss-invalid"
    check_own_loss(Returning({"logits": torch.zeros(1, 3)}), one)  # without a loss there is nothing to compare
    model, batch = HEADS["next words"]()
    model.train()
    check_own_loss(model, {name: value[:1] for name, value in batch.items()})
    assert model.training
