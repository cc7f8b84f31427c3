"""A misspelt module is told before the job waits, where the program behind `module` lists what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from launch.plans import plan
from muster.errors import MachineLacks
from muster.look.modules import missing_module
from muster.runner import ProgramResult

LMOD = {"LMOD_CMD": "/usr/share/lmod/lmod/libexec/lmod", "MODULEPATH": "/mf"}
TCL = {"MODULES_CMD": "/usr/lib/modulecmd.tcl", "MODULEPATH": "/mf"}
# Lmod 8.6.19 and Environment Modules 5.2.0, with the folders and names shortened.
OF_LMOD = (
    "/mf:\nPyTorch/\nPyTorch/2.1\nPyTorch/2.4 (D)\ngcc/\ngcc/12\n",
    "MODULEPATH=/mf;\nexport MODULEPATH;\n_ModuleTable_Sz_=2;\n",
)
OF_TCL = ("/mf:\ngcc/12\nPyTorch/2.1\nPyTorch/2.4(default)\n\n/usr/share/modules/modulefiles:\ndot\n", "")


class Answers:
    """Each question gets the lines that hold its name, as both programs answer."""

    def __init__(self, listed: tuple[str, str]) -> None:
        self.listed = listed
        self.asked: list[tuple[str, ...]] = []
        self.folders: set[str] = set()

    def __call__(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **_: object) -> ProgramResult:
        assert env is not None
        self.asked.append(tuple(argv[4:]))
        self.folders.add(env["MODULEPATH"])
        lines = [line for line in self.listed[0].splitlines() if not argv[4:] or argv[4] in line.lower()]
        return ProgramResult(tuple(argv), 0, self.listed[1], "\n".join(lines))


def told(answers: Any, *words: str, environment: Mapping[str, str] = LMOD) -> str:
    made = plan("--site", "generic", "-N1", *words, "--", "true")
    modules = [word for before, word in zip(words, words[1:]) if before == "--module"]
    return missing_module(modules, made.prelude, environment, answers)


@pytest.mark.parametrize(("environment", "listed"), [(LMOD, OF_LMOD), (TCL, OF_TCL)], ids=["lmod", "tcl"])
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("PyTorch", ""),
        ("PyTorch/2.4", ""),
        ("PyTorch/2", ""),
        ("pytorch", ""),
        ("none|gcc", ""),
        ("pytroch", "the module 'pytroch' is not on this host: did you mean 'PyTorch'?"),
        ("PyTorch/2.9", "the module 'PyTorch/2.9' is not on this host: it has PyTorch/2.1, PyTorch/2.4"),
        ("amber", "the module 'amber' is not on this host: is it on the nodes?"),
    ],
)
def test_what_the_host_does_not_list_is_told(
    name: str, sentence: str, environment: Mapping[str, str], listed: tuple[str, str]
) -> None:
    assert told(Answers(listed), "--module", name, environment=environment) == sentence


def test_a_module_that_is_there_costs_one_question_and_no_list_of_all() -> None:
    answers = Answers(OF_LMOD)

    assert told(answers, "--module", "gcc") == ""
    assert answers.asked == [("gcc",)]


def test_folders_of_the_job_are_looked_at_and_nothing_is_said_of_what_another_module_may_bring() -> None:
    answers = Answers(OF_LMOD)

    assert told(answers, "--module-use", "/own", "--module", "gcc", "--module", "brought-by-gcc") == ""
    assert answers.folders == {"/own:/mf"}
    assert answers.asked == [("gcc",)]


def test_where_the_site_loads_modules_first_nobody_is_asked() -> None:
    made = plan("--site", "lumi", "-A", "project_465000000", "-N1", "-t30", "--module", "pytroch", "--", "true")

    assert missing_module(["other"], made.prelude, LMOD, Answers(OF_LMOD)) == ""


@pytest.mark.parametrize("environment", [{}, {"MODULEPATH": "/mf"}])
def test_without_a_program_behind_module_nothing_is_known(environment: Mapping[str, str]) -> None:
    assert told(Answers(OF_LMOD), "--module", "pytroch", environment=environment) == ""


def test_a_program_that_lists_nothing_or_is_not_there_tells_nothing() -> None:
    def gone(*_: Any, **__: Any) -> ProgramResult:
        raise MachineLacks("lmod", "the program 'lmod' is not there", hint="")

    assert told(Answers(("", "")), "--module", "pytroch") == ""
    assert told(gone, "--module", "pytroch") == ""
