"""Tiny models of transformers in folders, from configurations: no weights are fetched from anywhere."""

import json

import torch

from moso.models.compat import import_transformers

VOCABULARY, LENGTH = 40, 12
CONFIGS = {
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": LENGTH, "bos_token_id": 1, "eos_token_id": 1},
    "llama": {
        "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "max_position_embeddings": LENGTH, "bos_token_id": 1, "eos_token_id": 1,
    },
    "bert": {
        "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
        "max_position_embeddings": LENGTH, "pad_token_id": 0,
    },
    "roberta": {
        "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
        "max_position_embeddings": LENGTH + 2, "pad_token_id": 1,
    },
}  # fmt: skip


def written_config(folder, kind, **changes):
    """Write the configuration of a tiny model; return the name of its network."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": kind, "vocab_size": VOCABULARY, **CONFIGS[kind], **changes}
    (folder / "config.json").write_text(json.dumps(config))
    return f"hf:{folder}"


def written_tokenizer(
    folder, words=("who", "was", "he", "where", "is", "it", "?", "user", "assistant", ":"), **special
):
    """Write a tokenizer of whole words into a folder, with a mask, a beginning and an end."""
    import_transformers()
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = ["<unk>", "<s>", "</s>", "<mask>", *words]
    inner = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    known = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>", **special}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, **known)
    tokenizer.save_pretrained(folder)
    return tokenizer


def rows(count, seed=0, shortest=4):
    """Token ids of random lengths, as a batch padded with -1, and labels without the padding and the first tokens."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, VOCABULARY, (count, LENGTH), generator=generator)
    lengths = torch.randint(shortest, LENGTH + 1, (count,), generator=generator)
    lengths[0] = LENGTH
    outside = torch.arange(LENGTH)[None] >= lengths[:, None]
    labels = ids.masked_fill(outside, -100)
    labels[:, :2] = -100
    return ids.masked_fill(outside, -1), labels
