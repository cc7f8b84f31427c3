"""Tests that an image engine takes part in: `make test` runs them, `make test-fast` does not.

A build or a start by Apptainer takes a second of a core. Whoever changes `muster_build` runs `pytest tests/build`.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

_ENGINES = {"apptainer", "engine_for_all", "images"}
"""The fixtures that prepare an engine."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Mark each test that asks for an engine, before marks are chosen by `-m`."""
    for item in items:
        if not _ENGINES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.programs)
