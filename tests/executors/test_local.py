"""Local worker processes: as if each had been started afresh, though they are copies of one server."""

import os

import torch

from moso.executors.local import LocalProcesses


def _product(size: int) -> float:
    return float((torch.ones(size, size) @ torch.ones(size, size)).sum())


def test_workers_have_the_environment_of_their_own_start(monkeypatch):
    monkeypatch.setenv("MOSO_TEST_WORKERS", "first")
    with LocalProcesses(1) as processes:
        assert processes._pool.submit(os.getenv, "MOSO_TEST_WORKERS").result() == "first"
    monkeypatch.setenv("MOSO_TEST_WORKERS", "second")
    with LocalProcesses(1) as processes:
        assert processes._pool.submit(os.getenv, "MOSO_TEST_WORKERS").result() == "second"
    monkeypatch.delenv("MOSO_TEST_WORKERS")
    with LocalProcesses(1) as processes:
        assert processes._pool.submit(os.getenv, "MOSO_TEST_WORKERS").result() is None


def test_threads_of_this_process_do_not_block_a_worker():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        expected = _product(300)  # starts threads here, whose locks a copy of this process would inherit
        with LocalProcesses(2) as processes:
            assert [processes._pool.submit(_product, 300).result(timeout=900) for _ in range(4)] == [expected] * 4
    finally:
        torch.set_num_threads(before)
