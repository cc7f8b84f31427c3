"""Plain tests: a function of its parameters alone has nothing to set up and nothing to tear down.

Three of four tests are rows of a table. pytest runs three phases for each, makes a fixture of each parameter, and makes
three reports: half a millisecond of a core, more than most rows compute. Here a plain test has its call and one report.
What does not pass is reported by pytest, as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import pytest

_HARMLESS_MARKS = {"parametrize", "wide", "programs", "long"}
_places: dict[Callable[..., object], tuple[str, int | None]] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a plain test and report its end; return None for another test, which pytest runs itself."""
    if not isinstance(item, pytest.Function) or not _is_plain(item):
        return None
    place = _places.get(item.function) or _places.setdefault(item.function, item.location[:2])
    item.location = (*place, item.name)
    item.funcargs = dict(item.callspec.params) if item.fixturenames else {}
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    _report(item, _run(item.ihook.pytest_runtest_call, "call", item=item))
    if nextitem is None or nextitem.parent is not item.parent:  # what other tests of the file have set up
        torn_down = _run(item.ihook.pytest_runtest_teardown, "teardown", item=item, nextitem=nextitem)
        if torn_down.excinfo is not None:
            _report(item, torn_down)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _is_plain(item: pytest.Function) -> bool:
    """Whether no fixture but its parameters, and no mark but a harmless one, stands at the test."""
    known = getattr(item, "_fixtureinfo", None)  # a name of pytest's own: a pytest without it runs each test itself
    fixtures = known.name2fixturedefs if known is not None else {}
    return (
        item.cls is None
        and not item.config.option.usepdb
        and not item.config.pluginmanager.has_plugin("logging-plugin")  # it prepares each test
        and all(mark.name in _HARMLESS_MARKS for mark in item.iter_markers())
        and all(
            name in fixtures and fixtures[name][-1].func.__name__ == "get_direct_param_fixture_func"
            for name in item.fixturenames
        )
    )


def _run(hook: Callable[..., object], when: Literal["call", "teardown"], **words: object) -> pytest.CallInfo[object]:
    return pytest.CallInfo.from_call(partial(hook, **words), when, reraise=(pytest.exit.Exception, KeyboardInterrupt))


def _report(item: pytest.Function, call: pytest.CallInfo[object]) -> None:
    if call.excinfo is None:
        report = pytest.TestReport(item.nodeid, item.location, {}, "passed", None, "call", duration=call.duration)
    else:
        report = item.ihook.pytest_runtest_makereport(item=item, call=call)
    item.ihook.pytest_runtest_logreport(report=report)
