"""`PruneConfig`: the settings of `prune` that say how surrogates are trained and scored, with types and help."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict

from moso import errors
from moso.data.augment import Augmentation
from moso.errors import unknown_name
from moso.evidence import Sampling
from moso.scores import Form
from moso.training.recipe import Match

# Settings of a run from the command line that cannot apply to data in memory, and what to do instead.
_REFUSED = {
    "dataset": "prune takes the data itself as train_set",
    "label_noise": "data in memory is taken as it is; put the noise into the labels that you give (labels=)",
    "max_tokens": "data in memory is taken as it is; give it to moso.SequenceData, which makes token ids of texts",
    "resize": "data in memory is taken as it is; resize the pictures before, or in the transform of the dataset",
    "on_broken": "data in memory is read by its own dataset, which decides about broken files",
    "memory_limit": "data in memory is taken as it is",
    "test_share": "prune holds no test data out; give it as test_set",
    "validation": "give the validation data itself as validation_set, with risk='validation'",
    "validation_share": "prune holds no validation data out; give it as validation_set, with risk='validation'",
    "ratios": "prune removes one share; give ratio= or keep=",
    "methods": "prune uses one method; give method=",
    "selectors": "prune uses one selector; give selector=",
    "by_class": "the task decides whether there are classes; give task=",
    "format": "it is the version of a file",
    "classless": "the task decides whether there are classes; give task=",
}


class PruneSettings(TypedDict, total=False):
    """The fields of `PruneConfig` as keywords of `prune`."""

    recipe: str | None
    epochs: int | None
    batch_size: int | None
    learning_rate: float | None
    augmentation: Augmentation | None
    retrain_epochs: int | None
    surrogate: Mapping[str, Any] | None
    retraining: Mapping[str, Any] | None
    match: Match | None
    retrain_model: str | None
    retrain_recipe: str | None
    pretrained: bool | None
    weights: str | None
    train: str | None
    trunk: Literal["once", "every"] | None
    feature_views: int | None
    embed: str | None
    embed_size: int | None
    prove: Literal["head", "network"] | None
    partitions: int | None
    time_steps: int | None
    sampling: Sampling | None
    optimizer_aware: bool | None
    form: Form | None
    view: Literal["auto", "evaluation", "training"] | None
    parameters: Literal["all", "head"] | None
    estimator: Literal["exact", "subsampled", "sketched", "last-layer", "in-run"] | None
    mean_share: float | None
    sketch_numbers: int | None
    score_batch_size: int | None
    shard_size: int | None
    probes: int | None
    window: float | None
    trial_share: float | None
    initialisations: int | None
    early_epochs: int | None
    embedding: str | None
    rounds: int | None
    class_mix: Literal["equal", "as-is"] | None
    min_per_class: int | None
    baselines: Sequence[str] | None
    tolerance: float | None
    settings: Mapping[str, Mapping[str, Any]] | None
    seed: int | None
    seeds: int | None
    threads: int | None


@dataclass(frozen=True, kw_only=True)
class PruneConfig:
    """How `prune` trains, scores and retrains; None leaves a setting to the recipe or to the defaults of a run.

    Attributes:
        recipe: Name or path of the training recipe; by default one that fits the data (`pictures`, `table`, `text`).
        epochs: Epochs of surrogates and retrainings.
        batch_size: Samples per update.
        learning_rate: Highest learning rate.
        augmentation: `none` (the default), `crop`, `crop-flip` or `resized-crop-flip`, for arrays of pictures.
        retrain_epochs: Epochs of retrainings, if others than those of surrogates.
        surrogate: Further settings of the recipe for surrogates, such as ``{"momentum": 0.5}``.
        retraining: Further settings of the recipe for retrainings.
        match: What retraining on less data keeps equal, `epochs` or `steps`.
        retrain_model: Name of the network that is retrained, if another than that of surrogates.
        retrain_recipe: Recipe of retrainings, if another.
        pretrained: Start a network of timm from its own pretrained weights.
        weights: File of weights to start from: safetensors, or plain tensors.
        train: What of the network is trained: `all`, `head`, `last:N`, `lora:RANK` or `dora:RANK`.
        trunk: A frozen trunk is computed `once` and kept, or in `every` pass.
        feature_views: Fixed augmented views of a frozen trunk that are computed once.
        embed: Network on whose features samples are scored and selected (the model is then a head), or `features:DIR`.
        embed_size: Pixels that pictures are scaled to for `embed`.
        prove: With `embed`, what is retrained: the `head`, or a `network` on the data itself.
        partitions: Number of partitions (the paper's I); 1 disables partitioning.
        time_steps: Number of sampled time steps (the paper's K).
        sampling: How time steps are drawn, `stratified` or `uniform`.
        optimizer_aware: Compare gradients as the optimiser rescales them; no effect with `sgd`.
        form: Form of the MoSo score, `paper` or `centred`.
        view: Score samples and network as in `evaluation`, or as `training` saw them; `auto` takes the latter with
            batch-norm or augmentation.
        parameters: Parameters whose gradients are compared, `all` or those of the `head`.
        estimator: `exact` terms, or a cheaper estimate.
        mean_share: Share of samples in the mean gradient of `subsampled`.
        sketch_numbers: Numbers per gradient of `sketched`.
        score_batch_size: Samples per batch while scoring; by default found from the network.
        shard_size: Samples per shard of a partition that is scored in parallel; 0 disables shards.
        probes: Random probes of each sample's effect on its own loss, for `moso-adjoint`.
        window: Share of the updates, the last ones, that `moso-adjoint` differentiates.
        trial_share: Share of the retraining's epochs for which a candidate of `auto` is tried.
        initialisations: Networks that el2n and grand average.
        early_epochs: Epochs after which el2n and grand look; 0 is a tenth of training.
        embedding: Features for ssp: `trained`, a file, or `timm:NAME`.
        rounds: Rounds of training on the kept samples, scoring all samples and dropping a part.
        class_mix: Mix of classes that is kept, `equal` (balanced) or `as-is` (proportional); by default `as-is` if the
            largest class has more than 1.5 times the samples of the smallest.
        min_per_class: Samples that every class keeps at least.
        baselines: What is retrained beside the methods at equal cost: `rs2`, `full-fewer-steps`.
        tolerance: Points that pruning may cost, overall and in any class, to count as free in the verdict.
        settings: Settings of selectors and scores by name, such as ``{"coverage": {"cut": 0.2}}``.
        seed: First seed.
        seeds: Number of seeds; each repeats the whole pipeline. 1 by default.
        threads: Threads per partition or retraining.

    Example:
        >>> PruneConfig(epochs=3, partitions=2).given()
        {'epochs': 3, 'partitions': 2}
        >>> PruneConfig(epoch=3)
        Traceback (most recent call last):
        ...
        TypeError: PruneConfig.__init__() got an unexpected keyword argument 'epoch'
    """

    recipe: str | None = None
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    augmentation: Augmentation | None = None
    retrain_epochs: int | None = None
    surrogate: Mapping[str, Any] | None = None
    retraining: Mapping[str, Any] | None = None
    match: Match | None = None
    retrain_model: str | None = None
    retrain_recipe: str | None = None
    pretrained: bool | None = None
    weights: str | None = None
    train: str | None = None
    trunk: Literal["once", "every"] | None = None
    feature_views: int | None = None
    embed: str | None = None
    embed_size: int | None = None
    prove: Literal["head", "network"] | None = None
    partitions: int | None = None
    time_steps: int | None = None
    sampling: Sampling | None = None
    optimizer_aware: bool | None = None
    form: Form | None = None
    view: Literal["auto", "evaluation", "training"] | None = None
    parameters: Literal["all", "head"] | None = None
    estimator: Literal["exact", "subsampled", "sketched", "last-layer", "in-run"] | None = None
    mean_share: float | None = None
    sketch_numbers: int | None = None
    score_batch_size: int | None = None
    shard_size: int | None = None
    probes: int | None = None
    window: float | None = None
    trial_share: float | None = None
    initialisations: int | None = None
    early_epochs: int | None = None
    embedding: str | None = None
    rounds: int | None = None
    class_mix: Literal["equal", "as-is"] | None = None
    min_per_class: int | None = None
    baselines: Sequence[str] | None = None
    tolerance: float | None = None
    settings: Mapping[str, Mapping[str, Any]] | None = None
    seed: int | None = None
    seeds: int | None = None
    threads: int | None = None

    def given(self) -> dict[str, Any]:
        """Return the settings that are not None, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def asked_settings(config: PruneConfig | None, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a configuration object and of keywords together.

    Args:
        config: The configuration object.
        keywords: Keywords of `prune`; None leaves a setting out.

    Raises:
        WrongType: `config` is something else.
        SettingsConflict: A setting cannot apply to data in memory, or is given twice.
        UnknownName: There is no such setting.
    """
    if config is not None and not isinstance(config, PruneConfig):
        raise errors.WrongType(f"config= takes a moso.PruneConfig, not {type(config).__name__}")
    known = {field.name for field in fields(PruneConfig)}
    for name in keywords:
        if name in _REFUSED:
            raise errors.SettingsConflict(f"{name} cannot apply in moso.prune: {_REFUSED[name]}")
        if name not in known:
            raise unknown_name("setting", name, known)
    first = {} if config is None else config.given()
    second = {name: value for name, value in keywords.items() if value is not None}
    for name in sorted(first.keys() & second.keys()):
        raise errors.SettingsConflict(f"{name} is given twice, in config= and as a keyword; give it once")
    return {**first, **second}
