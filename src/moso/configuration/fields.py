"""The settings of a run as they are written by people: names, types, defaults, help, in the groups that help shows.

This module imports neither torch nor any other room, so that `moso run --help` answers at once. Choices and defaults
that a lower room owns are repeated here, and a test holds them against that room.
"""

from typing import Any, Literal

from pydantic import BaseModel, Field

FORMAT: Literal[1] = 1
# In place of the name of a data set or network: an object given by the caller of the library.
CUSTOM = "custom"
# Limits of numbers that people write: beyond what any machine does, below what overflows or fills it.
MOST_PIXELS = 16_384
MOST_EPOCHS = 1_000_000
MOST_WORKERS = 1024


class DataFields(BaseModel):
    """Data."""

    format: Literal[1] = FORMAT
    dataset: str = Field("digits", description="data set: a name (see `moso datasets`), or a path: folder:PATH, a file")
    labels: str | None = Field(
        None,
        description="FILE[:KEY] of labels that replace the training labels; a CSV with id, label may name some ids",
    )
    label_noise: float = Field(0.0, ge=0, le=1, description="share of samples that get a random label")
    noise_kind: Literal["symmetric", "pair"] = Field(
        "symmetric", description="random labels: symmetric, drawn from all classes, or pair, flipped to the next class"
    )
    resize: int | None = Field(
        None, ge=1, le=MOST_PIXELS, description="pixels that every image is scaled and cropped to"
    )
    on_broken: Literal["stop", "skip"] = Field("stop", description="images that cannot be decoded: stop or skip")
    memory_limit: float = Field(
        6.0, ge=0, le=1e6, description="GiB of decoded images held in memory; beyond that, images stay encoded"
    )
    test_share: float = Field(0.2, gt=0, lt=1, description="share held out for testing if the data has no test split")
    task: str = Field(
        "classification",
        description="what is learned: classification, regression, multi-label, contrastive, causal-lm, masked-lm; "
        "unlabelled for nothing",
    )
    max_tokens: int | None = Field(
        None, ge=2, description="texts: most tokens per sample; longer ones are cut off [default: 256]"
    )
    by_class: bool = Field(True, description="whether samples have classes, so that selections can be balanced")


class NetworkFields(BaseModel):
    """Network and training."""

    model: str = Field("convnet", description="network of the surrogates (see `moso models`)")
    retrain_model: str = Field("", description="network of the retrainings, if different")
    pretrained: bool = Field(False, description="start from timm's own pretrained weights, from its cache or the hub")
    weights: str = Field("", description="file of weights to start from: safetensors, or .pth of plain tensors")
    train: str = Field(
        "all",
        description="what of the network is trained: all, head, last:N (the last N blocks), lora:RANK or dora:RANK",
    )
    trunk: Literal["once", "every"] = Field(
        "once", description="a frozen trunk is computed once and kept, or in every pass over the data"
    )
    feature_views: int = Field(
        0,
        ge=0,
        le=10_000,
        description="frozen trunk with augmentation: fixed augmented views to compute once; 0 for none",
    )
    embed: str = Field(
        "", description="score and select on features of this network (as for --model), or on features:DIR"
    )
    embed_size: int | None = Field(
        None, ge=1, le=MOST_PIXELS, description="pixels that images are scaled to for --embed"
    )
    prove: Literal["head", "network"] = Field(
        "head", description="with --embed, what is retrained: the head on features, or a network on the data itself"
    )
    recipe: str = Field("quick", description="training recipe: a name or a TOML file")
    retrain_recipe: str = Field("", description="recipe of the retrainings, if different")
    match: Literal["epochs", "steps", "batches"] = Field(
        "epochs",
        description="what retraining on less keeps equal: epochs, steps, or epochs in smaller batches",
    )
    also_match: tuple[Literal["epochs", "steps", "batches"], ...] = Field(
        (), description="further ways of retraining beside `match`, whose tables stand side by side"
    )


