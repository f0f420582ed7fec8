"""`moso tokens`: which tokens of a sample pull, in scores that sum to the sample's."""

import json
from typing import Annotated, TypedDict

import typer

from moso import errors
from moso.cli.options.flags import Json, RunArgument, Seed, option
from moso.cli.options.panels import DATA


class _Row(TypedDict):
    """A sample, its score, and the tokens with their scores."""

    id: int
    score: float
    tokens: list[tuple[str, float]]


def tokens(
    run: RunArgument,
    sample: Annotated[list[int], option("--sample", panel=DATA, help="id of a sample; may be repeated")],
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Print the score of every predicted token of some samples, at the surrogate of their partition."""
    import numpy as np

    from moso.api import token_scores
    from moso.data.samples import StoredSamples
    from moso.data.sequences import SequenceReader
    from moso.results.reading import Run
    from moso.tasks import LanguageModelling

    opened = Run.open(run)
    train = opened.samples("train")
    if not isinstance(train.task, LanguageModelling):
        raise errors.SettingsConflict(f"{run} learns no language model, so its samples have no tokens to predict")
    assert isinstance(train, StoredSamples)
    assert isinstance(train.reader, SequenceReader)
    ids, coder, parts = train.ids.to_pylist(), train.reader.coder, opened.partitions(seed)
    assert coder is not None
    c, found = opened.configuration, list[_Row]()
    if c.risk != "train":
        raise errors.SettingsConflict("this run judges samples by another risk; use moso.token_scores(risk=...)")
    for one in sample:
        if one not in ids:
            raise errors.SampleUnknown(f"{run} has no training sample {one}")
        position = ids.index(one)
        part, positions = next((number, own) for number, own in enumerate(parts) if position in own)
        [scored] = token_scores(
            opened.build_model(seed),
            train.take(positions).evaluation_view(),
            opened.trajectory(part, seed),
            [int(np.flatnonzero(positions == position)[0])],
            loss=train.task.loss,
            optimizer_aware=c.optimizer_aware,
        )
        pairs = zip(coder.words(scored.tokens.tolist()), scored.scores.tolist(), strict=True)
        found.append({"id": one, "score": float(scored.scores.sum()), "tokens": list(pairs)})
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    for row in found:
        typer.echo(f"sample {row['id']}: {row['score']:.4e}")
        for word, score in row["tokens"]:
            typer.echo(f"  {score:12.4e}  {word!r}")
