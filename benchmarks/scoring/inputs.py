"""Made-up samples that look like data: smooth pictures and sentences, a pattern a class, a few wrong labels.

White noise would do for the cost, but not for the error: networks have no opinion on it, scores are all alike, and many
rectifiers sit on their kink, where float32 and float64 part.
"""

import torch
import torch.nn.functional as F

from moso.randomness import generator

CLASSES = 10
WORDS = 1000
PADDING = 0
WRONG_LABELS = 0.1


def labels_of(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What samples show and what their labels say, both `[count]`; a tenth of the labels is drawn anew."""
    shown = _integers("shown", 0, CLASSES, (count,))
    others = _integers("others", 0, CLASSES, (count,))
    wrong = _uniforms("wrong", (count,)) < WRONG_LABELS
    return shown, torch.where(wrong, others, shown)


def pictures(count: int, size: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    """Images `[count, 3, size, size]` of low frequencies, half of them the class's, and labels `[count]`.

    >>> bool((pictures(8)[0][:4] == pictures(4)[0]).all())  # more samples are more of the same
    True
    """
    shown, labels = labels_of(count)
    patterns = _normals("patterns", (CLASSES, 3, 4, 4))
    own = _normals("pictures", (count, 3, 8, 8))
    images = F.interpolate(patterns[shown], size=(size, size), mode="bicubic", align_corners=False)
    images = images + F.interpolate(own, size=(size, size), mode="bicubic", align_corners=False)
    return images.contiguous(), labels


def sentences(count: int, length: int = 48) -> dict[str, torch.Tensor]:
    """Word numbers `[count, length]` with padding of its own length each, its mask, and labels `[count]`."""
    shown, labels = labels_of(count)
    topics = _integers("topics", 1, WORDS, (CLASSES, 20))
    on_topic = _uniforms("on topic", (count, length)) < 0.3
    common = _integers("common words", 1, WORDS, (count, length))
    chosen = _integers("chosen words", 0, topics.shape[1], (count, length))
    words = torch.where(on_topic, topics[shown[:, None], chosen], common)
    lengths = _integers("lengths", length // 4, length + 1, (count,))
    mask = torch.arange(length) < lengths[:, None]
    return {"input_ids": words.masked_fill(~mask, PADDING), "attention_mask": mask.long(), "labels": labels}


def _integers(purpose: str, low: int, high: int, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.from_numpy(generator("benchmark", purpose).integers(low, high, shape))


def _uniforms(purpose: str, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.from_numpy(generator("benchmark", purpose).random(shape))


def _normals(purpose: str, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.from_numpy(generator("benchmark", purpose).standard_normal(shape)).float()
