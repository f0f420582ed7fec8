"""The library's reference: pages for mkdocstrings, from the public names of `moso`."""

import importlib
import inspect
from pathlib import Path

import moso

GROUPS = {
    "prune": ("Prune", ("prune", "PruneConfig", "Pruned", "Verdict")),
    "score": (
        "Score your own training",
        ("score", "Recorder", "Attachment", "Trajectory", "TrajectoryPoint", "Dynamics", "Estimator", "Loss", "Risk",
         "SampleRisk", "Collate", "cross_entropy", "squared_error"),
    ),
    "select": ("Select", ("select", "select_stream", "Keep", "Selector", "Selection", "Score", "Method")),
    "tasks": ("Tasks", ("Task", "Classification", "Regression", "MultiLabel", "OwnTask", "PerSample")),
}  # fmt: skip
REST = ("runs", "Runs and their parts")


def api_pages() -> dict[str, str]:
    """Return the pages of the library, by their address on the site."""
    pages = {f"reference/api/{key}.md": _page(title, names) for key, (title, names) in grouped().items()}
    parts = ["# moso.integrations", "One module per package; see [how to use them](../../integrations.md)."]
    folder = Path(str(importlib.import_module("moso.integrations").__file__)).parent
    for file in sorted(folder.glob("*.py")):
        if file.stem not in ("__init__", "needed", "framework_recording", "run_log", "head_losses"):
            parts.append(f"::: moso.integrations.{file.stem}\n    options:\n      show_root_full_path: true")
    pages["reference/api/integrations.md"] = "\n\n".join(parts) + "\n"
    return pages


def grouped() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the public names by page; a new name that no page claims is on the last one."""
    public = [name for name in moso.__all__ if name != "__version__"]
    pages = {key: (title, tuple(name for name in names if name in public)) for key, (title, names) in GROUPS.items()}
    claimed = {name for _, names in pages.values() for name in names}
    pages[REST[0]] = (REST[1], tuple(name for name in public if name not in claimed))
    return pages


def api_list() -> str:
    """Return a table of all public names with the first line of their docstrings, linked to their pages."""
    rows = ["| name | what it is |", "| --- | --- |"]
    for key, (_, names) in grouped().items():
        rows += [f"| [`moso.{name}`](api/{key}.md#{address(name)}) | {summary(name)} |" for name in names]
    return "\n".join(rows)


def address(name: str) -> str:
    """Return the full name of the object behind a public name: where it is written."""
    found = getattr(moso, name)
    if inspect.isclass(found) or inspect.isfunction(found):
        return f"{found.__module__}.{found.__qualname__}"
    return f"{moso._HOMES[name]}.{name}"


def summary(name: str) -> str:
    """Return the first line of a public name's docstring; type aliases have none."""
    found = getattr(moso, name)
    if not (inspect.isclass(found) or inspect.isfunction(found)):
        return "a type"
    return (inspect.getdoc(found) or "").split("\n")[0].replace("|", "\\|")


def _page(title: str, names: tuple[str, ...]) -> str:
    return "\n\n".join([f"# {title}", *(f"::: {address(name)}" for name in names)]) + "\n"
