"""`--slurm system,24.11,26.05`: the lab's tests over several Slurm versions, and a count of what ran on each.

A test that takes `slurm_version` runs once per version. At the end one line per version says how many tests ran,
how many were skipped, and what the version lacks by design; versions on which different tests ran make the run fail.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from plugins.required_parts import lacks_by_design

# From the best to the worst: a test is as good as the worst of its phases.
_OUTCOMES = ("passed", "lacking", "skipped", "failed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slurm", default="system", metavar="VERSIONS", help="Slurm versions for the lab, separated by commas"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Tally(config.getoption("--slurm").split(",")), "slurm-tally")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "slurm_version" in metafunc.fixturenames:
        metafunc.parametrize("slurm_version", metafunc.config.getoption("--slurm").split(","), scope="session")


class _Tally:
    """Which tests passed, failed, were skipped, and were skipped by design, per version."""

    def __init__(self, versions: list[str]) -> None:
        self.seen: dict[str, dict[str, str]] = {version: {} for version in versions}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        callspec = getattr(item, "callspec", None)
        version = callspec.params.get("slurm_version") if callspec else None
        if version is not None:
            outcomes, name = self.seen[version], _name_without_version(item)
            outcome = "lacking" if lacks_by_design(report) else report.outcome
            outcomes[name] = max(outcomes.get(name, "passed"), outcome, key=_OUTCOMES.index)
        return report

    def taken(self, version: str) -> set[str]:
        """The tests that ran on `version`, or whose part it is known to lack."""
        return {name for name, outcome in self.seen[version].items() if outcome != "skipped"}

    @property
    def is_even(self) -> bool:
        """Whether the same tests were taken on every version."""
        return len({frozenset(self.taken(version)) for version in self.seen}) <= 1

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and not self.is_even:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self.seen) == 1:
            return
        terminalreporter.section("Slurm versions")
        for version, outcomes in self.seen.items():
            counts = [f"{list(outcomes.values()).count(outcome)} {outcome}" for outcome in _OUTCOMES]
            terminalreporter.write_line(f"{version:<8} {', '.join(counts)}")
            for name in sorted(name for name, outcome in outcomes.items() if outcome == "lacking"):
                terminalreporter.write_line(f"{'':<8} lacking: {name}")
        everywhere = set.intersection(*(self.taken(version) for version in self.seen))
        for version in self.seen:
            for name in sorted(self.taken(version) - everywhere):
                terminalreporter.write_line(f"not on every version: {name} ran on {version}", red=True)


def _name_without_version(item: pytest.Function) -> str:
    others = {name: value for name, value in item.callspec.params.items() if name != "slurm_version"}
    return f"{item.nodeid.partition('[')[0]}{sorted(others.items(), key=repr) if others else ''}"
