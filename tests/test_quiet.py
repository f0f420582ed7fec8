"""Other packages' notices to their developers do not reach the user; the warnings of the user's own code do."""

import os
import subprocess
import sys
import textwrap

# Every module, a network of timm's, and a score by PyTorch's forward mode, as a user's script would have them.
LIBRARY = """
import importlib, pkgutil
import numpy as np
import torch
import moso.models, moso.cli.main
for one in pkgutil.walk_packages(moso.__path__, "moso."):
    if one.name != "moso.__main__":
        importlib.import_module(one.name)
draw = np.random.default_rng(0)
data = draw.normal(size=(40, 3, 16, 16)).astype(np.float32), np.arange(40) % 2
pruned = moso.prune(data, ratio=0.5, model="mlp-w8", epochs=2, partitions=1, time_steps=1, augmentation="none")
network = moso.models.build_model("resnet18", (3, 16, 16), classes=2, seed=0)
print(len(pruned.kept), tuple(network(torch.zeros(2, 3, 16, 16)).shape))
"""
OWN = """
import warnings
import moso
from moso.quiet import quiet_notices
with quiet_notices():
    warnings.warn("not shown", FutureWarning)
warnings.warn("the user's own", FutureWarning)
warnings.warn("the user's own, too", DeprecationWarning)
"""


def script(program: str, *flags: str) -> subprocess.CompletedProcess[str]:
    # Some versions of torch leave a temporary folder to the end of the process, and say so there.
    flags = (*flags, "-W", "ignore::ResourceWarning")
    return subprocess.run(
        [sys.executable, *flags, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONWARNINGS": ""},
    )  # fmt: skip


def test_a_script_that_takes_every_warning_for_an_error_runs() -> None:
    done = script(LIBRARY, "-W", "error")
    assert (done.returncode, done.stdout, done.stderr) == (0, "20 (2, 2)\n", "")


def test_warnings_of_the_users_own_code_are_shown() -> None:
    said = script(OWN, "-W", "default").stderr
    assert "FutureWarning: the user's own" in said
    assert "DeprecationWarning: the user's own, too" in said
    assert "not shown" not in said
