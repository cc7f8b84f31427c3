"""Each condition before and after a submission, by the smallest state of the disk or answer that it decides on."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from launch.plans import plan
from muster.act import preflight
from muster.act.bad_nodes import KEPT_S, KnownFaults, NodeFault, Sighting, bad_nodes, forget_nodes, load, remember, save
from muster.act.clean import Leftover, remove_leftover
from muster.act.output_folder import make_output_folders
from muster.act.pack import _is_own
from muster.act.preflight import _check_checkpoints, _check_environment, _check_mpi
from muster.act.record import Run, is_of, recent_runs, register
from muster.act.refusal import refusal_of
from muster.act.snapshot import _files
from muster.act.submit import _PENDING_S, Submission
from muster.errors import RequestError, SchedulerSilent, SiteError
from muster.model.plan import Directive
from muster.runner import ProgramResult, run
from muster.slurm.jobs import SlurmJob
from muster.slurm.reasons import reason_of
from muster.slurm.states import state_of

_PLAN = plan("-N", "2", "--", "python", "train.py")


def _answer(status: int, stdout: str = "", stderr: str = "") -> ProgramResult:
    return ProgramResult(("sbatch",), status, stdout, stderr)


@pytest.mark.parametrize(
    ("status", "stderr", "error"),
    [
        (1, "sbatch: error: Invalid account\n", SiteError),
        (1, "", SchedulerSilent),
        (1, " \n", SchedulerSilent),
        (-9, "sbatch: error: Invalid account\n", SchedulerSilent),
        (0, "sbatch: error: Invalid account\n", SiteError),
        (1, "sbatch: error: Unable to contact slurm controller (connect failure)\n", SchedulerSilent),
    ],
)
def test_an_answer_without_words_is_silence_and_one_with_words_a_refusal(status: int, stderr: str, error: type) -> None:
    assert type(refusal_of(_answer(status, "", stderr))) is error


def _submission(folder: Path, runner: Any = None) -> Submission:
    return Submission(
        _PLAN,
        parent=folder,
        state=folder / "state",
        cluster="c",
        environment={},
        runner=runner or (lambda *_, **__: _answer(0)),
    )


@pytest.mark.parametrize(
    ("age_s", "is_there", "found"), [(0, True, True), (_PENDING_S + 5, True, False), (0, False, False)]
)
def test_a_submission_without_an_answer_is_taken_up_while_it_is_young(
    tmp_path: Path, age_s: float, is_there: bool, found: bool
) -> None:
    made = _submission(tmp_path)
    assert made._unanswered() is None
    made._pending.parent.mkdir(parents=True)
    folder = tmp_path if is_there else tmp_path / "gone"
    made._pending.write_text(json.dumps({"directory": str(folder), "asked": time.time() - age_s}))
    assert made._unanswered() == (folder if found else None)
    for damaged in ("{", "[]", "{}", '{"directory": 3, "asked": "x"}'):
        made._pending.write_text(damaged)
        assert made._unanswered() is None


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (_answer(0, "57 muster:{0}\n58 muster:{0}\n9 other\n"), "58"),
        (_answer(0, "57 other\n"), None),
        (_answer(0, ""), None),
        (_answer(1, "57 muster:{0}\n"), "silent"),
        (_answer(0, "what is this\n"), "silent"),
    ],
)
def test_a_job_that_was_queued_without_an_answer_is_found_by_its_comment(
    tmp_path: Path, answer: ProgramResult, found: str | None
) -> None:
    asked: list[Sequence[str]] = []

    def runner(argv: Sequence[str], **_: Any) -> ProgramResult:
        asked.append(argv)
        return replace(answer, stdout=answer.stdout.format(made._digest))

    made = _submission(tmp_path, runner)
    with pytest.raises(SchedulerSilent) if found == "silent" else nullcontext():
        assert made._find_job() == found
    assert len(asked) == 1


def test_a_job_that_is_remembered_with_this_launch_is_known(tmp_path: Path) -> None:
    made = _submission(tmp_path)
    assert not made._is_known("7")
    register(made.state, Run("7", tmp_path / "run", "train", "c", 1, "d"))
    assert not made._is_known("7")
    (tmp_path / "run").mkdir()
    for text, known in (("of another launch", False), (f"muster:{made._digest}", True)):
        (tmp_path / "run/job.sh").write_text(text)
        assert made._is_known("7") is known


# --- what is refused before the start ---


@pytest.mark.parametrize(
    ("folder", "refused"), [("env", True), ("made", False), ("gone/env", False), ("/tmp/no-such-env-of-muster", False)]
)
def test_an_environment_that_is_not_there_is_refused_where_this_host_would_see_it(
    tmp_path: Path, folder: str, refused: bool
) -> None:
    (tmp_path / "made/bin").mkdir(parents=True)
    (tmp_path / "made/bin/activate").touch()
    made = plan("-N", "1", "--venv", folder, "--", "python", "t.py")
    made = replace(made, working_directory=str(tmp_path))
    with pytest.raises(RequestError, match="there is no virtual environment") if refused else nullcontext():
        _check_environment(made, ("/tmp/no-such",))


def test_a_folder_of_checkpoints_can_be_written_or_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    _check_checkpoints(tmp_path)
    _check_checkpoints(tmp_path / "a/b")
    for folder, says in ((tmp_path / "file", "is not a directory"), (tmp_path / "file/x", "cannot be made in")):
        with pytest.raises(RequestError, match=says):
            _check_checkpoints(folder)
    monkeypatch.setattr(os, "access", lambda *_: False)
    for folder, says in ((tmp_path, "cannot be written by you"), (tmp_path / "a", "cannot be made in")):
        with pytest.raises(RequestError, match=says):
            _check_checkpoints(folder)


_MPI = "MPI plugin types are...\n\tnone\n\tpmix\nspecific pmix plugin versions available: pmix_v4\n"


@pytest.mark.parametrize(
    ("status", "text", "asked", "refused"),
    [
        (0, _MPI, "pmix", False),
        (0, _MPI, "pmi2", True),
        (0, _MPI.replace("\tnone\n", ""), "none", False),
        (1, _MPI, "pmi2", False),
        (0, "", "pmi2", False),
    ],
)
def test_an_mpi_type_that_this_slurm_does_not_offer_is_refused(
    monkeypatch: pytest.MonkeyPatch, status: int, text: str, asked: str, refused: bool
) -> None:
    for streams in (("", text), (text, "")):
        monkeypatch.setattr(
            preflight, "run", lambda argv, streams=streams: ProgramResult(tuple(argv), status, *streams)
        )
        with pytest.raises(RequestError, match=f"offers no --mpi {asked}") if refused else nullcontext():
            _check_mpi(asked)


def test_the_folders_of_output_files_are_made_and_of_no_others(tmp_path: Path) -> None:
    def made(*directives: tuple[str, str | None]) -> list[str]:
        kept = tuple(Directive(name, value, _PLAN.directives[0].reason) for name, value in directives)
        make_output_folders(replace(_PLAN, working_directory=str(tmp_path), directives=kept), run)
        return sorted(path.name for path in tmp_path.iterdir())

    assert made(("output", None), ("error", ""), ("nodes", "a/b")) == []
    assert made(("output", "logs/x"), ("error", "errors/x")) == ["errors", "logs"]


def test_an_output_that_is_a_folder_or_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(name: str) -> None:
        kept = (Directive("output", name, _PLAN.directives[0].reason),)
        make_output_folders(replace(_PLAN, working_directory=str(tmp_path), directives=kept), run)

    (tmp_path / "logs").mkdir()
    make("/dev/null")
    for name in ("logs", "logs/"):
        with pytest.raises(RequestError, match="is a folder") as refused:
            make(name)
        assert refused.value.hint == "name a file in it: -o logs/%x-%j.log"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RequestError, match="-o pipe is a pipe: the job would wait for its reader"):
        make("pipe")
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path / "logs")
    make("x-%j.out")
    with pytest.raises(RequestError, match=f"you cannot write {tmp_path}/logs"):
        make("logs/x-%j.out")


def test_a_packed_file_is_ones_own_if_nobody_else_can_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch(mode=0o644)
    link.symlink_to(file)
    assert [_is_own(path) for path in (file, link, tmp_path, tmp_path / "gone")] == [True, False, False, False]
    for mode in (0o664, 0o646):
        file.chmod(mode)
        assert not _is_own(file)
    file.chmod(0o600)
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    assert not _is_own(file)


# --- what is remembered ---


def _sighting(node: str, when: int, cause: NodeFault = NodeFault.DIED) -> Sighting:
    return Sighting(node, "7", when, cause, "it died")


def test_a_node_is_remembered_for_a_week_and_forgotten_when_asked(tmp_path: Path) -> None:
    memory = remember(KnownFaults(()), [_sighting("a", 1000), _sighting("b", 1001)], {}, now=1000 + KEPT_S)
    assert [node.node for node in bad_nodes(memory)] == ["b"]
    memory = remember(KnownFaults(()), [_sighting("a", 1000), _sighting("b", 1001)], {}, now=1002)
    save(tmp_path, "c", memory)
    with pytest.raises(RequestError, match="nothing is remembered against x"):
        forget_nodes(tmp_path, "c", ["x"])
    assert forget_nodes(tmp_path, "c", ["a"]) == ["a"]
    assert [node.node for node in bad_nodes(load(tmp_path, "c"))] == ["b"]
    assert forget_nodes(tmp_path, "c", []) == ["b"]
    assert forget_nodes(tmp_path, "c", []) == []


def test_recent_runs_are_those_that_were_registered_after_a_moment(tmp_path: Path) -> None:
    for job, moment in (("1", 100), ("2", 200), ("3", 300)):
        register(tmp_path, Run(job, tmp_path / job, "train", "c", moment))
        (entry,) = [path for path in (tmp_path / "jobs/c").glob("*.json") if json.loads(path.read_text())["job"] == job]
        os.utime(entry, (moment, moment))
    assert [found.job for found in recent_runs(tmp_path, "c", since=200, most=9)] == ["3"]
    assert [found.job for found in recent_runs(tmp_path, "c", since=0, most=2)] == ["3", "2"]


_RUN = Run("7", Path("/r/run"), "train", "c", 1000, "d")
_JOB = SlurmJob("7", "7", "train", state_of("RUNNING"), reason_of("None"))


@pytest.mark.parametrize(
    ("kept_run", "job", "same"),
    [
        (_RUN, replace(_JOB, submitted=400), True),
        (_RUN, replace(_JOB, submitted=399), False),
        (_RUN, replace(_JOB, submitted=1600), True),
        (_RUN, replace(_JOB, submitted=1601), False),
        (replace(_RUN, requeues=True), replace(_JOB, submitted=1601), True),
        (replace(_RUN, requeues=True), replace(_JOB, submitted=399), False),
        (replace(_RUN, submitted=None), replace(_JOB, submitted=9), True),
        (_RUN, replace(_JOB, name="other"), False),
        (_RUN, replace(_JOB, name="other", comment="muster:d"), True),
        (_RUN, replace(_JOB, comment="muster:e"), False),
        (replace(_RUN, digest=""), _JOB, True),
        (_RUN, replace(_JOB, stdout="/r/run/logs/x"), True),
        (_RUN, replace(_JOB, stdout="/r/run2/x"), False),
        (replace(_RUN, moved=True), replace(_JOB, stdout="/elsewhere"), True),
    ],
)
def test_a_job_is_that_of_a_run_by_output_comment_and_time(kept_run: Run, job: SlurmJob, same: bool) -> None:
    assert is_of(kept_run, job) is same


@pytest.mark.parametrize(("kind", "gone"), [("run", True), ("texts", True), ("secret", True), ("entry", False)])
def test_what_is_left_is_removed_by_its_kind(tmp_path: Path, kind: str, gone: bool) -> None:
    place = tmp_path / "left"
    if kind in {"run", "texts"}:
        (place / "x").mkdir(parents=True)
    else:
        place.touch()
    kept_run = Run("7", place, "train", "c", 1)
    register(tmp_path / "state", kept_run)
    remove_leftover(Leftover(kind, place, 0, 0.0, run=kept_run), tmp_path / "state")
    assert place.exists() is not gone
    assert list((tmp_path / "state/jobs").rglob("*.json")) == []
    remove_leftover(Leftover("submission", tmp_path / "no-such", 0, 0.0), tmp_path / "state")


def test_the_files_of_a_work_tree_are_those_of_git_with_its_submodules_and_links(tmp_path: Path) -> None:
    def git(*words: str, folder: Path = tmp_path) -> None:
        subprocess.run(
            ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *words],
            check=True,
            capture_output=True,
        )

    git("init", "-q")
    (tmp_path / "a").write_text("a")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/b").write_text("b")
    (tmp_path / "to-folder").symlink_to("folder")
    (tmp_path / "nowhere").symlink_to("gone")
    (tmp_path / "left-out").write_text("x")
    (tmp_path / ".gitignore").write_text("left-out\n")
    inner = tmp_path / "inner"
    inner.mkdir()
    git("init", "-q", folder=inner)
    (inner / "c").write_text("c")
    git("add", ".", folder=inner)
    git("commit", "-qm", "x", folder=inner)
    (tmp_path / "deleted").write_text("x")
    git("add", ".")
    (tmp_path / "deleted").unlink()
    names = sorted(str(path.relative_to(tmp_path)) for path in _files(tmp_path, run))
    assert names == [".gitignore", "a", "folder/b", "inner/c", "nowhere", "to-folder"]
    with pytest.raises(RequestError, match="git cannot list"):
        list(_files(tmp_path.parent / "no-such", run))
