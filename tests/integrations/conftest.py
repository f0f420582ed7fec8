"""What the frameworks need to be tried in one process, one after the other."""

import pytest

from moso.models.compat import prepare_torchvision

prepare_torchvision()  # transformers and Lightning import a whole torchvision, or none


@pytest.fixture
def accelerate():
    """Accelerate keeps its settings for the life of a process; each test starts from none."""
    found = pytest.importorskip("accelerate")
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    yield found
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
