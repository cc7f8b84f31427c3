"""What every test may use."""

import pytest

pytest_plugins = ["plugins.horovod", "plugins.labs", "plugins.required_parts", "plugins.slurm_versions"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The golden files are written anew on request only."""
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew, and fail once")