class ScoringFields(BaseModel):
    """Scoring."""

    partitions: int = Field(
        5, ge=1, le=1_000_000, description="number of partitions (the paper's I); 1 disables partitioning"
    )
    time_steps: int = Field(10, ge=1, le=MOST_EPOCHS, description="number of sampled time steps (the paper's K)")
    sampling: Literal["stratified", "uniform"] = Field(
        "stratified", description="how time steps are sampled: stratified, or uniform as in the paper"
    )
    risk: Literal["train", "validation", "own"] = Field(
        "train", description="risk that samples are judged by: train (the paper's), or validation"
    )
    validation: str | None = Field(None, description="name or path of the data for --risk validation")
    validation_share: float = Field(
        0.0, ge=0, lt=1, description="share of the training data held out for --risk validation; 0 for none"
    )
    probes: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="moso-adjoint: random probes per sample of its effect on its own loss; 0 omits that term",
    )
    window: float = Field(
        1.0, gt=0, le=1, description="moso-adjoint: share of the updates, the last ones, that are differentiated"
    )
    optimizer_aware: bool = Field(
        False,
        description="compare gradients as the optimiser rescales them (Adam's second moments); no effect with sgd",
    )
    form: Literal["paper", "centred"] = Field("paper", description="form of the score: paper or centred")
    view: Literal["auto", "evaluation", "training"] = Field(
        "auto",
        description="samples and network as in evaluation, or as training saw them; auto: training with batch-norm or "
        "augmentation",
    )
    parameters: Literal["all", "head"] = Field("all", description="parameters whose gradients are compared: all, head")
    estimator: Literal["exact", "subsampled", "sketched", "last-layer", "in-run"] = Field(
        "exact", description="exact terms, or a cheaper estimate: subsampled, sketched, last-layer, in-run"
    )
    mean_share: float = Field(0.2, gt=0, le=1, description="subsampled: share of samples in the mean gradient")
    sketch_numbers: int = Field(4096, ge=1, le=2**24, description="sketched: numbers kept per sample gradient")
    score_batch_size: int | None = Field(
        None, ge=1, le=2**31, description="samples per batch while scoring; found automatically if not given"
    )
    shard_size: int = Field(
        0, ge=0, le=2**53, description="samples per shard of a partition, scored in parallel; 0 for no shards"
    )
    initialisations: int = Field(
        2,
        ge=1,
        le=10_000,
        description="networks that el2n and grand average, each trained to the early epoch; papers use 10",
    )
    early_epochs: int = Field(
        0, ge=0, le=MOST_EPOCHS, description="epochs after which el2n and grand measure; 0 for a tenth of training"
    )
    embedding: str = Field(
        "trained",
        description="embedding without labels (ssp, zcore): trained, inputs (as they are), FILE.npy, .parquet, "
        "timm:NAME",
    )
    features: Literal["reference", "embedding"] = Field(
        "reference",
        description="features that samples are compared by: of the reference network, or the embedding without labels",
    )


class SelectionFields(BaseModel):
    """Selection."""

    methods: tuple[str, ...] = Field(("moso-rank",), description="pruning methods (see `moso methods`)")
    rounds: int = Field(
        1,
        ge=1,
        le=10_000,
        description="rounds of training on the kept samples, scoring all samples and dropping a part",
    )
    trial_share: float = Field(
        1.0, gt=0, le=1, description="auto: share of the retraining's epochs for which a candidate is tried"
    )
    ratios: tuple[float, ...] = Field(
        (0.4, 0.6, 0.8), description="share of samples to remove, such as 0.4 or 40%; may be repeated"
    )
    selectors: tuple[str, ...] = Field((), description="how samples are chosen by score; by default each method's own")
    class_mix: Literal["equal", "as-is"] = Field(
        "equal", description="mix of classes that is kept: equal (balanced) or as-is (proportional)"
    )
    min_per_class: int = Field(0, ge=0, le=2**53, description="samples that every class keeps at least, or all it has")
    settings: dict[str, dict[str, Any]] = Field(
        {}, description="NAME.SETTING=VALUE of a selector or score, such as coverage.cut=0.2; may be repeated"
    )


class ProofFields(BaseModel):
    """Proof."""

    tolerance: float = Field(
        1.0, ge=0, le=1e6, description="points that pruning may cost, overall and in the worst class"
    )
    seeds: int = Field(
        3, ge=1, le=10_000, description="number of seeds; each is a whole pipeline, and one has no interval"
    )
    seed: int = Field(0, ge=0, le=2**53, description="first seed, whose selections are exported")
    baselines: tuple[str, ...] = Field(
        (), description="baselines of equal cost to retrain: rs2, infobatch, full-fewer-steps"
    )


class PlaceFields(BaseModel):
    """Where it runs."""

    device: str = Field("cpu", description="cpu, cuda, cuda:1 or mps")
    threads: int = Field(1, ge=1, le=MOST_WORKERS, description="threads per partition or retraining")


# Groups in the order of help; the title of a group is its docstring.
GROUPS: tuple[type[BaseModel], ...] = (
    DataFields,
    NetworkFields,
    ScoringFields,
    SelectionFields,
    ProofFields,
    PlaceFields,
)


def title_of(group: type[BaseModel]) -> str:
    """Return the title of a group of settings.

    Example:
        >>> [title_of(one) for one in GROUPS]
        ['Data', 'Network and training', 'Scoring', 'Selection', 'Proof', 'Where it runs']
    """
    return (group.__doc__ or "").rstrip(".")
