"""A network as an embedder: a function from samples to one row of features each.

The features are the input of the classifier. Pictures are scaled to the size and normalised with the mean and deviation
that the network was trained with, if it says so (timm's `pretrained_cfg`). Texts go through a model of transformers
with its own tokenizer (`hf:PLACE`), or through a factory of the user's own that returns a module with
`reads_texts = True`: it is called with a list of texts and returns their features, tokenizer and all.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from moso import errors
from moso.code_trust import is_code
from moso.data.samples import Samples, StoredSamples
from moso.data.views import Normalisation
from moso.embedding.text_encoder import text_encoder
from moso.evidence.features import before_classifier
from moso.gradients import evaluation_mode, to_device
from moso.models import FROM_SCRATCH, Start, build_model, classifier_head
from moso.models.factory import from_factory
from moso.models.from_timm import pretrained_settings
from moso.models.registry import timm_name
from moso.models.transformers_folder import is_of_transformers
from moso.randomness import seeded
from moso.training.two_views import inputs_of

# Images up to this side are small: they are scaled to half of the network's own size, at a quarter of the cost.
_SMALL = 64
_CHANNELS = 3


@dataclass(frozen=True)
class Embedder:
    """A network that is not trained, and how samples reach it.

    Attributes:
        name: Name of the network.
        module: The network in evaluation mode; of texts it gives features, of other inputs logits.
        head: The classifier, whose input is the features; None if the module's outputs are the features.
        side: Pixels to which pictures are scaled; None leaves them.
        normalisation: Normalisation of pictures that the network was trained with; None takes that of the data.
        start: Where its weights come from.
    """

    name: str
    module: nn.Module
    head: nn.Module | None
    side: int | None = None
    normalisation: Normalisation | None = None
    start: Start = FROM_SCRATCH

    @property
    def reads_texts(self) -> bool:
        """Whether the module is called with texts."""
        return bool(getattr(self.module, "reads_texts", False))

    def note(self) -> dict[str, Any]:
        """Return what decides the features, for the record: network, weights and preprocessing."""
        own = self.normalisation
        return {
            "network": self.name,
            "pretrained": self.start.pretrained,
            "weights": self.start.weights,
            "parameters": self._digest(),
            "side": self.side,
            "mean": None if own is None else list(own.mean),
            "deviation": None if own is None else list(own.std),
        }

    def _digest(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for name, value in self.module.state_dict().items():
            if isinstance(value, torch.Tensor):
                digest.update(name.encode())
                digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    @torch.inference_mode()
    def rows(self, batch: Any) -> NDArray[np.float32]:
        """Return the features of a batch, float32 `[batch, width]`.

        Args:
            batch: What `view.batch` gives, or a list of texts.

        Raises:
            ModelUnsuitable: The network gives no row of features per sample.
        """
        if self.reads_texts:
            found = self.module(batch)
            return _flat(found, len(batch), self.name)
        device = next(self.module.parameters()).device
        inputs = to_device(inputs_of(batch), device)
        if inputs.ndim == 4:
            inputs = self._scaled(inputs)
        with evaluation_mode(self.module):
            if self.head is None:
                return _flat(self.module(inputs), len(inputs), self.name)
            with before_classifier(self.head) as seen:
                self.module(inputs)
        if len(seen) != 1:
            raise errors.ModelUnsuitable(
                f"the classifier of {self.name!r} was called {len(seen)} times for one batch; features are its input"
            )
        return _flat(seen[0], len(inputs), self.name)

    def probe(self, samples: Samples) -> NDArray[np.float32]:
        """Return the features of the first sample, `[1, width]`."""
        first = [samples.text(0)] if self.reads_texts else self.view_of(samples).batch(np.arange(1))
        return self.rows(first)

    def _scaled(self, pictures: torch.Tensor) -> torch.Tensor:
        if pictures.shape[1] == 1 and self.normalisation is not None:
            pictures = pictures.expand(-1, _CHANNELS, -1, -1)
        if self.side is not None and pictures.shape[2:] != (self.side, self.side):
            size = (self.side, self.side)
            pictures = F.interpolate(pictures, size=size, mode="bicubic", align_corners=False, antialias=True)
        return pictures.contiguous(memory_format=torch.channels_last)

    def view_of(self, samples: Samples) -> Any:
        """Return the samples as the network is to meet them: a view, normalised as it was trained."""
        if self.normalisation is not None and isinstance(samples, StoredSamples) and len(samples.shape) == 3:
            channels = samples.shape[0]
            own = Normalisation(self.normalisation.mean[:channels], self.normalisation.std[:channels])
            return samples.normalised(own).evaluation_view()
        return samples.evaluation_view()


def _flat(rows: torch.Tensor, count: int, name: str) -> NDArray[np.float32]:
    if not isinstance(rows, torch.Tensor) or rows.ndim < 2 or len(rows) != count:
        given = tuple(rows.shape) if isinstance(rows, torch.Tensor) else type(rows).__name__
        raise errors.ModelUnsuitable(f"{name!r} gives {given} for {count} samples; expected one row of features each")
    if rows.ndim == 4:  # feature maps: channels come first
        rows = rows.mean((2, 3))
    elif rows.ndim == 3:
        rows = rows.mean(1)
    found: NDArray[np.float32] = rows.float().cpu().numpy()
    return found


def find_embedder(
    name: str, samples: Samples, start: Start = FROM_SCRATCH, side: int | None = None, device: str = "cpu"
) -> Embedder:
    """Return the embedder of this name for these samples.

    Args:
        name: Name of a network, as for `build_model`.
        samples: The samples to embed, which decide the shape of inputs.
        start: Weights of the network.
        side: Pixels to which pictures are scaled; by default the size that a network of timm was trained with, half of
            it for images of up to 64 pixels, and otherwise the size of the images.
        device: Device that computes.

    Raises:
        ModelUnsuitable: The network does not take such inputs, or is nothing but a classifier.
        SettingsConflict: Texts need a network that reads them.
        MosoError: Those of `build_model`.

    Example:
        >>> images = np.zeros((4, 1, 8, 8), dtype=np.uint8)
        >>> embedder = find_embedder("convnet-w4", StoredSamples.from_arrays(images, [0, 1, 0, 1]))
        >>> embedder.rows((torch.zeros(2, 1, 8, 8), None)).shape
        (2, 8)
    """
    if samples.vocabulary is not None:
        return _for_texts(name, samples, start, device)
    shape, own, normalisation = tuple(samples.shape), None, None
    if len(shape) == 3:
        own, normalisation = trained_with(name, start)
        if side is None and own is not None:
            side = own // 2 if max(shape[1:]) <= _SMALL else own
        channels = _CHANNELS if normalisation is not None and shape[0] == 1 else shape[0]
        shape = (channels, *((side, side) if side is not None else shape[1:]))
    module = build_model(name, shape, 2, 0, start=start).to(device).eval()
    head_name, head = classifier_head(module)
    if not head_name:
        raise errors.ModelUnsuitable(f"the network {name!r} is nothing but its classifier, so it has no features")
    if len(shape) == 3:
        module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Embedder(name, module, head, side, normalisation, start)


def _for_texts(name: str, samples: Samples, start: Start, device: str) -> Embedder:
    if is_of_transformers(name):
        if not start.is_from_scratch:
            raise errors.SettingsConflict(f"{name} brings its own weights; leave out --pretrained and --weights")
        return Embedder(name, text_encoder(name).to(device).eval(), None)
    if is_code(name):
        with seeded(0, "init"), torch.device("cpu"):
            module = from_factory(name, tuple(samples.shape), 2, samples.vocabulary, pretrained=start.pretrained)
        if getattr(module, "reads_texts", False):
            return Embedder(name, module.to(device).eval(), None, start=start)
    module = build_model(name, tuple(samples.shape), 2, 0, vocabulary=samples.vocabulary, start=start)
    return Embedder(name, module.to(device).eval(), classifier_head(module)[1], start=start)


def trained_with(name: str, start: Start) -> tuple[int | None, Normalisation | None]:
    """Return the side of pictures and the normalisation that a network's pretrained weights expect, if known.

    Args:
        name: Name of the network.
        start: Its weights; random ones expect nothing.

    Example:
        >>> trained_with("resnet18", FROM_SCRATCH)
        (None, None)
    """
    if start.is_from_scratch:
        return None, None
    of_timm = timm_name(name)
    settings: Mapping[str, Any] | None = None if of_timm is None else pretrained_settings(of_timm)
    if settings is None:
        return None, None
    scaled = [tuple(255.0 * value for value in settings[part]) for part in ("mean", "std")]
    return int(settings["input_size"][-1]), Normalisation(*scaled)
