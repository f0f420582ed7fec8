"""The verbs of `moso`: where each lives, one line of help, one example.

A verb's module is imported when the verb is called or its help is asked for, and the packages that it works with
(torch, pyarrow, ...) when it starts to work: its function imports them. So help and completion answer at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True)
class Verb:
    """One verb of the command line.

    Attributes:
        group: The heading under which `moso --help` lists it.
        function: Module below `moso.cli` and function, as ``module:function``.
        summary: One line of help.
        example: A command that uses it.
    """

    group: str
    function: str
    summary: str
    example: str

    def load(self) -> Callable[..., None]:
        """Import the verb's function."""
        module, _, name = self.function.partition(":")
        found: Callable[..., None] = getattr(import_module(f"moso.cli.{module}"), name)
        return found


_WHOLE, _STAGES, _AFTER, _STUDIES, _LISTS = (
    "The whole job",
    "Its stages, one at a time",
    "With a finished run",
    "Studies",
    "What there is",
)

VERBS: dict[str, Verb] = {
    "run": Verb(
        _WHOLE,
        "run:run",
        "Prune data and prove it: train, score, select, retrain, report. The same command resumes.",
        "moso run --dataset folder:photos --ratio 40% --quick",
    ),
    "compare": Verb(
        _WHOLE,
        "compare:compare",
        "Retrain on what many methods keep and compare them, with baselines of equal cost.",
        "moso compare --dataset digits --method moso --method el2n --ratio 40% --ratio 60%",
    ),
    "embed": Verb(
        _WHOLE,
        "embed:embed",
        "Compute the features of a data set once, to prune with them in seconds.",
        "moso embed --dataset folder:photos --network timm:resnet18 --pretrained --out photos-features",
    ),
    "train": Verb(
        _STAGES,
        "run:train",
        "Begin a run and train its surrogates.",
        "moso train --dataset digits --out runs/digits",
    ),
    "score": Verb(_STAGES, "stage_verbs:score", "Score the samples of a run.", "moso score runs/digits --method el2n"),
    "select": Verb(
        _STAGES,
        "stage_verbs:select",
        "Choose the samples to keep, from scores of the run or your own.",
        "moso select runs/digits --method moso-rank --ratio 50%",
    ),
    "evaluate": Verb(
        _STAGES,
        "stage_verbs:evaluate",
        "Retrain on the kept samples, on random ones and on all, and test.",
        "moso evaluate runs/digits --ratio 50%",
    ),
    "status": Verb(
        _STAGES,
        "status:status",
        "Show what a run has done, what it is doing, and how long it will take.",
        "moso status runs/digits --watch 10",
    ),
    "verify": Verb(
        _AFTER,
        "verify:verify",
        "Read every file of a run: what is whole, what is damaged, what is missing.",
        "moso verify runs/digits --repair",
    ),
    "report": Verb(_AFTER, "report:report", "Write report.html, a page that opens offline.", "moso report runs/digits"),
    "explore": Verb(
        _AFTER,
        "explore:explore",
        "Serve the page of a run, of any size, to a browser on this machine.",
        "moso explore runs/digits --port 8123",
    ),
    "export": Verb(
        _AFTER,
        "export:export",
        "Write the kept samples: as indices, or as the pruned data itself.",
        "moso export runs/digits --method moso-rank --ratio 40% --out kept.csv",
    ),
    "suspects": Verb(
        _AFTER,
        "suspects:suspects",
        "List samples whose label is probably wrong.",
        "moso suspects runs/digits --top 50",
    ),
    "tokens": Verb(
        _AFTER,
        "tokens:tokens",
        "Show how much each token contributes to the score of a language model's sample.",
        "moso tokens runs/chat --sample 12 --sample 40",
    ),
    "index": Verb(
        _AFTER,
        "index:index",
        "Store the gradients of a run's samples, and find the samples that help new targets.",
        "moso index query runs/chat --target code=text:code.jsonl",
    ),
    "reproduce": Verb(
        _STUDIES,
        "reproduce:reproduce_command",
        "Run figures and tables of the paper.",
        "moso reproduce figure-2 --preset cpu --dry-run",
    ),
    "smoothness": Verb(
        _STUDIES,
        "exact:smoothness",
        "Train three times with slightly changed sample weights: can derivatives of this training be trusted?",
        "moso smoothness --dataset digits --model mlp-w32 --window 0.5",
    ),
    "exact": Verb(
        _STUDIES,
        "exact:exact",
        "Compare scores with exact leave-one-out retraining.",
        "moso exact --dataset digits --samples 100 --steps 20",
    ),
    "methods": Verb(_LISTS, "listing:methods", "List methods, scores and selectors.", "moso methods --json"),
    "models": Verb(_LISTS, "listing:models", "List networks.", "moso models"),
    "datasets": Verb(_LISTS, "listing:datasets", "List data sets and forms of paths.", "moso datasets"),
}
# Verbs that continue from what an interrupted command has finished.
RESUMABLE = frozenset(
    {"run", "compare", "embed", "train", "score", "select", "evaluate", "suspects", "index", "reproduce"}
)
