"""What a retraining on fewer samples keeps equal to training on all of them (`--match`).

- `epochs`: as many passes over fewer samples, so fewer updates. The hardest on pruning: MoSo, Moderate, OPT.
- `steps`: as many updates as on all data, so more passes: CCS, ELFS and D2 on CIFAR, everybody on ImageNet.
- `batches`: as many passes, in smaller batches where little is kept, so that fewer samples still make some updates:
  DUAL, TDDS and ZCore, which train CIFAR in batches of 128, of 64 with 80 % removed and of 32 with 90 %. In between and
  beyond, as a rule: the batch is halved whenever the kept share falls by half, from 40 % on, down to LEAST_BATCH. The
  learning rate stays, as in the sources.

Training on all data is the same under all three.
"""

import math

from moso.training.recipe import Match, TrainingRecipe

# The kept share above which batches keep their size, and the smallest batch.
WHOLE_BATCH_SHARE = 0.4
LEAST_BATCH = 16
_WORDS: dict[Match, str] = {
    "epochs": "equal epochs",
    "steps": "equal steps",
    "batches": "equal epochs in smaller batches",
}


def match_words(match: str) -> str:
    """Return what is kept equal, in words.

    Example:
        >>> match_words("batches")
        'equal epochs in smaller batches'
    """
    return _WORDS.get(match, f"equal {match}")  # type: ignore[call-overload, no-any-return]


def smaller_batch(batch_size: int, ratio: float) -> int:
    """Return the batch size of `batches` with a share of the samples removed.

    Args:
        batch_size: Samples per update on all data.
        ratio: Share of samples removed, in ``[0, 1)``.

    Example:
        >>> [smaller_batch(128, ratio) for ratio in (0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)]
        [128, 128, 128, 64, 32, 16, 16]
        >>> smaller_batch(8, 0.9)
        8
    """
    halvings = max(0, math.floor(math.log2(WHOLE_BATCH_SHARE / (1 - ratio)) + 1e-9))
    return max(min(LEAST_BATCH, batch_size), batch_size >> halvings)


def matched_recipe(recipe: TrainingRecipe, match: str, ratio: float) -> TrainingRecipe:
    """Return the recipe of a retraining with a share of the samples removed, with smaller batches if asked for.

    Example:
        >>> recipe = TrainingRecipe(epochs=2, batch_size=128, learning_rate=0.1, schedule="cosine")
        >>> [matched_recipe(recipe, match, 0.8).batch_size for match in ("epochs", "steps", "batches")]
        [128, 128, 64]
    """
    return recipe.changed(batch_size=smaller_batch(recipe.batch_size, ratio)) if match == "batches" else recipe
