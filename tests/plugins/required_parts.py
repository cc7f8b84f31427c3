"""Where CI=true a test that is skipped has failed: nothing may be missing there.

A skip that no machine could avoid begins its reason with "by design:".
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

BY_DESIGN = "by design:"


def lacks_by_design(report: pytest.TestReport | pytest.CollectReport) -> bool:
    """Whether the report is of a skip that no machine could avoid."""
    return report.outcome == "skipped" and _reason(report).startswith(BY_DESIGN)


def _forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if os.environ.get("CI") != "true" or report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    if not lacks_by_design(report):
        report.outcome = "failed"
        report.longrepr = f"skipped where CI=true, so a part is missing: {_reason(report)}"


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return said.removeprefix("Skipped: ")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _forbid_skip(report)
    return report
