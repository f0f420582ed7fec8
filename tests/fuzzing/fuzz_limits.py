"""How a case of the fuzzer is run: in this process, with a time limit, and with nothing but an answer or a refusal."""

import os
import signal
import warnings
from collections.abc import Callable
from contextlib import contextmanager

from hypothesis import HealthCheck, settings

from moso.cli.main import main
from moso.errors import MosoError

# Cases per kind of input: always the same few, unless `make fuzz` asks for many, by a seed.
CASES = int(os.environ.get("MOSO_FUZZ_CASES", "8"))
SECONDS = 120
fuzzed = settings(
    max_examples=CASES,
    derandomize="MOSO_FUZZ_CASES" not in os.environ,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class Hangs(BaseException):
    """A case took longer than any input may take; not an `Exception`, so that nobody swallows it."""


@contextmanager
def time_limit():
    def stop(*_):
        raise Hangs(f"after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def command(capsys, *arguments: str) -> str:
    """Run a command; it ends well, or is refused with one sentence. Returns what it printed."""
    with time_limit(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            main([str(one) for one in arguments])
        except SystemExit as ended:
            code = ended.code
        else:
            code = 0
    said = capsys.readouterr()
    assert code in (0, 2, None), f"exit {code}: {said.err}"
    assert "Traceback" not in said.err
    if code == 2:
        assert said.err.strip() or said.out.strip(), "refused without a word"
    return said.out


def answer(action: Callable[[], object]) -> object | None:
    """Call a function; return what it returns, or None if it refused the input with a sentence."""
    with time_limit(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return action()
        except MosoError as problem:
            refused = problem
    assert str(refused).strip(), "refused without a word"
    assert refused.code != "unclassified"
    return None
