"""What is told of a job by its files and by Slurm: one row for each condition that decides something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from follow.test_scheduler import Slurm
from launch.plans import plan
from muster.act.record import Run, record_of
from muster.cli.report import _summary
from muster.errors import CommandFailed
from muster.follow import cancel, first_failure, watch
from muster.follow.attempt_list import read_attempts, read_ends
from muster.follow.attempts import _story, attempts_over
from muster.follow.cases import JobCase
from muster.follow.first_failure import _of_node, _Unlabelled
from muster.follow.known_causes import read_log
from muster.follow.last_words import last_words
from muster.follow.node_memory import _cause_of_node
from muster.follow.redact import OMITTED, Redactor
from muster.follow.save import saving_of
from muster.follow.scheduler import Scheduler
from muster.follow.support import ReportFile, _write_private, write_report
from muster.follow.watch import JobOutput, LogFile
from muster.model.failure import Failure, FailureKind
from muster.render.document import plan_as_json
from muster.slurm.jobs import SlurmJob
from muster.slurm.reasons import reason_of
from muster.slurm.states import state_of

_PUT_BACK = "it was put back into the queue"
_HEADING = "NODELIST|STATE\n"
_SILENT = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


def _run(folder: Path, *words: str) -> Run:
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "plan.json").write_text(plan_as_json(plan("-N", "2", "-t", "10", *words, "--", "python", "t.py")))
    return Run("7", folder, "train", "lab", 1700000000, "d")


@pytest.mark.parametrize(
    ("status", "out", "names"),
    [
        (0, f"{_HEADING}n1|idle\nn2|down*\n", ["n1", "n2"]),
        (0, f"{_HEADING}n1|idle\n", ["n1"]),
        (0, _HEADING, []),
        (0, "", []),
        (1, f"{_HEADING}n1|idle\n", []),
    ],
)
def test_the_states_of_nodes_are_those_that_slurm_tells(status: int, out: str, names: list[str]) -> None:
    states = Scheduler({}, Slurm({"sinfo": (status, out, "")})).states_of(["n1", "n2"])
    assert list(states) == names


@pytest.mark.parametrize(
    ("status", "stderr", "fails"),
    [
        (0, "", False),
        (0, "scancel: error: Access denied for job 7\n", True),
        (1, "scancel: error: Job/step already completing or completed\n", False),
        (1, "no word of an error\n", True),
        (1, "", True),
    ],
)
def test_what_slurm_refuses_to_cancel_is_an_error(status: int, stderr: str, fails: bool) -> None:
    scheduler = Scheduler({}, Slurm({"scancel": (status, "", stderr)}))
    if not fails:
        scheduler.cancel(["7"])
        return
    with pytest.raises(CommandFailed):
        scheduler.cancel(["7"])


@pytest.mark.parametrize(
    ("link", "run", "task", "closed"),
    [(2, True, "3", "3"), (2, True, None, ""), (0, True, "3", None), (2, False, "3", None)],
)
def test_a_chain_that_is_cancelled_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: int, run: bool, task: str | None, closed: str | None
) -> None:
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(cancel, "close_chain", lambda *words: seen.append(words))
    asked = f"7_{task}" if task else "7"
    case = JobCase(asked, None, Run("7", tmp_path, "train") if run else None, link=link)
    monkeypatch.setattr(JobCase, "task", property(lambda _: task))
    cancel.cancel_cases([case], Scheduler({}, Slurm({"scancel": (0, "", "")})))
    assert seen == ([] if closed is None else [(case.run, closed, f"job {asked} was cancelled")])


@pytest.mark.parametrize(
    ("ends", "attempts", "told"),
    [
        ("1\t100\t160\t0\t\t\tdone\t\t\t\t\n", "1\t100\tn1\t\n", []),
        (
            "1\t100\t160\t0\t\t\tdone\t\t\t\t\n2\t200\t260\t7\t1\tn2\tend\tValueError\t\t\t\n",
            "1\t100\tn1\t\n2\t200\tn1\t\n",
            ["it ended well", "ValueError; "],
        ),
        ("", "1\t100\tn1\t\n2\t200\tn1\t\n", [_PUT_BACK]),
        ("1\t100\t160\t7\t1\tn2\tend\tValueError\t\t\t\n", "1\t100\tn1\t\n", ["ValueError; "]),
        ("2\t200\t260\t0\t\t\tdone\t\t\t\t\n", "1\t100\tn1\t\n2\t200\tn1\t\n", [_PUT_BACK, "it ended well"]),
    ],
)
def test_a_job_whose_first_attempt_ended_well_has_no_story(
    tmp_path: Path, ends: str, attempts: str, told: list[str]
) -> None:
    run = _run(tmp_path)
    (tmp_path / "ends").write_text(ends)
    (tmp_path / "attempts").write_text(attempts)
    sentences = list(_story(run, None, read_attempts(tmp_path), {end.number: end for end in read_ends(tmp_path)}))
    assert [text.partition(": ")[2] for text in sentences] == told


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("srun: error: node2: task 1: Exited with exit code 7\n", "rank 1 on node2: exit status 7"),
        ("srun: error: Node failure on node3\n", "node3 failed"),
        ("srun: error: node2: task 1: Exited with exit code 143\n", _PUT_BACK),
        ("slurmstepd: error: *** STEP 7.0 CANCELLED AT 2026-11-23T18:57:15 DUE TO TIME LIMIT ***\n", _PUT_BACK),
    ],
)
def test_an_attempt_without_an_end_ended_as_its_output_says(tmp_path: Path, log: str, cause: str) -> None:
    run = _run(tmp_path, "--requeue")
    (tmp_path / "logs/batch.log").write_text(log)
    (tmp_path / "attempts").write_text("1\t100\tn1\t\n2\t200\tn1\t\n")
    (story, *_) = attempts_over(run, None, waits=True)
    assert story["cause"] == cause


_FAILED = "srun: error: node2: task 1: Exited with exit code 7"


@pytest.mark.parametrize(
    ("texts", "host"),
    [
        ([["srun: error: Node failure on node3"]], "node3"),
        ([["srun: error: Node failure on node3"], [_FAILED]], "node3"),
        ([[_FAILED]], None),
        ([["slurmstepd: error: *** STEP 7.0 CANCELLED AT 2026-11-23T18:57:15 DUE TO TIME LIMIT ***"]], None),
        ([["x"]], None),
    ],
)
def test_the_failure_of_a_node_names_it(texts: list[list[str]], host: str | None) -> None:
    failure = _of_node(texts)
    assert (failure.host if failure else None) == host


@pytest.mark.parametrize(("more", "reads"), [(0, 1), (1, 2)])
def test_the_lines_of_a_file_are_kept_if_they_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int, reads: int
) -> None:
    count = first_failure._FEW + more
    opened: list[Any] = []

    def lines_of(file: Any) -> Iterator[str]:
        opened.append(file)
        yield from ["x"] * count

    monkeypatch.setattr(first_failure, "_lines", lines_of)
    lines = _Unlabelled(LogFile(tmp_path / "a.log"))
    assert [len(list(lines)) for _ in range(2)] == [count, count]
    assert len(opened) == reads
    assert all(len(kept) == count for kept in lines.few_lines)


def test_a_new_private_file_replaces_none_and_leaves_nothing_where_it_fails(tmp_path: Path) -> None:
    _write_private(tmp_path / "a", b"x")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        _write_private(tmp_path / "a", b"y")
    assert (tmp_path / "a").read_bytes() == b"x"
    with pytest.raises(TypeError):
        _write_private(tmp_path / "b", "no bytes")  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("'API_TOKEN=two words' x", f"'API_TOKEN={OMITTED}' x"),
        ("API_TOKEN=two words", f"API_TOKEN={OMITTED} words"),
        ("'API_TOKEN': 'two words'", f"'API_TOKEN': {OMITTED}"),
        ("'API_TOKEN = two words'", f"'API_TOKEN = {OMITTED}'"),
        ("--api-token two words", f"--api-token {OMITTED} words"),
    ],
)
def test_a_value_goes_to_the_end_of_what_quotes_its_name(text: str, shown: str) -> None:
    assert Redactor().text(text) == shown


_ECC = "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered"


@pytest.mark.parametrize(
    ("lines", "there"),
    [([], False), (["nothing known"], False), (["slurmstepd: error: Detected 1 oom_kill event"], False)],
)
def test_a_cause_of_a_node_is_one_of_its_own(lines: list[str], there: bool) -> None:
    assert bool(_cause_of_node(lines)) is there


def _case(folder: Path, *, job: bool = True, run: bool = True) -> JobCase:
    slurm = SlurmJob("7", "7", "train", state_of("RUNNING"), reason_of("None"))
    return JobCase("7", slurm if job else None, _run(folder, "--save-before=2") if run else None)


def test_a_plan_without_an_end_has_no_time_to_save_in(tmp_path: Path) -> None:
    case = _case(tmp_path)
    assert saving_of(case).before_s == 120
    text = (tmp_path / "plan.json").read_text()
    (tmp_path / "plan.json").write_text(text.replace('"finish": {', '"finish": null, "other": {'))
    with pytest.raises(Exception, match="was not submitted with --save-before"):
        saving_of(case)


@pytest.mark.parametrize(
    ("file", "rank", "holds"),
    [
        (LogFile(Path("a"), rank=3, labelled=False), 3, True),
        (LogFile(Path("a"), rank=3, labelled=False), 4, False),
        (LogFile(Path("a"), rank=3, labelled=True), 3, True),
        (LogFile(Path("a"), rank=3, labelled=True), 4, False),
        (LogFile(Path("a"), labelled=False), 3, False),
        (LogFile(Path("a"), labelled=True), 3, True),
    ],
)
def test_a_file_may_hold_a_line_of_its_own_rank_or_any_that_it_labels(
    tmp_path: Path, file: LogFile, rank: int, holds: bool
) -> None:
    assert watch._may_hold(replace(file, path=tmp_path / "gone"), rank) is holds


@pytest.mark.parametrize(
    ("role", "has_roles", "words"),
    [
        ("server", True, ["of the role"]),
        ("", True, ["of the role", "of all"]),
        ("server", False, ["of all"]),
        ("", False, ["of all"]),
    ],
)
def test_the_last_words_are_those_of_the_role_that_failed(
    tmp_path: Path, role: str, has_roles: bool, words: list[str]
) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "role").mkdir()
    (tmp_path / "all/batch.log").write_text("of all\n")
    (tmp_path / "role/batch.log").write_text("of the role\n")
    output = JobOutput(tmp_path / "all")
    if has_roles:
        output = replace(output, roles=(("server", JobOutput(tmp_path / "role")),))
    failure = Failure("x", None, (), 1, "x", FailureKind.TASKS, role=role)
    said = last_words(output, failure)
    assert said == words


_NCCL = "n1:1:2 [0] NCCL INFO "


@pytest.mark.parametrize(
    ("lines", "transports"),
    [
        ([f"{_NCCL}Using network IB"], 1),
        ([f"{_NCCL}NET/Plugin: Loaded net plugin AWS Libfabric (v8)"], 1),
        ([f"{_NCCL}Bootstrap : Using eth0"], 0),
        (["NCCL version 2.21.5+cuda12.4", f"{_NCCL}Using network IB"], 1),
        ([f"{_NCCL}Using network IB", "NCCL version 2.21.5+cuda12.4"], 1),
    ],
)
def test_what_nccl_says_of_its_network_is_a_transport(lines: list[str], transports: int) -> None:
    report = read_log([f"{line}\n".encode() for line in lines])
    assert len(report.transports) == transports
    has_version = any("version" in line for line in lines)
    assert all(("2.21.5" in transport.version) is has_version for transport in report.transports)


def test_each_host_has_the_version_of_nccl_that_it_says() -> None:
    other = _NCCL.replace("n1", "n2")
    said = [f"{_NCCL}NCCL version 2.21.5+cuda12.4", f"{_NCCL}Using network IB"]
    said += [f"{other}NCCL version 2.27.3+cuda12.9", f"{other}Using network IB"]
    report = read_log([f"{line}\n".encode() for line in said])
    versions = {one.version: hosts for one, hosts in report.transports.items()}
    assert versions == {"NCCL 2.21.5+cuda12.4": ["n1"], "NCCL 2.27.3+cuda12.9": ["n2"]}


def test_a_report_in_a_folder_has_files_in_folders(tmp_path: Path) -> None:
    write_report(tmp_path / "r", [ReportFile("a", "x", ""), ReportFile("logs/1/b", "y", "")], 0)
    assert {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()} == {"r/a", "r/logs/1/b"}


@pytest.mark.parametrize("missing", [[], ["the plan"]])
def test_what_a_report_lacks_is_listed(missing: list[str]) -> None:
    text = "\n".join(_summary("7", [ReportFile("a", "x", "")], missing))
    assert ("could not be had:" in text) is bool(missing)
    assert all(name in text for name in missing)


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [("PATH", "/bin", True), ("NCCL_DEBUG", "INFO", True), ("EDITOR", "vi", False), ("NCCL_TOKEN", "secret", False)],
)
def test_the_record_of_a_job_has_the_variables_that_decide_something(name: str, value: str, kept: bool) -> None:
    record, _ = record_of((), {name: value}, "/")
    assert (record["environment"] == {name: value}) is kept
