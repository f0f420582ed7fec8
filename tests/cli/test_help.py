"""Help and completion: complete sentences under headings, without importing what only work needs."""

import inspect
import os
import shlex
import subprocess
import sys
import typing

import pytest
import typer

from moso.cli.embed import BATCH
from moso.cli.main import app
from moso.cli.options.configuration_flags import RunSettings, option_of
from moso.cli.options.panels import FILES, OUTPUT, PANELS
from moso.cli.report import MEGABYTES
from moso.cli.verbs import VERBS
from moso.configuration import Configuration
from moso.configuration.fields import GROUPS, title_of
from moso.data.readers import MEMORY_LIMIT_BYTES
from moso.embedding.rows import BATCH_SIZE
from moso.evidence import MEAN_SHARE, Sampling
from moso.gradients.estimates.sketch import NUMBERS
from moso.report.page.page import MAX_MEGABYTES
from moso.scores import Form
from moso.tasks import Classification
from moso.training.recipe import Match

# Help of a verb needs its settings and so pydantic, the list of verbs does not.
HEAVY = ("torch", "numpy", "pyarrow", "rich", "scipy", "PIL", "matplotlib", "pydantic")
WATCHED = """
import sys
from moso.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    print(ended.code, *(name for name in {heavy} if name in sys.modules), file=sys.stderr)
"""


def watched(*arguments: str, **surroundings: str) -> tuple[str, str]:
    """What a command printed in a process of its own, and its exit code with the heavy packages it imported."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED.format(heavy=HEAVY), *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "100", **surroundings},
    )  # fmt: skip
    return done.stdout, done.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), *((verb, "--help") for verb in VERBS)])
def test_help_imports_nothing_that_only_work_needs(arguments):
    said, ended = watched(*arguments)
    assert ended in ("0\n", "0 pydantic\n") if arguments[0] in VERBS else ended == "0\n"
    assert "..." not in said.replace("]...", "")
    if arguments[-1] == "--help":
        assert "Example:" in said


def test_a_shell_completes_verbs_and_flags_at_once():
    said, ended = watched(_MOSO_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="moso ex")
    assert ended in ("0\n", "0 rich\n", "0 rich pydantic\n", "0 pydantic\n")  # Typer writes completions with Rich
    assert all(verb in said for verb in ("explore", "export", "exact"))
    assert "status" not in said
    said, ended = watched(_MOSO_COMPLETE="complete_bash", COMP_WORDS="moso run --part", COMP_CWORD="2")
    assert ended in ("0\n", "0 rich\n", "0 rich pydantic\n", "0 pydantic\n")
    assert "--partitions" in said


def command(verb: str) -> typing.Any:
    group = typer.main.get_command(app)
    return group.get_command(typer.Context(group), verb)


@pytest.mark.parametrize("verb", VERBS)
def test_every_example_is_a_command_that_parses(verb):
    words = shlex.split(VERBS[verb].example)
    assert words[:2] == ["moso", verb]
    command(verb).make_context(verb, words[2:])


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_has_help_under_a_heading(verb):
    for parameter in command(verb).params:
        assert parameter.help, parameter.name
        if parameter.param_type_name != "argument":
            assert parameter.rich_help_panel in (*PANELS, OUTPUT), parameter.name


def test_flags_of_a_run_stand_under_the_six_headings_with_their_defaults():
    said, _ = watched("run", "--help")
    headings = [line.rstrip(":") for line in said.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == [FILES, *PANELS, OUTPUT, "Options", "Example"]
    flat = " ".join(said.split())
    for text in ("--partitions N number of partitions (the paper's I); 1 disables partitioning [default: 5]",
                 "[default: 0.4, 0.6, 0.8]", "--keep TEXT", "--quick", "--tolerance NUMBER"):  # fmt: skip
        assert text in flat


def test_every_setting_of_a_configuration_is_a_flag_or_named_as_none():
    declared = {name for group in GROUPS for name in group.model_fields}
    assert set(Configuration.model_fields) == declared | {"surrogate", "retraining"}
    names = {one.name for one in RunSettings.flags()}
    assert declared - {"format", "by_class", "also_match"} <= names
    assert all(isinstance(one, inspect.Parameter) for one in RunSettings.flags())
    assert option_of("ratios") == "--ratio"
    assert tuple(title_of(group) for group in GROUPS) == PANELS


def test_settings_repeat_what_lower_rooms_own():
    """`configuration/fields.py` imports no other room, so these are written twice."""
    fields = Configuration.model_fields

    def choices(name: str) -> set[str]:
        return set(typing.get_args(fields[name].annotation))

    assert choices("sampling") == set(typing.get_args(Sampling))
    assert choices("form") == set(typing.get_args(Form))
    assert choices("match") == set(typing.get_args(Match))
    assert fields["mean_share"].default == MEAN_SHARE
    assert fields["sketch_numbers"].default == NUMBERS
    assert fields["memory_limit"].default * 2**30 == MEMORY_LIMIT_BYTES
    assert fields["task"].default == Classification.name
    assert MEGABYTES == MAX_MEGABYTES
    assert BATCH == BATCH_SIZE


def test_a_verb_that_does_not_exist_is_refused_with_the_nearest(left):
    code, _, said = left("exprt")
    assert code == 2
    assert "export" in said
