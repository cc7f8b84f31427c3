"""On a real Slurm each rule's bad example goes wrong as its page says, and the good one is right.

`pytest --update-golden` writes the records anew and fails once; then scripts/make_lint_rules.py puts them on the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.lab_runs import path_with
from muster.runner import checked
from muster_lint.rule import all_rules
from muster_lint.shown import Shown, runs_table
from plugins.labs import ROOT, Lab, Person, lab_up

from .runs import SIDES, keep_record, kept_record, kept_texts, records_of, write_folders

_SHOWN = {rule.name: shown for rule, shown in runs_table().rules()}
_SHORT = [name for name, shown in _SHOWN.items() if not shown.long]
_LONG = [name for name, shown in _SHOWN.items() if shown.long]
# Every job gets its place at once: CPUs and GPUs of a lab are declared, not owned.
_SIZE = ("-N", "8", "--cpus-per-node", "64", "--gpus-per-node", "16", "--memory", "256G")
_PARTITION = ("--partition", "batch:default,default-time=10")

Records = dict[str, dict[str, str]]


def test_every_rule_answers_for_its_run() -> None:
    table = runs_table()
    assert set(table.runs) == {rule.name for rule in all_rules()}
    assert len(table.rules()) >= 35
    for shown in table.runs.values():
        assert bool(shown.not_run) != bool(shown.before and shown.after and shown.says)


def test_every_run_has_its_record_and_no_record_is_left_over() -> None:
    assert set(kept_texts()) == set(_SHOWN)


@pytest.mark.parametrize("name", _SHOWN)
def test_the_kept_record_shows_what_the_rule_says(name: str) -> None:
    _check(_SHOWN[name], kept_record(name))


def _check(shown: Shown, records: dict[str, str]) -> None:
    """Each pattern fits its own side, and says something: it does not fit the other."""
    fits = {
        (pattern, side): bool(re.search(getattr(shown, pattern), records[side].rstrip(), re.DOTALL))
        for pattern in SIDES
        for side in SIDES
    }
    assert fits == {(pattern, side): pattern == side for pattern in SIDES for side in SIDES}, records


@pytest.fixture(scope="module")
def lab_of_rules(tester: Person, slurm_version: str) -> Iterator[Lab]:
    with lab_up(tester, "rules", "--slurm", slurm_version, *_SIZE, *_PARTITION) as made:
        yield made


@pytest.fixture(scope="module")
def short_runs(lab_of_rules: Lab, scratch: Path, slurm_version: str) -> Records:
    return _run_all(lab_of_rules, scratch / f"short-{slurm_version}", _SHORT)


@pytest.fixture(scope="module")
def long_runs(lab_of_rules: Lab, scratch: Path, slurm_version: str) -> Records:
    return _run_all(lab_of_rules, scratch / f"long-{slurm_version}", _LONG)


def _run_all(lab: Lab, top: Path, names: list[str]) -> Records:
    """Submit both examples of these rules at once, and return what is recorded of them."""
    write_folders(top, [(rule, shown) for rule, shown in runs_table().rules() if rule.name in names])
    # The shell has the module command, and hands it to the jobs as a login shell does.
    start = ". /usr/share/modules/init/bash && exec python3 tests/lint/submit_all.py"
    # Unbuffered, a line and its end are two writes, between which another rank's line may come.
    words = ["env", "-u", "PYTHONUNBUFFERED", "bash", "-c", f"{start} {top}"]
    checked(lab.exec(words, cwd=ROOT, env={"PATH": path_with()}, timeout_s=500))
    return {name: {side: records_of(top / name / side, _SHOWN[name]) for side in SIDES} for name in names}


@pytest.mark.lab
@pytest.mark.parametrize("name", _SHORT)
def test_the_examples_of_a_rule_run_as_its_page_says(
    name: str, short_runs: Records, slurm_version: str, request: pytest.FixtureRequest
) -> None:
    if slurm_version != "system":
        _check_other(name, short_runs[name])
    else:
        _compare(name, short_runs[name], update=request.config.getoption("--update-golden"))


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.parametrize("name", _LONG)
def test_the_slower_examples_of_a_rule_run_as_its_page_says(
    name: str, long_runs: Records, slurm_version: str, request: pytest.FixtureRequest
) -> None:
    if slurm_version != "system":
        _check_other(name, long_runs[name])
    else:
        _compare(name, long_runs[name], update=request.config.getoption("--update-golden"))


def _check_other(name: str, records: dict[str, str]) -> None:
    """A newer Slurm shows the same fault, in words of its own; a rule on older ones is right that it does not."""
    is_gone = name == "output-folder"
    assert (re.search(_SHOWN[name].before, records["before"].rstrip(), re.DOTALL) is None) == is_gone, records


def _compare(name: str, records: dict[str, str], *, update: bool) -> None:
    kept = kept_record(name)
    if update and kept != records:
        keep_record(name, records)
    _check(_SHOWN[name], records)
    assert records == kept, "hint: pytest --update-golden, read the difference, then scripts/make_lint_rules.py"
