"""What tests of executors share: nothing that a test began outlives it."""

import pytest
from clusters import end_all


@pytest.fixture(autouse=True)
def nothing_left():
    """End the runs that a test began, also if it failed."""
    yield
    end_all()
