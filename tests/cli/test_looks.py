"""The verbs that look at jobs: what is not known stays unknown, and is no end, no status and no removal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from muster.act.record import Run, register
from muster.cli import asked_jobs, clean, nodes, why
from muster.cli.asked_jobs import ids_or_newest, state
from muster.cli.command_line import Words
from muster.cli.job_json import as_json
from muster.cli.logs import _look, _of_no_line, _refuse_closed, _status_of
from muster.cli.status import headline
from muster.errors import NoSlurm, RequestError, SiteError
from muster.follow.cases import JobCase
from muster.follow.find_output import find_output
from muster.follow.heard import Accounting, Heard
from muster.follow.scheduler import Answer, Scheduler
from muster.follow.watch import JobOutput
from muster.look.cluster import UNNAMED
from muster.model.failure import Failure, FailureKind
from muster.runner import ProgramResult
from muster.slurm.jobs import SlurmJob
from muster.slurm.reasons import reason_of
from muster.slurm.states import Phase, state_of


def job(state: str, **fields: Any) -> SlurmJob:
    return replace(SlurmJob("7", "7", "train", state_of(state), reason_of("None")), **fields)


class Clients:
    """Slurm's clients, that say one thing each."""

    def __init__(self, **said: ProgramResult | Exception) -> None:
        self.said = said

    def __call__(self, argv: Sequence[str], **_: Any) -> ProgramResult:
        answer = self.said[argv[0]]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("heard", "phase", "words"),
    [
        (Heard(silent=False, accounting=Accounting.ANSWERED), "ended", "accounting does not have it"),
        (Heard(silent=False, accounting=Accounting.OFF), "ended", "keeps no accounts: how it ended is not known"),
        (Heard(silent=False, accounting=Accounting.NO_CLIENT), "ended", "sacct is not on PATH: how it ended is not"),
        (Heard(silent=False, accounting=Accounting.SILENT), "ended", "does not answer: how it ended is not known"),
        (
            Heard(silent=True, accounting=Accounting.OFF),
            "unknown",
            "does not answer, and this cluster keeps",
        ),
        (Heard(), "unknown", "accounting was not asked"),
    ],
)
def test_of_a_job_that_did_not_come_it_is_said_who_answered(
    heard: Heard, phase: str, words: str, tmp_path: Path
) -> None:
    case = JobCase("7", None, Run("7", tmp_path, "train"), heard=heard)

    assert words in headline(case)
    assert (case.phase.value, as_json(case)["phase"]) == (phase, phase)


def test_the_own_word_of_a_script_is_told_where_slurm_has_forgotten_its_job(tmp_path: Path) -> None:
    forgotten = JobCase("7", None, Run("7", tmp_path, "train"), heard=Heard(silent=False, accounting=Accounting.OFF))
    assert forgotten.earlier_runs() == []

    (tmp_path / "well").write_text("1700000000\tnode[1-2]\n")
    assert forgotten.earlier_runs() == ["its script wrote down that all ranks on node[1-2] ended well"]
    known = JobCase("7", job("TIMEOUT"), forgotten.run)
    assert known.earlier_runs() == [], "Slurm's own word is enough"

    (tmp_path / "ends").write_text("1\t5\t9\t3\t0\tnode1\tend\trank 0 ended with status 3\tnot again\trank\t\n")
    assert not any("ended well" in text for text in forgotten.earlier_runs()), "an earlier start ended well"


@pytest.mark.parametrize(
    ("link", "state", "decision", "is_told"),
    [
        (3, "COMPLETED", "saved", True),
        (2, "COMPLETED", "saved", False),
        (3, "COMPLETED", "done", False),
        (3, "RUNNING", "saved", False),
        (0, "COMPLETED", "saved", False),
        (3, "COMPLETED", "", False),
    ],
)
def test_a_chain_whose_last_link_was_told_to_save_is_not_called_done(
    link: int, state: str, decision: str, is_told: bool, tmp_path: Path
) -> None:
    """Slurm says COMPLETED, with status 0, and half of the training may be missing."""
    rest = "\t2 of 2 ranks got SIGUSR1\tthey ended well\t\t\n"
    earlier = "next" if decision == "saved" else "saved"
    ends = f"3\t1\t4\t0\t\t\t{earlier}{rest}4\t5\t9\t0\t\t\t{decision}{rest}"
    (tmp_path / "ends").write_text(ends if decision else "")
    case = JobCase("7", job(state), Run("7", tmp_path, "train", links=3), link=link)

    assert any("the work may not be done (--links)" in text for text in case.earlier_runs()) is is_told
    assert case.earlier_runs()[:1] == ([f"link {link} of at most 3"] if link else case.earlier_runs()[:1])


