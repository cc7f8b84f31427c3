"""One body over all launchers × engines of the registry: what every launcher and every engine has to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from launch.plans import FACTS, JOB_FACTS
from muster.errors import MusterError
from muster.launchers import launcher_named
from muster.launchers.base import RANK
from muster.model.plan import Plan
from muster.model.words import quote
from muster.render.explain import explain
from muster.render.folder import texts_of_folder
from muster.render.image import step_words, with_step_flags
from muster.render.own_text import own_text, prologue_text
from muster.render.script import job_script
from muster.runner import run
from plugins.wide import sampled

from .cases import CASES, Case, execute, is_in_slurm, plan_of

each_case = pytest.mark.parametrize("case", CASES, ids=str)
# The sample for `make test-fast`: each launcher without an image, and each engine under srun.
_SAMPLE = {case for case in CASES if case.engine == "none" or case.launcher == "srun"}


def planned(case: Case, folder: Path, *more: str, stream: bool = True) -> Plan:
    """The plan; a pair that is refused says why and what to do, and is passed over."""
    made = plan_of(case, folder, *more, stream=stream)
    if isinstance(made, MusterError):
        assert made.message
        assert made.hint
        pytest.skip(f"by design: refused, {made.message}")
    return made


# shellcheck takes half a second each: `make test-fast` has none of these, the nearest tests of a change those that no
# golden script of tests/render stands for, and `make test` adds each engine under an agent, whose ranks start it.
_GOLDEN = {
    "srun",
    "torchrun",
    "mpirun",
    "mpirun+torchrun",
    "local",
    "apptainer",
    "pyxis",
    "cscs",
}


@pytest.mark.parametrize(
    "case",
    sampled(
        CASES,
        keep=lambda case: case in _SAMPLE and not {case.launcher, case.engine} - {"none"} <= _GOLDEN,
        test=lambda case: case in _SAMPLE or case.launcher == "torchrun",
    ),
    ids=str,
)
@pytest.mark.programs
def test_the_script_is_the_same_twice_and_passes_shellcheck(case: Case, tmp_path: Path) -> None:
    made = planned(case, tmp_path)
    script = tmp_path / "job.sh"
    script.write_text(job_script(made))

    assert job_script(made) == job_script(made)
    result = run(["shellcheck", str(script)])
    assert result.ok, result.stdout


# Lines of Muster's own text in a job that `muster submit` queues: without an image, and what each engine adds.
_LINES = {
    "srun": 411,
    "ibrun": 461,
    "local": 223,
    "flux": 303,
    "mpirun": 544,
    "torchrun": 455,
    "ft": 455,
    "mpirun+torchrun": 556,
}
_LINES_OF_ENGINE = {"none": 0, "shifter": 11, "pyxis": 23, "cscs": 23, "docker": 108}


@each_case
def test_muster_s_own_text_does_not_grow_unseen(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read by those who ask what runs: a part that some jobs need is for these jobs."""
    monkeypatch.setattr("launchers.cases.FACTS", JOB_FACTS)
    made = planned(case, tmp_path, "-g", "2", "-c", "8", stream=False)
    lines = len(own_text(with_step_flags(made)).splitlines())

    assert case.launcher in _LINES, f"{case} has {lines} lines: enter what {case.launcher}-none has in _LINES"
    assert lines <= _LINES[case.launcher] + _LINES_OF_ENGINE.get(case.engine, 103)


_DEFINED = re.compile(r"^ *(muster_[a-z_0-9]+)\(\)", re.MULTILINE)
_CALLED = re.compile(
    r"(?:^|\|\||&&|[;{(!]|\bif|\bthen|\bdo|\$\()\s*(muster_[a-z_0-9]+)(?=[\s)]|$)(?! *\+?=)", re.MULTILINE
)
_ARITHMETIC = re.compile(r"\$?\(\(.*?\)\)")


def undefined(text: str) -> set[str]:
    """Return the functions that a text calls and does not have."""
    bare = _ARITHMETIC.sub("", re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE))
    return set(_CALLED.findall(bare)) - set(_DEFINED.findall(bare))


