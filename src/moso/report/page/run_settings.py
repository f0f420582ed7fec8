"""The settings of a run in words: the data, the method, the recipes, the machine."""

from typing import Any

from moso.analysis.wording import count_of, percent
from moso.configuration import CUSTOM
from moso.results.manifest import DataNote
from moso.results.reading import Run

Rows = list[tuple[str, str]]


def what_was_run(run: Run) -> dict[str, Any]:
    """Return facts in a few words, tables of names and values, and the configuration as TOML."""
    return {
        "facts": facts(run),
        "settings": settings(run),
        "recipes": recipes(run),
        "toml": run.configuration.to_toml(),
    }


def facts(run: Run) -> list[str]:
    """Return the run in a few short phrases."""
    c, described = run.configuration, run.manifest.get("dataset")
    found = []
    if described:
        found.append(count_of(described["train"], "training sample"))
        found.append(count_of(described["test"], "test sample"))
        found.append(run.task.learned)
    if c.label_noise:
        how = "drawn at random" if c.noise_kind == "symmetric" else "flipped to the next class"
        found.append(f"{percent(c.label_noise)} of labels {how}")
    if c.labels:
        found.append("labels replaced")
    return [*found, f"network {c.model}", f"recipe {c.recipe}", count_of(c.seeds, "seed")]


def settings(run: Run) -> list[tuple[str, Rows]]:
    """Return the settings of the run as titled tables of names and values."""
    c, described = run.configuration, run.manifest.get("dataset", {})
    data = [("data set", "in memory" if c.dataset == CUSTOM else c.dataset)]
    if described:
        fingerprints = ", ".join(f"{split} {value}" for split, value in described["fingerprint"].items())
        data += [
            ("samples", f"{described['train']:,} for training, {described['test']:,} for testing"),
            ("task", run.task.learned),
            ("shape of an input", _input(described)),
            ("labels drawn at random", f"{len(described['labels_drawn_at_random']):,}"),
            ("fingerprint", fingerprints),
        ]
    data += [(name, str(value)) for name, value in (("labels from", c.labels), ("resized to", c.resize)) if value]
    method = [
        ("surrogate's network", c.model),
        ("retrained network", c.retrained_network),
        ("partitions", str(c.partitions)),
        ("time steps", f"{c.time_steps}, {c.sampling}"),
        ("form of the score", c.form),
        ("parameters compared", c.parameters),
        ("samples scored in the view of", c.view),
        ("estimator of the terms", c.estimator),
        ("methods", ", ".join(f"{method} ({selector})" for method, selector in c.pairs())),
        ("shares removed", ", ".join(percent(ratio) for ratio in c.ratios)),
        ("seeds", ", ".join(str(seed) for seed in c.all_seeds())),
        ("kept equal between retrainings", c.match),
    ]
    machine = [("computed on", f"{c.device}, {count_of(c.threads, 'thread')} per training")]
    machine += [(name, str(value)) for name, value in run.manifest.get("machine", {}).items()]
    machine += [(name, str(value)) for name, value in run.manifest.get("versions", {}).items()]
    return [("Data", data), ("Scoring and proof", method), ("Machine and versions", machine)]


def _input(described: DataNote) -> str:
    size = " x ".join(str(size) for size in described["shape"])
    words = described["vocabulary"]
    return size if words is None else f"{size} tokens, of {words:,} known"


def recipes(run: Run) -> list[tuple[str, str, str]]:
    """Return every training setting: its name, the surrogates' value, the retrainings' value."""
    c = run.configuration
    names = c.surrogate.model_dump() | c.retraining.model_dump()
    return [
        (name.replace("_", " "), _value(getattr(c.surrogate, name)), _value(getattr(c.retraining, name)))
        for name in names
    ]


def _value(value: Any) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
