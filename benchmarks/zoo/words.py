"""Transformers of words: decoders and encoders of transformers, adapters of peft, and torch's own encoder."""

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.zoo.adapters import adapt
from benchmarks.zoo.problem import Network
from moso.models.compat import import_transformers

WORDS, WIDTH, LENGTH, CLASSES, HEADS = 200, 96, 24, 6, 4
MASKED = -100
ADAPTED = ("q_proj", "v_proj", "o_proj")


def gpt2() -> nn.Module:
    """GPT-2 of transformers, whose layers are `Conv1D` (`torch.addmm`) and whose embeddings are tied."""
    transformers = import_transformers()
    settings = transformers.GPT2Config(
        vocab_size=WORDS,
        n_positions=LENGTH,
        n_embd=WIDTH,
        n_layer=2,
        n_head=HEADS,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    network: nn.Module = transformers.GPT2LMHeadModel(settings)
    return network


def llama() -> nn.Module:
    """Llama of transformers, two heads of keys and values for four of queries."""
    transformers = import_transformers()
    settings = transformers.LlamaConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        max_position_embeddings=LENGTH,
        use_cache=False,
    )
    network: nn.Module = transformers.LlamaForCausalLM(settings)
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if type(child).__name__ == "LlamaRMSNorm":
                setattr(parent, name, RootMeanSquare())
    return network


class RootMeanSquare(nn.Module):
    """Llama's norm in the precision of its input; that of transformers computes in float32 whatever it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """`[batch, length, width]` to the same."""
        return self.weight * (inputs * torch.rsqrt(inputs.pow(2).mean(-1, keepdim=True) + 1e-6))


def adapted(dora: bool) -> Callable[[], nn.Module]:
    """A maker of the same Llama, frozen, with adapters on its attention: peft's where it is installed."""

    def build() -> nn.Module:
        network = llama()
        if find_spec("peft") is None:
            return adapt(network, ADAPTED, dora=dora)
        import peft

        settings = peft.LoraConfig(r=4, lora_alpha=8, target_modules=list(ADAPTED), lora_dropout=0.0, use_dora=dora)
        with warnings.catch_warnings():
            # peft asks transformers 5.23 and later by the name that transformers is about to drop.
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
            wrapped: nn.Module = peft.get_peft_model(network, settings)
        return wrapped

    return build


def next_word_loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Cross-entropy of all next words, averaged over a sample, `[batch]`."""
    words = batch["input_ids"]
    logits = model(input_ids=words).logits[:, :-1]
    return F.cross_entropy(logits.transpose(1, 2), words[:, 1:], reduction="none").mean(1)


def padded_loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """The same over words that are not padding; transformers looks at the mask's values, which vmap cannot."""
    words, mask = batch["input_ids"], batch["attention_mask"]
    logits = model(input_ids=words, attention_mask=mask).logits[:, :-1]
    targets = words[:, 1:].masked_fill(mask[:, 1:] == 0, MASKED)
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none", ignore_index=MASKED)
    return losses.sum(1) / mask[:, 1:].sum(1)


def bert() -> nn.Module:
    """BERT of transformers that classifies sequences."""
    transformers = import_transformers()
    settings = transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        intermediate_size=2 * WIDTH,
        max_position_embeddings=LENGTH,
        num_labels=CLASSES,
    )
    network: nn.Module = transformers.BertForSequenceClassification(settings)
    return network


def text_loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Cross-entropy `[batch]` of a classifier of sequences."""
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    return F.cross_entropy(logits, batch["labels"], reduction="none")


class Encoder(nn.Module):
    """`nn.TransformerEncoder` behind a learned position that is broadcast over samples, in either order."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.words = nn.Embedding(WORDS, WIDTH)
        self.position = nn.Parameter(torch.randn(*((1, LENGTH) if batch_first else (LENGTH, 1)), WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 2 * WIDTH, dropout=0.0, activation=F.gelu, batch_first=batch_first
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """`[batch, length]` to logits `[batch, classes]`."""
        hidden = self.words(words if self.batch_first else words.t()) + self.position
        logits: torch.Tensor = self.head(self.layers(hidden).mean(1 if self.batch_first else 0))
        return logits


def encoder_loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Cross-entropy `[batch]`."""
    return F.cross_entropy(model(batch["input_ids"]), batch["labels"], reduction="none")


def texts(count: int) -> list[Any]:
    """24 words each, as pretraining cuts them from a long text."""
    return [{"input_ids": words} for words in torch.randint(0, WORDS, (count, LENGTH))]


def sentences(count: int) -> list[Any]:
    """6 to 24 words, padded at their end, with a mask and a label."""
    words, labels = torch.randint(1, WORDS, (count, LENGTH)), torch.randint(0, CLASSES, (count,))
    mask = (torch.arange(LENGTH) < torch.randint(6, LENGTH + 1, (count, 1))).long()
    words = words * mask
    return [
        {"input_ids": words[place], "attention_mask": mask[place], "labels": labels[place]} for place in range(count)
    ]


NETWORKS = {
    "gpt2": Network("GPT-2 of transformers", gpt2, texts, next_word_loss),
    "gpt2-padded": Network("GPT-2 of transformers, padded", gpt2, sentences, padded_loss),
    "llama": Network("Llama of transformers, grouped queries", llama, texts, next_word_loss),
    "llama-lora": Network("Llama with LoRA", adapted(False), texts, next_word_loss),
    "llama-dora": Network("Llama with DoRA", adapted(True), texts, next_word_loss),
    "bert": Network("BERT of transformers", bert, sentences, text_loss),
    "encoder": Network("TransformerEncoder, batch first", lambda: Encoder(True), sentences, encoder_loss),
    "encoder-sequence-first": Network(
        "TransformerEncoder, sequence first", lambda: Encoder(False), sentences, encoder_loss
    ),
}
