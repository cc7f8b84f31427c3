"""What every test may use."""

import pytest
from hypothesis import HealthCheck, settings

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
    "plugins.required_parts",
    "plugins.slurm_versions",
    "plugins.torch_ranks",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The golden files are written anew on request only."""
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew, and fail once")