def test_the_status_of_a_job_is_never_0_without_a_word_that_it_ended_well() -> None:
    assert _status_of(JobCase("7", job("COMPLETED", exit_code=0), None)) == 0
    assert _status_of(JobCase("7", job("FAILED", exit_code=7), None)) == 7
    assert _status_of(JobCase("7", job("NODE_FAIL", exit_code=0), None)) == 1
    assert _status_of(JobCase("7", job("CANCELLED"), None)) == 1
    for case in (
        JobCase("7", None, None, heard=Heard(silent=False, accounting=Accounting.OFF)),
        JobCase("7", job("TELEPORTING"), None),
    ):
        with pytest.raises(SiteError, match="exit status of job 7 is not known"):
            _status_of(case)


def test_who_follows_a_job_is_not_told_that_it_ended_where_nobody_said_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    case = JobCase("7", job("RUNNING", stdout="/x/7.out", is_batch=True), None)

    def look(answer: Answer, case: JobCase = case) -> tuple[JobCase, bool]:
        return _look(case, cast(Scheduler, SimpleNamespace(jobs=lambda _: answer)))

    assert look(Answer((), ("7",), silent=True))[1] is False
    gone, is_over = look(Answer((), ("7",), accounting=Accounting.SILENT))
    assert (is_over, gone.phase) == (True, Phase.ENDED)
    accounted, is_over = look(Answer((job("FAILED"),)))
    assert (is_over, accounted.job and accounted.job.stdout, accounted.job and accounted.job.is_batch) == (
        True,
        "/x/7.out",
        True,
    )
    # A chain: accounting may know its first link alone.
    chain = JobCase("7", job("RUNNING"), Run("7", tmp_path / "run", "train", "nuA", links=3))
    assert look(Answer((job("COMPLETED"),), silent=True), chain)[1] is False


def test_output_that_is_not_kept_is_told_from_output_that_has_not_come(tmp_path: Path) -> None:
    for stdout, is_batch, complaint in (
        ("/dev/null", True, "is not kept: it goes to /dev/null"),
        (f"{tmp_path}/slurm-7.out", False, "is not kept: no script of sbatch wrote it"),
    ):
        with pytest.raises(RequestError, match=complaint):
            _refuse_closed(JobCase("7", job("COMPLETED", stdout=stdout, is_batch=is_batch), None))
    for known in (True, None):
        _refuse_closed(JobCase("7", job("COMPLETED", stdout=f"{tmp_path}/slurm-7.out", is_batch=known), None))


@pytest.mark.parametrize(
    ("state", "rank", "words"),
    [
        ("RUNNING", None, "job 7 has written nothing yet"),
        ("PENDING", 3, "rank 3 of job 7 has written nothing yet"),
        ("COMPLETED", None, "job 7 wrote nothing to "),
        ("TELEPORTING", None, "whether the job has begun is not known"),
    ],
)
def test_no_line_means_what_the_job_is_known_to_be(state: str, rank: int | None, words: str, tmp_path: Path) -> None:
    file = tmp_path / "slurm-7.out"
    file.touch()
    case = JobCase("7", job(state, stdout=str(file)), None)
    output = find_output(case.job, None, "7")

    assert output is not None
    assert words in _of_no_line(case, output, rank)
    file.unlink()
    assert "no file of the output of job 7 is here" in _of_no_line(
        JobCase("7", job("COMPLETED"), None), replace(output, named=()), None
    )


