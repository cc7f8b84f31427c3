"""The registry as the suite sees it: what ships, and what only the tests have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster import launchers

from .extra.flux import Flux

EXTRA = (Flux,)


@pytest.fixture(scope="package", autouse=True)
def registered() -> Iterator[None]:
    """The launchers of the tests, for as long as this folder's tests run."""
    for launcher in EXTRA:
        launchers.register(launcher)
    yield
    for launcher in EXTRA:
        launchers.forget(launcher.name)
