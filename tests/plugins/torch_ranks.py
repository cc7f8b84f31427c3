"""Tests with torch: skipped where there is none; one thread for each rank.

Eight threads of four ranks on two cores mostly wait for each other. What a rank gets of itself is the subject of tests
without torch (`tests/render/test_prologue.py`).
"""

from __future__ import annotations

import os
from collections.abc import Generator
from importlib.util import find_spec

import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test with torch where torch is missing. A file that imports it to see costs every collection seconds."""
    if item.get_closest_marker("torch") is not None and find_spec("torch") is None:
        pytest.skip("torch is missing: make test installs it")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Say OMP_NUM_THREADS=1 while a test with torch runs."""
    if item.get_closest_marker("torch") is None:
        return (yield)
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        return (yield)
    finally:
        del os.environ["OMP_NUM_THREADS"]