@each_case
@pytest.mark.parametrize("texts", [None, "/nowhere/texts"], ids=["whole", "read"])
def test_no_function_is_called_that_is_not_there(
    case: Case, texts: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchers.cases.FACTS", replace(FACTS, texts=texts))
    made = planned(case, tmp_path)
    prologues = launcher_named(made.launcher).prologues(made)
    process_texts = [prologue_text(made, prologue) for prologue in prologues]
    script = job_script(made)
    for text in process_texts:
        script = script.replace(text, "")

    # An agent's ranks stand on what its own prologue says.
    assert [undefined(text) for text in process_texts] == [set() for _ in process_texts]
    assert undefined(script) == set()
    assert prologues[0].variable == RANK


@each_case
def test_every_flag_of_the_line_has_its_reason(case: Case, tmp_path: Path) -> None:
    made = planned(case, tmp_path)
    told = {text for _, text, reason in explain(made) if reason.text and reason.origin}
    flags = launcher_named(made.launcher).flags(with_step_flags(made))

    assert {quote(flag.word) for flag in flags} <= told
    line = " ".join(quote(word) for word in step_words(with_step_flags(made)))
    assert all(quote(flag.word) in line for flag in flags if flag not in made.mpirun_flags)


# Pairs that say little of their own take minutes together: one launcher of each kind meets every engine.
def _pairs(*fast: str) -> pytest.MarkDecorator:
    """Return a parameter of all pairs, those without an image under the launchers of `fast` in `make test-fast`."""
    return pytest.mark.parametrize(
        "case",
        sampled(
            [
                case
                if case.engine == "none" or case.launcher in {"srun", "torchrun"}
                else pytest.param(case, marks=pytest.mark.long)
                for case in CASES
            ],
            keep=lambda case: isinstance(case, Case) and case.engine == "none" and case.launcher in fast,
        ),
        ids=str,
    )


@_pairs("srun", "mpirun", "torchrun", "local")
def test_the_ranks_know_who_they_are_read_and_are_labelled(case: Case, tmp_path: Path) -> None:
    made = planned(case, tmp_path)

    ran = execute(made, tmp_path)

    assert ran.result.ok, ran.result.stderr
    ranks = sorted(ran.ranks, key=lambda rank: str(rank["RANK"]))
    assert [rank["RANK"] for rank in ranks] == ["0", "1", "2", "3"], ran.result.stderr
    assert [rank["LOCAL_RANK"] for rank in ranks] == ["0", "1", "0", "1"]
    assert {rank["WORLD_SIZE"] for rank in ranks} == {"4"}
    assert {rank["LOCAL_WORLD_SIZE"] for rank in ranks} == {"2"}
    assert [rank["GROUP_RANK"] for rank in ranks] == ["0", "0", "1", "1"]
    assert {rank["MASTER_ADDR"] for rank in ranks} == {"node1" if is_in_slurm(made) else "127.0.0.1"}
    assert len({rank["MASTER_PORT"] for rank in ranks}) == 1
    assert {rank["MUSTER_LAUNCHER"] for rank in ranks} == {made.launcher}
    assert {rank["MINE"] for rank in ranks} == {"a b$c"}
    assert [rank["read"] for rank in ranks] == ["one line", "", "", ""]
    if is_in_slurm(made) and made.label:  # on this machine the supervisor puts the labels
        assert ran.labels == [int(str(rank["RANK"])) for rank in ran.ranks]


@pytest.mark.parametrize("launcher", ["srun", "mpirun", "torchrun", "mpirun+torchrun"])
@pytest.mark.parametrize("is_there", [True, False], ids=["read", "not there"])
@pytest.mark.parametrize("fails", ["", pytest.param("2", marks=pytest.mark.wide)], ids=["well", "failed"])
def test_the_ranks_run_where_the_script_reads_its_rest_and_where_it_cannot(
    launcher: str, is_there: bool, fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchers.cases.FACTS", replace(FACTS, texts=str(tmp_path / "texts")))
    made = planned(Case(launcher, "none"), tmp_path)
    (tmp_path / "texts").mkdir()
    for name, text in texts_of_folder().items() if is_there else ():
        (tmp_path / "texts" / name).write_text(text)

    ran = execute(made, tmp_path, **({"STUB_FAILS": fails} if fails else {}))

    assert ran.result.status == (7 if fails else 0), ran.result.stderr
    assert fails or sorted(str(rank["RANK"]) for rank in ran.ranks) == ["0", "1", "2", "3"], ran.result.stderr
    assert ("cannot read" in ran.result.stderr) is not is_there


# How a status reaches the end of a job differs between these.
@_pairs("srun", "torchrun")
def test_the_status_is_that_of_the_rank_that_failed(case: Case, tmp_path: Path) -> None:
    made = planned(case, tmp_path)

    ran = execute(made, tmp_path, STUB_FAILS="2")

    assert ran.result.status == 7, ran.result.stderr