_SINFO = "NODELIST|STATE\n"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (f"{_SINFO}node1|down*\nnode2|idle\nnode3|mixed\n", "which of them failed; node1 is down now"),
        (f"{_SINFO}node1|down*\nnode1|down*\nnode2|down\nnode3|idle\n", "failed; node1, node2 are down now"),
        (f"{_SINFO}node1|idle\nnode2|idle\nnode3|idle\n", "which of them failed; none of them is down now"),
        (f"{_SINFO}node1|idle\n", "which of them failed"),
        ("", "which of them failed"),
    ],
    ids=["one", "two", "none", "not of all", "no answer"],
)
def test_which_node_failed_is_said_as_far_as_slurm_does(said: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = Scheduler({}, Clients(sinfo=ProgramResult(("sinfo",), 0, said, "")))
    monkeypatch.setattr(why, "scheduler", lambda: slurm)
    failed = job("NODE_FAIL", node_list="node[1-3]", nodes=3)

    (line,) = why._which_node(failed)

    assert line.endswith(words)
    assert list(why._which_node(replace(failed, nodes=1, node_list="node1"))) == []


@pytest.mark.parametrize(
    ("state", "signal", "is_gone"), [("NODE_FAIL", 1, True), ("NODE_FAIL", 15, False), ("FAILED", 1, False)]
)
def test_a_script_that_its_host_lost_was_ended_by_nobodys_sighup(
    state: str, signal: int, is_gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm 22.05 says 0:1 of a job whose first node started again, minutes later; then that node is up again."""
    text = f"{_SINFO}node1|idle\nnode2|idle\n"
    monkeypatch.setattr(why, "scheduler", lambda: Scheduler({}, Clients(sinfo=ProgramResult(("sinfo",), 0, text, ""))))
    monkeypatch.setattr(why, "_failure", lambda _: (None, None))
    failed = job(state, node_list="node[1-2]", nodes=2, exit_code=0, signal=signal)
    lines = "\n".join(why.explain_case(JobCase("7", failed, None)))

    assert ("ended by SIG" in lines) is not is_gone
    assert ("its script no more on node1: that node restarted, or lost the script" in lines) is is_gone


_PREEMPTED = "JobId=7 JobName=x JobState=FAILED StartTime=100 EndTime=150 PreemptTime=140 Partition=low\n"


@pytest.mark.parametrize(
    ("state", "status", "said", "is_told"),
    [
        ("FAILED", 143, _PREEMPTED, True),
        ("FAILED", 205, _PREEMPTED, True),
        ("TIMEOUT", 0, _PREEMPTED, True),
        ("FAILED", 143, _PREEMPTED.replace("=140", "=100"), True),
        ("FAILED", 143, _PREEMPTED.replace("=140", "=90"), False),
        ("FAILED", 143, _PREEMPTED.replace("=140", "=None"), False),
        ("FAILED", 143, "", False),
        ("FAILED", 143, _PREEMPTED.replace("JobId=7", "JobId=77"), False),
    ],
)
def test_a_preempted_job_that_slurm_calls_failed_is_told_as_that(
    state: str, status: int, said: str, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its script ended within the grace time: Slurm 22.05 says FAILED, or TIMEOUT where the script ended well."""
    clients = Clients(scontrol=ProgramResult(("scontrol",), 0, said, ""))
    monkeypatch.setattr(why, "scheduler", lambda: Scheduler({}, clients))
    lines = "\n".join(why._of_status(job(state, exit_code=status), None))

    assert ("it was preempted at " in lines, "--until-done" in lines) == (is_told, is_told)


@pytest.mark.parametrize(("state", "status"), [("FAILED", 7), ("CANCELLED", 143), ("NODE_FAIL", 143)])
def test_only_of_jobs_that_slurm_ended_it_is_asked_whether_they_were_preempted(
    state: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(why, "scheduler", lambda: Scheduler({}, Clients()))

    assert list(why._of_status(job(state, exit_code=status), None)) == []


@pytest.mark.parametrize(
    ("kind", "host", "is_asked"),
    [("node", "node2", False), ("node", "", True), ("rank", "node2", True), ("", "", True)],
)
def test_a_node_that_the_job_wrote_down_is_not_called_unknown(
    kind: str, host: str, is_asked: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(why, "scheduler", lambda: Scheduler({}, Clients(sinfo=ProgramResult(("sinfo",), 0, "", ""))))
    own = Failure("rank 0 on node1: exit status 1", "node1", (0,), 1, "")
    monkeypatch.setattr(why, "_failure", lambda _: (None, own))
    (tmp_path / "ends").write_text(f"1\t5\t9\t143\t\t{host}\tend\tnode2 failed\tnot again\t{kind}\t\n")
    failed = job("NODE_FAIL", node_list="node[1-2]", nodes=2)
    lines = "\n".join(why._ended(JobCase("7", failed, Run("7", tmp_path, "train"))))

    assert ("Slurm does not say which of them failed" in lines) is is_asked
    assert "a rank that was left: rank 0 on node1" in lines


@pytest.mark.parametrize(
    ("files", "attempts", "host", "node"),
    [
        (("1.0", "1.2"), "", None, "node2"),
        (("1.0", "1.2"), "", "node1", ""),
        (("1.0",), "", None, ""),
        (("1.0", "1.1", "1.2"), "", None, ""),
        (("2.0",), "1\t5\tnode[1-2]\t\t\n2\t9\tnode1,node3\t\t\n", None, "node3"),
        ((), "", None, ""),
    ],
)
def test_the_one_node_without_a_word_is_named_where_a_rank_did_not_start(
    files: tuple[str, ...], attempts: str, host: str | None, node: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failure = Failure("rank 1: not started by srun: Slurmd could not connect IO", host, (1,), 1, "")
    monkeypatch.setattr(why, "_failure", lambda _: (None, failure))
    (tmp_path / "attempts").write_text(attempts)
    for name in files:
        (tmp_path / "ranks/7.1.1").mkdir(parents=True, exist_ok=True)
        (tmp_path / "ranks/7.1.1" / name).touch()
    failed = job("FAILED", exit_code=1, node_list="node[1-3]", nodes=3)
    lines = "\n".join(why._ended(JobCase("7", failed, Run("7", tmp_path, "train"))))

    assert lines.partition("no rank wrote a word on ")[2].partition("\n")[0] == node


@pytest.mark.parametrize("words", [[], ["ValueError: 7"]])
def test_of_a_rank_that_wrote_nothing_the_line_of_slurm_is_looked_up(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "srun: error: task 1 launch failed: Slurmd could not connect IO"
    failure = Failure("rank 1: not started by srun: Slurmd could not connect IO", None, (1,), 1, line)
    monkeypatch.setattr(why, "_failure", lambda _: (None, failure))
    monkeypatch.setattr(why, "last_words", lambda *_: words)
    lines = "\n".join(why._ended(JobCase("7", job("FAILED", node_list="node[1-2]"), None)))

    assert ("known: a node could not start its rank" in lines) is not bool(words)
    assert ("--exclude NODE" in lines) is not bool(words)


def test_a_rank_that_failed_beside_a_dead_node_is_not_called_the_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = f"{_SINFO}node1|idle\nnode2|down*\n"
    monkeypatch.setattr(why, "scheduler", lambda: Scheduler({}, Clients(sinfo=ProgramResult(("sinfo",), 0, text, ""))))
    own = Failure("rank 0 on node1: exit status 1", "node1", (0,), 1, "")
    monkeypatch.setattr(why, "_failure", lambda _: (None, own))
    monkeypatch.setattr(why, "last_words", lambda *_: ["RuntimeError: Connection closed by peer"])
    failed = job("NODE_FAIL", node_list="node[1-2]", nodes=2)

    lines = "\n".join(why._ended(JobCase("7", failed, None)))

    assert "which of them failed; node2 is down now" in lines
    assert "a rank that was left: rank 0 on node1: exit status 1" in lines
    assert "first:" not in lines
    assert "known:" not in lines
    for failure, is_there in ((replace(own, kind=FailureKind.NODE), False), (replace(own, host=None), True)):
        monkeypatch.setattr(why, "_failure", lambda _, failure=failure: (None, failure))
        assert ("which of them" in "\n".join(why._ended(JobCase("7", failed, None)))) is is_there


@pytest.mark.parametrize(
    ("state", "signal", "words"),
    [
        ("FAILED", 9, "  beside that: rank 1 on node4: ended by SIGTERM"),
        ("FAILED", 0, "  first: rank 1 on node4: ended by SIGTERM"),
        ("OUT_OF_MEMORY", 125, "  first: rank 1 on node4: ended by SIGTERM"),
    ],
)
def test_a_rank_is_not_the_first_where_the_script_itself_was_killed(
    state: str, signal: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen on a lab: scancel --batch --signal=KILL; Slurm then ended the ranks, and each was told as the first."""
    own = Failure("rank 1 on node4: ended by SIGTERM", "node4", (1,), 143, "")
    monkeypatch.setattr(why, "_failure", lambda _: (None, own))

    ended = job(state, node_list="node[3-4]", nodes=2, exit_code=0 if signal else 143, signal=signal)
    assert words in list(why._ended(JobCase("7", ended, None)))


@pytest.mark.parametrize(("well", "is_well"), [("9\tn1\n", True), ("", False), ("7\tn1\n", False)])
def test_a_script_that_alone_was_told_to_end_is_not_told_as_its_ranks(well: str, is_well: bool, tmp_path: Path) -> None:
    """Seen on a lab after scancel --batch --signal=TERM: each rank had ended with 0; an earlier link's say nothing."""
    (tmp_path / "well").write_text(well)
    case = JobCase("7", job("FAILED", node_list="n1", nodes=1, started=8), Run("7", tmp_path, "train"))

    assert ("all of its ranks ended with status 0" in "\n".join(why._ended(case))) is is_well


@pytest.mark.parametrize(
    ("launcher", "ends", "words"),
    [
        ("srun", {"1.0": "0 begins\n0 1\n", "1.1": "1 begins\n1 0\n"}, "before: rank 1 on n2 ended with status 0"),
        ("srun", {"1.0": "0 begins\n0 1\n", "1.1": "1 begins\n1 143\n"}, "before: which one is not known"),
        (
            "torchrun",
            {"1.0": "0 begins\n0 1\n", "1.1": "1 begins\n1 0\n"},
            "before: each rank on n2 ended with status 0",
        ),
        ("torchrun", {"1.0": "0 begins\n0 1\n"}, "before: which one is not known"),
        ("unheard-of", {"1.1": "1 begins\n1 0\n"}, "before: which one is not known"),
    ],
)
def test_a_rank_that_had_left_with_0_is_named_where_ranks_say_their_ends(
    launcher: str, ends: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, text in ends.items():
        (tmp_path / "ranks/7.1.1").mkdir(parents=True, exist_ok=True)
        (tmp_path / "ranks/7.1.1" / name).write_text(text)
    own = Failure("rank 0 on n1: exit status 1", "n1", (0,), 1, "")
    monkeypatch.setattr(
        why, "last_words", lambda *_: ["[/gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:4"]
    )
    monkeypatch.setattr(why, "_failure", lambda _: (JobOutput(tmp_path, launcher=launcher), own))
    case = JobCase("7", job("FAILED", node_list="n[1-2]", nodes=2), Run("7", tmp_path, "train"))

    assert words in "\n".join(why._ended(case))


@pytest.mark.parametrize(
    ("said", "is_of_peer"),
    [("[/pytorch/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.4]:4", True), ("ValueError", False)],
)
def test_a_rank_that_lost_its_peer_is_no_cause_and_the_hint_is_not_this_command(
    said: str, is_of_peer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Failure("rank 0 on node1: exit status 1", "node1", (0,), 1, "")
    monkeypatch.setattr(why, "last_words", lambda *_: [f"RuntimeError: {said}"])
    for failure in (own, replace(own, tasks=())):
        monkeypatch.setattr(why, "_failure", lambda _, failure=failure: (None, failure))
        lines = "\n".join(why._ended(JobCase("7", job("FAILED"), None)))
        assert ("a peer that had gone before" in lines) is (is_of_peer and failure is own)
        assert "muster why" not in lines


def test_the_nodes_that_are_down_stand_in_json_where_no_node_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{_SINFO}node1|down*\nnode2|idle\n"
    monkeypatch.setattr(why, "scheduler", lambda: Scheduler({}, Clients(sinfo=ProgramResult(("sinfo",), 0, text, ""))))
    failed = job("NODE_FAIL", node_list="node[1-2]", nodes=2)

    assert why.case_as_json(JobCase("7", failed, None))["nodes_down"] == ["node1"]
    for other in (replace(failed, node_list=""), job("FAILED", node_list="node[1-2]", nodes=2), job("RUNNING")):
        assert "nodes_down" not in {
            name for name, value in why.case_as_json(JobCase("7", other, None)).items() if value
        }


@pytest.mark.parametrize(("reason", "is_told"), [("ReqNodeNotAvail", True), ("Priority", False)])
def test_a_job_that_waits_for_a_node_that_is_out_tells_which_and_why(
    reason: str, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [f"node{number}|drained|fan | bay {number}\n" for number in range(6)]
    answer = ProgramResult(("sinfo",), 0, "".join(groups), "")
    monkeypatch.setattr(why, "scheduler", lambda: Scheduler({}, Clients(sinfo=answer)))
    waiting = job("PENDING", reason=reason_of(reason), partition="main")
    text = "\n".join(why.explain_case(JobCase("7", waiting, None)))

    assert ("out in main: node3, drained: fan | bay 3\n" in text) is is_told
    assert ("and others: sinfo --list-reasons --partition=main" in text) is is_told
    assert "node4" not in text


def test_without_a_word_of_slurm_no_rank_library_and_no_run_is_cleaned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(clean, "scheduler", lambda: SimpleNamespace(mine=lambda: Answer(())))
    monkeypatch.setattr(clean, "cluster", lambda: "nuA")
    assert clean._living() == ("nuA", frozenset())
    monkeypatch.setattr(clean, "cluster", lambda: UNNAMED)
    assert clean._living() == (None, None)

    def no_slurm() -> Answer:
        raise NoSlurm("squeue", is_installed=False)

    monkeypatch.setattr(clean, "scheduler", lambda: SimpleNamespace(mine=no_slurm))
    assert clean._living() == (None, None)


def test_the_nodes_of_a_cluster_without_a_name_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "cluster", lambda: UNNAMED)
    with pytest.raises(SiteError, match="nothing tells which cluster this is"):
        nodes.main(cast(Words, SimpleNamespace(clear=False, operands=(), json=False)))


def test_no_job_here_is_not_no_job_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    words = cast(Words, SimpleNamespace(operands=(), json=False))

    def complaint() -> str:
        with pytest.raises(RequestError) as refused:
            ids_or_newest(words)
        return str(refused.value)

    monkeypatch.setattr(asked_jobs, "cluster", lambda: "nuA")
    assert complaint() == "no job is named, and Muster remembers none of yours on the cluster nuA"
    register(state(), Run("3", tmp_path, "old", "lab-1", submitted=100))
    register(state(), Run("9", tmp_path, "new", "lab-2", submitted=200))
    assert complaint().endswith("none of yours on the cluster nuA; your newest job is 9 on lab-2")
    monkeypatch.setattr(asked_jobs, "cluster", lambda: UNNAMED)
    assert complaint() == "no job is named, and nothing tells which cluster this is; your newest job is 9 on lab-2"


def test_a_file_that_cannot_be_read_now_is_not_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "slurm-7.out"
    file.write_text("0: a line\n")
    output = find_output(job("RUNNING", stdout=str(file)), None, "7")
    assert output is not None

    def stale(_: int) -> os.stat_result:
        raise OSError(116, "Stale file handle")

    from muster.follow.watch import Follower

    monkeypatch.setattr("muster.follow.watch.os", SimpleNamespace(fstat=stale))
    with pytest.raises(RequestError, match="cannot be read: Stale file handle"):
        list(Follower(output).new_lines(final=True))


_STEP = "srun: error: node1: task 0: "
_FAILS = f"{_STEP}Exited with exit code 5\n"


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        (f"server says\n{_FAILS}muster: first: rank 0 on node1: exit status 5\ntrained\n", True),
        ("srun: error: Node failure on node1\ntrained\n", True),
        (f"srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n{_STEP}Killed\n", False),
        (f"{_STEP}Terminated\n", False),
        ("trained\n", False),
    ],
    ids=["a step failed", "a node failed", "ended by its script, as srun says", "ended by its script", "all is well"],
)
def test_why_tells_of_a_step_that_failed_in_a_script_that_went_on(text: str, is_told: bool, tmp_path: Path) -> None:
    file = tmp_path / "slurm-7.out"
    file.write_text(text)
    case = JobCase("7", job("COMPLETED", stdout=str(file), exit_code=0, signal=0), None)

    words = "\n".join(why.explain_case(case))
    assert ("a step in it failed, and its script went on: first: " in words) is is_told
    assert (why.case_as_json(case)["first_failure"] is not None) is is_told


@pytest.mark.parametrize(("started", "is_told"), [(None, True), (99, True), (100, True), (101, False)])
def test_a_script_whose_ranks_ended_well_ended_with_another_status_itself(
    started: int | None, is_told: bool, tmp_path: Path
) -> None:
    (tmp_path / "well").write_text("100\tnode1\n")
    failed = job("FAILED", started=started) if started != 99 else None
    assert bool(list(why._of_script(JobCase("7", failed, Run("7", tmp_path, "train"))))) is is_told


def test_a_job_of_muster_that_ended_well_has_no_step_that_failed(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/batch.log").write_text(_FAILS)
    case = JobCase("7", job("COMPLETED", exit_code=0, signal=0), Run("7", tmp_path, "train"))

    assert "a step in it failed" not in "\n".join(why.explain_case(case))
