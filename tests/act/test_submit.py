"""submit: the run directory whole or not at all, refusals in words, and never the same submission twice."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from launch.plans import plan
from muster.act.record import find_run, make_run_directory
from muster.act.refusal import accepted, check_taken, misfit_of
from muster.act.submit import Submission, Submitted
from muster.errors import MachineLacks, MusterError, NoSlurm, RequestError, SchedulerSilent, SiteError
from muster.model.digest import digest_of
from muster.render.document import plan_as_json
from muster.render.script import job_script
from muster.runner import ProgramResult
from muster.slurm.fit import Misfit
from muster.slurm.variables import scheduler_environment


@dataclass
class FakeSlurm:
    """sbatch and squeue as far as submit asks them; `answers` are given to sbatch in turn."""

    answers: list[ProgramResult | Exception] = field(default_factory=list)
    queue: str = ""
    asked: list[tuple[str, ...]] = field(default_factory=list)
    environments: list[Mapping[str, str]] = field(default_factory=list)

    def __call__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stdin: str | None = None,
        timeout_s: float = 60.0,
    ) -> ProgramResult:
        if argv[0] not in {"sbatch", "squeue"}:
            return ProgramResult(tuple(argv), 1, "", "")
        self.asked.append(tuple(argv))
        self.environments.append(env or {})
        if argv[0] == "squeue":
            return ProgramResult(tuple(argv), 0, self.queue, "")
        if "--test-only" in argv:
            return ProgramResult(tuple(argv), 0, "", "sbatch: Job 1 to start at 2026-11-20T12:00:00")
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def said(status: int, stdout: str = "", stderr: str = "") -> ProgramResult:
    return ProgramResult(("sbatch",), status, stdout, stderr)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


@pytest.fixture
def queue_it(tmp_path: Path) -> Callable[[FakeSlurm], Submitted]:
    (tmp_path / "work").mkdir()
    made = plan("-N", "2", "--chdir", str(tmp_path / "work"), "--", "python", "train.py")

    def submit_plan(slurm: FakeSlurm) -> Submitted:
        return Submission(
            made,
            parent=tmp_path / "work" / "muster-runs",
            state=tmp_path / "state",
            cluster="cluster",
            environment={
                "SBATCH_PARTITION": "other",
                "SLURM_JOB_ID": "1",
                "SLURM_CONF": "/c",
                "TOKEN": "secret",
                "USER": "ada",
            },
            runner=slurm,
        ).queue()

    return submit_plan


def test_a_queued_job_has_its_whole_run_directory(tmp_path: Path, queue_it: Callable[[FakeSlurm], Submitted]) -> None:
    slurm = FakeSlurm([said(0, "4711;away\n")])
    done = queue_it(slurm)

    script = (done.directory / "job.sh").read_text()
    record = json.loads((done.directory / "record.json").read_text())
    found = find_run(tmp_path / "state", "4711", "away")
    assert (done.job, done.adopted) == ("4711", False)
    assert found is not None
    assert found.directory == done.directory
    assert sorted(each.name for each in done.directory.iterdir()) == [
        "job.sh",
        "job_id",
        "logs",
        "plan.json",
        "record.json",
    ]
    assert script.startswith("#!/bin/bash\n")
    assert "TOKEN" in record["environment_names"]
    assert "secret" not in json.dumps(record)
    assert (done.directory / "record.json").stat().st_mode & 0o777 == 0o600


def test_the_queued_script_is_what_plan_prints_and_output_is_the_only_flag(
    tmp_path: Path, queue_it: Callable[[FakeSlurm], Submitted]
) -> None:
    slurm = FakeSlurm([said(0, "1\n")])
    done = queue_it(slurm)
    same = plan("-N", "2", "--chdir", str(tmp_path / "work"), "--", "python", "train.py")

    assert (done.directory / "job.sh").read_text() == job_script(same)
    assert slurm.asked == [
        ("sbatch", "--test-only", f"{done.directory}/job.sh"),
        ("sbatch", "--parsable", f"--output={done.directory}/logs/batch.log", f"{done.directory}/job.sh"),
    ]


def test_what_an_outer_job_or_shell_says_to_sbatch_is_kept_from_it(queue_it: Callable[[FakeSlurm], Submitted]) -> None:
    slurm = FakeSlurm([said(0, "1\n")])
    queue_it(slurm)

    for environment in slurm.environments:
        assert not {"SBATCH_PARTITION", "SLURM_JOB_ID"} & set(environment)
        assert environment["SLURM_CONF"] == "/c"
    assert scheduler_environment({"PMIX_RANK": "1", "PATH": "/bin"}) == {"PATH": "/bin"}


@pytest.mark.parametrize(
    "silence",
    [
        SchedulerSilent("sbatch did not answer within 30 s"),
        said(1, "", "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"),
    ],
)
def test_a_job_that_the_controller_took_without_a_word_is_adopted(
    queue_it: Callable[[FakeSlurm], Submitted], tmp_path: Path, silence: ProgramResult | Exception
) -> None:
    digest = digest_of(plan("-N", "2", "--chdir", str(tmp_path / "work"), "--", "python", "train.py"))
    slurm = FakeSlurm([silence], queue=f"99 muster:other\n100 muster:{digest}\n")
    done = queue_it(slurm)

    assert (done.job, done.adopted) == ("100", True)
    assert sum("--parsable" in argv for argv in slurm.asked) == 1


def test_the_same_command_typed_again_after_a_silence_finds_the_job(
    queue_it: Callable[[FakeSlurm], Submitted], tmp_path: Path
) -> None:
    digest = digest_of(plan("-N", "2", "--chdir", str(tmp_path / "work"), "--", "python", "train.py"))
    with pytest.raises(SchedulerSilent) as silent:
        queue_it(FakeSlurm([SchedulerSilent("nothing")]))
    again = FakeSlurm([], queue=f"100 muster:{digest}\n")
    done = queue_it(again)

    assert "type the same command again" in (silent.value.hint or "")
    assert (done.job, done.adopted) == ("100", True)
    assert all(argv[0] == "squeue" for argv in again.asked)


def test_the_same_command_typed_again_after_a_success_is_a_new_job(queue_it: Callable[[FakeSlurm], Submitted]) -> None:
    first, second = queue_it(FakeSlurm([said(0, "1\n")])), queue_it(FakeSlurm([said(0, "2\n")]))

    assert (first.job, second.job) == ("1", "2")
    assert first.directory != second.directory


def test_a_refusal_is_a_sentence_with_sbatchs_words_and_a_hint(queue_it: Callable[[FakeSlurm], Submitted]) -> None:
    words = "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified"
    with pytest.raises(SiteError, match="the account, or the account in this partition, is not yours") as refused:
        queue_it(FakeSlurm([said(1, "", words)]))

    assert "Invalid account" in refused.value.message
    assert "-A" in (refused.value.hint or "")


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match="cannot be made") as refused:
        make_run_directory(tmp_path / "file" / "runs", "name", {})

    assert refused.value.hint


def test_a_run_directory_that_could_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="cannot be written"):
        make_run_directory(tmp_path, "name", {"good": "x", "not/there": "y"})

    assert list(tmp_path.iterdir()) == []


def test_bytes_that_are_no_utf_8_stay_what_they_are(tmp_path: Path) -> None:
    made = plan("--", "x", "\udcff", "é")
    found = make_run_directory(tmp_path, "name", {"job.sh": job_script(made), "plan.json": plan_as_json(made)})

    assert b"'\xff' '\xc3\xa9'" in (found / "job.sh").read_bytes()
    assert json.loads((found / "plan.json").read_text())["command"] == ["x", "\udcff", "é"]


def test_a_job_that_could_not_be_remembered_is_not_queued(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    slurm, made = FakeSlurm(), plan("--chdir", str(tmp_path), "--", "x")

    with pytest.raises(RequestError, match="cannot remember the job") as refused:
        Submission(
            made,
            parent=tmp_path / "runs",
            state=tmp_path / "file",
            cluster="c",
            environment={},
            runner=slurm,
        ).queue()

    assert "XDG_STATE_HOME" in (refused.value.hint or "")
    assert slurm.asked == []
    assert not (tmp_path / "runs").exists()


def test_run_directories_of_the_same_second_are_different(tmp_path: Path) -> None:
    from datetime import datetime, timezone

    now = datetime(2026, 11, 20, tzinfo=timezone.utc)
    made = [make_run_directory(tmp_path, "../a b", {}, now).name for _ in range(3)]

    assert made == ["a-b-20261120-000000", "a-b-20261120-000000-2", "a-b-20261120-000000-3"]
    assert make_run_directory(tmp_path, "-.", {}, now).name == "run-20261120-000000"


def test_an_earlier_job_of_the_same_launch_is_not_taken_for_one_that_had_no_answer(
    queue_it: Callable[[FakeSlurm], Submitted], tmp_path: Path
) -> None:
    digest = digest_of(plan("-N", "2", "--chdir", str(tmp_path / "work"), "--", "python", "train.py"))
    queue_it(FakeSlurm([said(0, "100\n")]))

    with pytest.raises(SchedulerSilent):
        queue_it(FakeSlurm([SchedulerSilent("nothing")], queue=f"100 muster:{digest}\n"))


@pytest.mark.parametrize(
    ("problem", "sentence", "hint"),
    [
        (MachineLacks("sbatch", "not on PATH", hint="x"), "there is no Slurm here", "muster lab"),
        (SchedulerSilent("sbatch did not answer within 30 s", hint="try again"), "did not answer", "try again"),
    ],
)
def test_a_job_that_nobody_could_be_asked_about_leaves_no_run_directory(
    tmp_path: Path, problem: MusterError, sentence: str, hint: str
) -> None:
    def nobody(argv: Sequence[str], **_: object) -> ProgramResult:
        if argv[0] == "sbatch":
            raise problem
        return ProgramResult(tuple(argv), 1, "", "")

    made = plan("--chdir", str(tmp_path), "--", "x")
    with pytest.raises(SiteError, match=sentence) as refused:
        Submission(
            made,
            parent=tmp_path / "runs",
            state=tmp_path / "state",
            cluster="cluster",
            environment={},
            runner=nobody,
        ).queue()

    assert hint in (refused.value.hint or "")
    assert list((tmp_path / "runs").iterdir()) == []


def test_slurm_without_a_cluster_is_named() -> None:
    answer = said(
        1, "", "sbatch: error: s_p_parse_file\nsbatch: fatal: _establish_config_source: failed to fetch config"
    )
    with pytest.raises(NoSlurm, match="no cluster is set up") as refused:
        accepted(answer)
    assert "muster lab" in (refused.value.hint or "")


NOT_NOW = "allocation failure: Requested node configuration is not available"


def test_a_job_whose_nodes_are_down_is_queued_and_that_is_said() -> None:
    lines: list[str] = []
    down = Misfit("node2 of main is down", "sinfo -R says why", may_pass=True)
    check_taken(lambda: said(1, "", NOT_NOW), lambda: down, lines.append)
    assert lines == ["warning: the job waits: node2 of main is down; sinfo -R says why"]


def test_a_node_that_was_away_for_a_moment_refuses_nothing() -> None:
    answers = [said(1, "", NOT_NOW), said(0)]
    check_taken(lambda: answers.pop(0), lambda: None, lambda _: None)
    assert answers == []


@pytest.mark.parametrize("misfit", [None, Misfit("9 nodes are asked for, but main has 2", "-N 2 or fewer")])
def test_what_no_node_will_ever_have_is_refused(misfit: Misfit | None) -> None:
    with pytest.raises(SiteError, match="9 nodes" if misfit else "no node has what is asked for together"):
        check_taken(lambda: said(1, "", NOT_NOW), lambda: misfit, lambda _: None)


def test_a_refused_job_leaves_no_run_directory(queue_it: Callable[[FakeSlurm], Submitted], tmp_path: Path) -> None:
    with pytest.raises(SiteError):
        queue_it(
            FakeSlurm([said(1, "", "sbatch: error: Batch job submission failed: Invalid partition name specified")])
        )

    assert list((tmp_path / "work" / "muster-runs").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "tasks"),
    [((), {"": ()}), (("--sbatch=--array=3-4",), {"task-3": ("--array=3",), "task-4": ("--array=4",)})],
)
def test_links_are_queued_ahead_until_one_is_refused(
    tmp_path: Path, words: tuple[str, ...], tasks: dict[str, tuple[str, ...]]
) -> None:
    made = plan("-t", "5", "--until-done", "--links", "4", *words, "--chdir", str(tmp_path), "--", "x")
    assert made.finish is not None
    made = replace(made, finish=replace(made.finish, links_ahead=True))
    refused = said(1, "", "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy")
    slurm, lines = FakeSlurm([said(0, "10\n"), *[said(0, "11\n"), said(0, "12\n"), refused] * len(tasks)]), list[str]()

    done = Submission(
        made,
        parent=tmp_path / "runs",
        state=tmp_path / "state",
        cluster="cluster",
        environment={},
        runner=slurm,
        say=lines.append,
    ).queue()

    run = find_run(tmp_path / "state", "10", "cluster")
    assert run is not None
    assert (run.requeues, run.links) == (True, 4)
    script, links = str(done.directory / "job.sh"), [argv for argv in slurm.asked if "link" in argv]
    for folder, array in tasks.items():
        task = folder.removeprefix("task-") and f"_{folder[5:]}"
        place = f"{done.directory}/{folder}".rstrip("/")
        for number, before in (("2", "10"), ("3", "11"), ("4", "12")):
            log = f"--output={place}/logs/batch.log"
            after = (f"--dependency=afterany:{before}{task}", "--open-mode=append", *array, log)
            assert links.pop(0) == ("sbatch", "--parsable", *after, script, "link", number, place)
        known = [line.split("\t")[:2] for line in (Path(place) / "links").read_text().splitlines()]
        assert known == [["1", f"10{task}"], ["2", f"11{task}"], ["3", f"12{task}"]]
    assert links == []
    assert sum(line.startswith("warning: link 4 of the job is not queued: ") for line in lines) == len(tasks)
    assert lines[-1].startswith(f"jobs cannot queue any at this site: {2 * len(tasks)} more wait")


@pytest.mark.parametrize(
    ("words", "requeues", "moved"),
    [((), False, False), (("--requeue",), True, False), (("-o", "out.txt"), False, True)],
)
def test_what_the_verbs_have_to_know_of_a_job_is_remembered(
    tmp_path: Path, words: tuple[str, ...], requeues: bool, moved: bool
) -> None:
    made = plan("-t", "5", *words, "--chdir", str(tmp_path), "--", "x")
    slurm, place = FakeSlurm([said(0, "10\n")]), tmp_path / "runs"
    Submission(made, parent=place, state=tmp_path, cluster="c", environment={}, runner=slurm).queue()
    run = find_run(tmp_path, "10", "c")
    assert run is not None
    assert (run.requeues, run.moved) == (requeues, moved)


def test_as_many_links_are_queued_ahead_as_were_asked_for(tmp_path: Path) -> None:
    made = plan("-t", "5", "--until-done", "--links", "3", "--chdir", str(tmp_path), "--", "x")
    assert made.finish is not None
    made = replace(made, finish=replace(made.finish, links_ahead=True))
    slurm, lines = FakeSlurm([said(0, f"{job}\n") for job in (10, 11, 12)]), list[str]()

    Submission(
        made,
        parent=tmp_path / "runs",
        state=tmp_path / "state",
        cluster="c",
        environment={},
        runner=slurm,
        say=lines.append,
    ).queue()

    assert [argv[argv.index("link") + 1] for argv in slurm.asked if "link" in argv] == ["2", "3"]
    assert [line for line in lines if line.startswith("warning")] == []


@pytest.mark.parametrize(("status", "found"), [(0, True), (1, False)])
def test_nodes_are_told_where_sinfo_could_be_asked(status: int, found: bool) -> None:
    lines = "".join(f"main*\x1fn{number}\x1f(null)\x1fidle\n" for number in (1, 2))
    misfit = misfit_of(plan("-N", "2", "-x", "n1", "--", "x"), lambda *_, **__: said(status, lines), {})
    assert (misfit is not None) is found
