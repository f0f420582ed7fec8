"""Published accuracies of the same comparisons, to compare the order of the methods with.

ResNet-50 scores and is retrained; means of five seeds in %. CIFAR-100: 200 epochs of SGD at learning rate 0.1, batches
of 128. Tiny-ImageNet: 90 epochs, batches of 256. The MoSo paper has figures but no table, so MoSo is not included.
"""

from moso.experiments.declaration import Published

_SOURCE = "ResNet-50, 5 seeds, from the comparisons around Moderate (Xia et al., ICLR 2023)"
_METHODS = ("random", "herding", "forgetting", "grand", "el2n", "opt", "ssp", "moderate")


def _removed(*accuracies: float) -> dict[str, float]:
    return dict(zip(_METHODS, accuracies, strict=True))


CIFAR100 = Published(
    _SOURCE,
    {
        0.2: _removed(74.12, 74.21, 77.50, 74.67, 75.96, 75.62, 75.29, 75.44),
        0.4: _removed(71.03, 70.61, 73.34, 69.70, 69.23, 68.93, 70.70, 71.87),
        0.6: _removed(64.32, 62.99, 59.65, 60.52, 50.47, 58.93, 62.91, 64.92),
        0.7: _removed(53.61, 50.89, 49.83, 53.14, 41.98, 53.19, 54.63, 57.79),
        0.8: _removed(50.26, 48.39, 35.57, 42.65, 27.32, 42.16, 44.45, 51.83),
    },
)
TINY_IMAGENET = Published(
    _SOURCE,
    {
        0.2: _removed(45.74, 45.45, 46.77, 45.96, 45.32, 43.76, 44.94, 46.06),
        0.4: _removed(40.96, 40.86, 41.14, 40.77, 39.12, 37.05, 39.64, 41.45),
        0.6: _removed(34.41, 34.13, 33.64, 34.33, 31.93, 29.77, 32.50, 34.81),
        0.7: _removed(29.79, 29.39, 28.67, 29.66, 26.58, 23.75, 27.66, 30.57),
        0.8: _removed(24.02, 24.09, 22.37, 23.56, 19.74, 13.88, 20.89, 25.29),
    },
)
CIFAR100_NOISE = Published(
    f"20 % symmetric label noise, {_SOURCE}",
    {
        0.7: _removed(43.26, 50.52, 45.78, 42.80, 33.62, 41.80, 41.87, 48.53),
        0.8: _removed(34.47, 42.29, 36.53, 31.72, 29.82, 32.79, 31.08, 40.25),
    },
)
