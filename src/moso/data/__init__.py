"""Samples, their labels and ids, and the two views of them. Nothing in this package depends on models or methods."""

from moso.batch import Batch
from moso.data.augment import Augmentation
from moso.data.bank_view import with_bank
from moso.data.dataset import DataSet, datasets, open_dataset
from moso.data.decoding import OnBroken
from moso.data.images import BrokenImageError
from moso.data.labels import read_labels
from moso.data.partitions import hold_out, partition
from moso.data.samples import Samples, StoredSamples, UserSamples
from moso.data.views import Normalisation, View, as_view, check_repeatable, load, split_evenly

__all__ = [
    "Augmentation",
    "Batch",
    "BrokenImageError",
    "DataSet",
    "Normalisation",
    "OnBroken",
    "Samples",
    "StoredSamples",
    "UserSamples",
    "View",
    "as_view",
    "check_repeatable",
    "datasets",
    "hold_out",
    "load",
    "open_dataset",
    "partition",
    "read_labels",
    "split_evenly",
    "with_bank",
]
