"""What every test may use."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# A busy machine is no finding: examples are counted, never timed.
settings.register_profile("whole", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Other examples in each run. `make test-long` takes 100 of each: --hypothesis-profile=whole.
settings.register_profile("counted", settings.get_profile("whole"), max_examples=30)
settings.load_profile("counted")

pytest_plugins = [
    "plugins.own_home",  # the first: the others and the tests read the environment
    "plugins.bytecode",
    "plugins.garbage",
    "plugins.labs",
    "plugins.plain",
    "plugins.programs",
    "plugins.required_parts",
    "plugins.slurm_versions",
    "plugins.torch_ranks",
]


def pytest_configure(config: pytest.Config) -> None:
    """Let Hypothesis try no constants of our source, unless the profile is "whole".

    It parses every module for them: three seconds of each process of a fresh clone, one of each later.
    """
    if config.getoption("hypothesis_profile", None) != "whole" and hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = lambda: providers._local_constants


def pytest_addoption(parser: pytest.Parser) -> None:
    """The golden files are written anew on request only."""
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew, and fail once")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with its golden file; write the file anew where that was asked for, and fail once all the same."""

    def compare(path: Path, made: str) -> None:
        kept = path.read_text(encoding="utf-8") if path.exists() else ""
        if made != kept and request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made, encoding="utf-8")
        difference = "".join(difflib.unified_diff(kept.splitlines(True), made.splitlines(True), path.name, "made"))
        assert made == kept, f"{difference}\nhint: pytest --update-golden, then read the difference"

    return compare
