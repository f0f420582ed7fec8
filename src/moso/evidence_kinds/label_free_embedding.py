"""The label-free embedding: from self-supervised training, a file, a pretrained network, or the inputs themselves.

From each source it is written once per seed, as `features/embedding.npy` with a JSON file, so that a run directory
contains all inputs of its scores.
"""

import numpy as np
from numpy.typing import NDArray

from moso import errors
from moso.columns import Array
from moso.data.input_rows import input_rows
from moso.data.samples import Samples
from moso.data.sources.registry import may_have_pictures
from moso.evidence.arrays import writing
from moso.evidence_kinds.given_embedding import pretrained_features, read_embedding
from moso.evidence_kinds.kind import Measuring, Price, RunSettings
from moso.evidence_kinds.reference_features import NotedFeatures
from moso.files import clear_away, write_record
from moso.training.loop import TrainingData
from moso.training.recipe import TrainingRecipe
from moso.training.self_supervised import RECIPE, Unlabelled, self_supervised_features
from moso.training.two_views import Distortion

TRAINED = "trained"
INPUTS = "inputs"
# Rows of inputs that are copied at once.
_BLOCK = 65_536
# Copies per sample in every forward and backward pass of self-supervised training.
_VIEWS = 2


class LabelFreeEmbedding(NotedFeatures):
    """Features of a network trained without labels, of a pretrained network, from a file, or the inputs themselves."""

    name = "embedding"
    description = "an embedding"
    network = "own"
    moment = "final"
    effort = ""
    file = "features/embedding.npy"
    decided_by = ("embedding",)

    def measure(self, given: Measuring) -> None:
        """Train the embedding, read it from a file, or compute it with a pretrained network."""
        c, path = given.settings, self.path(given.home)
        rows = None if c.embedding == INPUTS else self._computed(given)
        shape = (len(given.train), *given.train.shape) if rows is None else rows.shape
        with writing(path, shape, np.float32) as file:
            if rows is not None:
                file[:] = rows
            else:
                for start in range(0, len(file), _BLOCK):
                    some = np.arange(start, min(start + _BLOCK, len(file)))
                    file[some] = input_rows(given.train, some)
        note = {"format": 1, "samples": shape[0], "width": shape[1], "embedding": c.embedding, "seed": given.seed}
        how = {"network": c.model, "recipe": unlabelled(c.surrogate).recipe.model_dump()}
        write_record(path.with_suffix(".json"), {**note, **(how if c.embedding == TRAINED else {})})

    def _computed(self, given: Measuring) -> Array:
        train, embedding = given.train, given.settings.embedding
        if embedding == TRAINED:
            return self._trained(given)
        if embedding.startswith("timm:"):
            view, everything = train.evaluation_view(), np.arange(len(train))
            return pretrained_features(embedding, view, everything, loader_workers=given.loader_workers)
        return read_embedding(embedding, train.ids)

    def _trained(self, given: Measuring) -> NDArray[np.float32]:
        train, position = given.train, given.home / "state" / self.name / "position.safetensors"
        rows = self_supervised_features(
            given.initial_network(),
            TrainingData(train.evaluation_view(), np.arange(len(train)), train.keys),
            unlabelled(given.settings.surrogate),
            seed=given.seed,
            checkpoints=given.checkpoints(position),
            loader_workers=given.loader_workers,
            progress=given.progress,
        )
        clear_away(position.parent)
        return rows

    def price(self, settings: RunSettings) -> Price | None:
        """Return the price of a training with two views per sample; None for an embedding that is not trained here."""
        if settings.embedding != TRAINED:
            return None
        epochs = unlabelled(settings.surrogate).recipe.epochs
        what = f"an embedding of {{samples}} samples without labels, {epochs} epochs"
        return Price(epochs=_VIEWS * epochs, what=what, work="embeddings", stage="train")

    def problem(self, settings: RunSettings, method: str, selector: str) -> str | None:
        """Return why texts and tables cannot train an embedding (they have no standard two views), or None."""
        if settings.embedding != TRAINED or may_have_pictures(settings.dataset):
            return None
        return (
            f"method {method!r} trains an embedding on pictures, and {settings.dataset} has none; "
            "name a file of features as embedding"
        )

    def check(self, settings: RunSettings, train: Samples) -> None:
        """Refuse to train an embedding on inputs that are not images, and to take inputs that are not vectors."""
        if settings.embedding == TRAINED and len(train.shape) != 3:
            raise errors.PicturesRequired(
                f"an embedding is trained on pictures, but inputs are of shape {train.shape}; name a file of features "
                "as embedding, or 'inputs' if they are feature vectors"
            )
        if settings.embedding == INPUTS and len(train.shape) != 1:
            raise errors.ShapeMismatch(
                f"embedding = 'inputs' takes inputs that are feature vectors, but inputs are of shape {train.shape}"
            )


def unlabelled(surrogate: TrainingRecipe) -> Unlabelled:
    """Return the training of the embedding: as many epochs as a surrogate, at most 20, with flips if it has them."""
    recipe = RECIPE.changed(
        epochs=min(RECIPE.epochs, surrogate.epochs),
        warmup_epochs=min(RECIPE.warmup_epochs, surrogate.epochs / 10),
        channels_last=surrogate.channels_last,
    )
    return Unlabelled(recipe, Distortion(mirror="flip" in surrogate.augmentation))


EMBEDDING = LabelFreeEmbedding()
