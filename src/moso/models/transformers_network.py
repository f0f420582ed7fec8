"""Models of transformers as networks of token ids: `[batch, length]` in, logits out; -1 is padding.

Padding is at the end. A causal network does not look ahead, so no predicted token sees it and no mask is needed; other
networks get a mask. Position ids are given per sample, because a row of positions that a batch shares has no per-sample
gradient; networks that number positions in another way (RoBERTa) do it themselves.
"""

import inspect
from typing import Any, Literal

import torch
from torch import Tensor, nn

from moso import errors
from moso.models.transformers_folder import find_folder, loaded_model, positions_of, read_config

# What stands for padding in inputs of these networks, whatever their tokenizer: no token has this id.
NO_TOKEN = -1
Head = Literal["causal-lm", "masked-lm", "classification", "regression", "multi-label"]
_KINDS = {"causal-lm": "AutoModelForCausalLM", "masked-lm": "AutoModelForMaskedLM"}


class TransformersNetwork(nn.Module):
    """A model of transformers whose only input is token ids.

    Args:
        network: The model, with a head for language modelling or classification.
        causal: Whether it predicts the next token, so that it does not look ahead.

    Raises:
        ModelUnsuitable: The model is to be causal, and a later token changes an earlier prediction.
    """

    def __init__(self, network: nn.Module, causal: bool) -> None:
        super().__init__()
        self.network, self.causal = network, causal
        taken = inspect.signature(network.forward).parameters
        self._switches = {"use_cache": False} if "use_cache" in taken else {}
        self._numbers, self._wide_mask = False, False
        with torch.no_grad():
            self._numbers = "position_ids" in taken and self._same(_numbers=True)
            self._wide_mask = not causal and self._same(_wide_mask=True)
            if causal and self._looks_ahead():
                raise errors.ModelUnsuitable(
                    f"{type(network).__name__} looks ahead: a later token changes an earlier prediction, so its loss "
                    "would be that of copying; use task 'masked-lm', or a decoder (is_decoder in config.json)"
                )

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits of token ids `[batch, length]`: `[batch, length, vocabulary]`, or `[batch, classes]`."""
        given: dict[str, Any] = {"input_ids": tokens.clamp(min=0), **self._switches}
        if self._numbers:
            given["position_ids"] = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        if not self.causal:
            there = tokens != NO_TOKEN
            # Attention needs this shape; of a flat mask, transformers would look at the values to make it.
            given["attention_mask"] = there[:, None, None, :] if self._wide_mask else there.long()
            fill = getattr(self.network.config, "pad_token_id", None)
            if fill is not None:
                given["input_ids"] = torch.where(there, tokens, fill)
        logits: Tensor = self.network(**given).logits
        return logits

    def _probed(self, tokens: Tensor) -> Tensor | None:
        was = self.training
        self.eval()
        try:
            logits: Tensor = self(tokens)
            return logits
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
            return None  # this way of calling the model is not one of its own
        finally:
            self.train(was)

    def _same(self, **trial: bool) -> bool:
        """Return whether another way of calling the model gives the same outputs; keep the present way meanwhile."""
        tokens = torch.tensor([[1, 2, 3, NO_TOKEN], [3, 2, 1, 1]])
        expected = self._probed(tokens)
        before = {name: getattr(self, name) for name in trial}
        vars(self).update(trial)
        found = self._probed(tokens)
        vars(self).update(before)
        if found is None or expected is None:
            return expected is None and found is not None
        seen = (tokens != NO_TOKEN) if found.ndim == 3 else torch.ones(2, dtype=torch.bool)
        return bool(torch.allclose(expected[seen].float(), found[seen].float(), rtol=1e-4, atol=1e-5))

    def _looks_ahead(self) -> bool:
        one, other = (self._probed(torch.tensor([[1, 2, 3, last]])) for last in (1, 2))
        return one is not None and other is not None and not torch.equal(one[:, :3], other[:, :3])


def transformers_network(
    name: str, task: str, input_shape: tuple[int, ...], outputs: int, vocabulary: int | None
) -> TransformersNetwork:
    """Return the network called `hf:PLACE`, with a head for the task.

    Args:
        name: `hf:PLACE`.
        task: Name of the task.
        input_shape: `(length,)`.
        outputs: Number of classes or numbers, for tasks that are not language modelling.
        vocabulary: Number of token ids of the inputs.

    Raises:
        ModelUnsuitable: Inputs are no texts, longer than the model's positions or of a larger vocabulary; or such
            models have no head for the task.
        FileMissing, FileUnreadable, FileUnsafe, WeightsMismatch: As for the folder.
    """
    if vocabulary is None:
        raise errors.ModelUnsuitable(f"model '{name}' takes texts, but inputs are of shape {input_shape}")
    folder = find_folder(name)
    config = read_config(folder)
    if config.vocab_size < vocabulary:
        raise errors.ModelUnsuitable(
            f"the samples have {vocabulary:,} different token ids and model '{name}' a vocabulary of "
            f"{config.vocab_size:,} (vocab_size in config.json): they were tokenised for another vocabulary"
        )
    limit = positions_of(config)
    if limit is not None and input_shape[0] > limit:
        raise errors.ModelUnsuitable(
            f"sequences of {input_shape[0]} tokens are longer than the {limit} positions of model '{name}'; give "
            f"max_tokens {limit} or less"
        )
    if task not in _KINDS:
        config.num_labels = outputs
        if getattr(config, "pad_token_id", None) is None:
            raise errors.ModelUnsuitable(
                f"model '{name}' has no padding token (pad_token_id in config.json), so a classifier on it cannot tell "
                "where a text ends; name one there that no text has"
            )
    model = loaded_model(folder, config, _KINDS.get(task, "AutoModelForSequenceClassification"))
    return TransformersNetwork(model, task == "causal-lm")
