"""plan, submit and job from Python: the plan of the command line, Slurm asked seldom, ends and events as values."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

import muster
from muster.act.bad_nodes import KnownFaults, NodeFault, Sighting, save
from muster.act.record import Run, register, state_directory
from muster.api import Ended, Event, Job, Pending, Running, TookTooLong, plan, submit
from muster.api.job import ASK_EVERY_S
from muster.errors import NoSlurm, RequestError, SchedulerSilent, SiteError, UnknownName
from muster.look.cluster import cluster_name
from muster.slurm.states import Phase

from .stubs import Stub, row

# This checkout may itself lie there.
pytestmark = pytest.mark.filterwarnings("ignore:.* lies in a directory that every host has for itself:UserWarning")

MUSTER = str(Path(sys.executable).with_name("muster"))
COMMAND = ["python", "train.py"]
WAITS = {"state": "PENDING", "reason": "Priority"}
RUNS = {"state": "RUNNING", "node_list": "node[1-2]", "nodes": "2", "started": "1790000000"}
WELL = {"state": "COMPLETED", "node_list": "node[1-2]"}
FAILED = {"state": "FAILED", "exit": "7:0", "node_list": "node[1-2]", "reason": "NonZeroExitCode"}


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def folder(scratch: Path) -> Path:
    """A working directory that is not of one host alone."""
    made = Path(mkdtemp(dir=scratch))
    (made / "train.py").touch()
    return made


@pytest.fixture
def stub(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    made = Stub.at(tmp_path / "slurm")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{made.folder}/bin:{os.environ['PATH']}")
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    return made


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def job(stub: Stub, clock: Clock) -> Job:
    return Job("41", dict(os.environ), clock=clock, sleep=clock.sleep)


def run_of(stub: Stub, job_id: str) -> None:
    """Leave Muster's record of a job."""
    directory = stub.folder / "run"
    directory.mkdir()
    state = state_directory(os.environ, str(Path.home()))
    register(state, Run(job_id, directory, "train", cluster_name(os.environ), digest="abc", moved=True))


def hint_of(error: BaseException) -> str:
    sentence, _, hint = str(error).partition("\n\nhint: ")
    assert sentence == getattr(error, "message", None)
    assert hint == getattr(error, "hint", None)
    return hint


def test_a_plan_is_that_of_the_command_line(stub: Stub) -> None:
    made = plan(COMMAND, nodes=2, ntasks_per_node=4, time="2h", site="generic")

    words = ("--nodes=2", "--ntasks-per-node=4", "--time=2h", "--site=generic", "--", *COMMAND)
    for form, ours in (("script", made.script), ("why", made.explain())):
        typed = subprocess.run([MUSTER, "plan", "--as", form, *words], capture_output=True, text=True, check=True)
        assert typed.stdout == ours
    assert made.as_json()["shape"]["nodes"] == 2
    assert ("shape", "nodes = 2") in [(each.section, each.text) for each in made.decisions]
    assert stub.asked("sbatch") == stub.asked("squeue") == []


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"time": timedelta(hours=30)}, "--time=1-06:00:00"),
        ({"time": timedelta(seconds=90)}, "--time=00:01:30"),
        ({"mem": "64G"}, "--mem=64G"),
        ({"exclusive": True}, "--exclusive"),
        ({"env": {"MODE": "fast and loose"}}, "MODE='fast and loose'"),
        ({"env": ["MODE=slow"]}, "MODE=slow"),
        ({"sbatch": "--nice=5"}, "--nice=5"),
        ({"chdir": Path("/tmp")}, "/tmp"),
    ],
)
def test_a_value_of_python_becomes_what_would_be_typed(stub: Stub, options: dict[str, Any], line: str) -> None:
    assert line in plan("python train.py", site="generic", **options).script


def test_an_option_that_is_none_was_not_given_and_a_false_switch_stands_over_the_settings(stub: Stub) -> None:
    Path("muster.toml").write_text("exclusive = true\n")

    assert "--exclusive" in plan(COMMAND, account=None, site="generic").script
    assert "--exclusive" not in plan(COMMAND, exclusive=False, site="generic").script


@pytest.mark.parametrize(
    ("ask", "kind", "sentence", "hint"),
    [
        (lambda: plan(COMMAND, node=2), UnknownName, "there is no option named 'node'", "did you mean 'nodes'?"),
        (
            lambda: plan(COMMAND, gpu=2),
            UnknownName,
            "there is no option named 'gpu'",
            "did you mean 'gpu_type' or 'gpus_per_node'?",
        ),
        (lambda: plan(COMMAND, nodes="two"), RequestError, "nodes: 'two' is not a count", "from 1 up"),
        (lambda: plan(COMMAND, nodes=True), RequestError, "nodes: True is not a value", "number of nodes"),
        (lambda: plan(COMMAND, nodes=False), RequestError, "nodes: False is not a value", "number of nodes"),
        (lambda: plan(COMMAND, nodes=[1, 2]), RequestError, r"nodes: \[1, 2\] is not a value", "number of nodes"),
        (lambda: plan(COMMAND, exclusive="yes"), RequestError, "exclusive is a switch", "whole nodes"),
        (lambda: plan([]), RequestError, "no command was given", "muster.plan"),
        (lambda: plan(""), RequestError, "no command was given", "muster.plan"),
        (lambda: plan("python 'train.py"), RequestError, "cannot be split into words", "a list needs no quotes"),
        (lambda: plan(["python", 3]), RequestError, "not a list of texts", "python"),  # type: ignore[list-item]
        (lambda: submit(COMMAND, here=True, time=5), RequestError, "it is for Slurm", "omit it"),
        (lambda: plan(len), RequestError, "not a list of texts", "muster docs coming-from"),  # type: ignore[arg-type]
        (lambda: plan(COMMAND, site="nowhere"), RequestError, "nowhere", "muster site list"),
    ],
)
def test_a_mistake_is_the_exception_of_the_command_line_with_its_hint(
    stub: Stub, ask: Callable[[], object], kind: type[Exception], sentence: str, hint: str
) -> None:
    with pytest.raises(kind, match=sentence) as caught:
        ask()
    assert hint in hint_of(caught.value)


def test_a_submitted_job_is_known_by_its_id_and_its_directory(stub: Stub, folder: Path) -> None:
    made = submit(COMMAND, nodes=2, site="generic")

    assert (made.id, repr(made)) == ("41", "<muster job 41>")
    assert made.directory is not None
    assert made.directory.parent == folder / "muster-runs"
    assert len(stub.asked("sbatch")) == 2
    stub.say(queued(made, **WAITS))
    again = muster.job(41)
    assert (again.directory, again.state().name) == (made.directory, "PENDING")


def queued(made: Job, **fields: str) -> str:
    """The job as squeue shows it: the comment is the one of its script."""
    script = (made.directory or Path()) / "job.sh"
    found = re.search(r"--comment=(\S+)", script.read_text())
    assert found is not None
    return row(comment=found[1], stdout=f"{made.directory}/logs/batch.log", **fields)


def test_a_warning_comes_before_anything_is_queued(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("muster.toml").write_text("nodes = 2\n")
    Path("muster.toml").chmod(0o666)

    with pytest.warns(UserWarning, match="is not used") as caught:
        submit(COMMAND, site="generic")
    assert caught[0].filename == __file__
    with pytest.raises(UserWarning):  # the tests' own rule: a warning is an error
        submit(COMMAND, site="generic")
    assert len(stub.asked("sbatch")) == 2


def test_nodes_that_failed_before_are_excluded_with_a_warning(stub: Stub) -> None:
    here = dict(os.environ)
    sighting = Sighting("node2", "40", int(time.time()), NodeFault.DIED, "Slurm says that it died")
    save(state_directory(here, here["HOME"]), cluster_name(here), KnownFaults((sighting,)))

    with pytest.warns(UserWarning, match=r"excluded: node2: Slurm says that it died, job 40") as caught:
        made = submit(COMMAND, nodes=2, site="generic")
    assert caught[0].filename == __file__
    assert "#SBATCH --exclude=node2" in ((made.directory or Path()) / "job.sh").read_text()


def test_a_refusal_of_sbatch_is_an_exception_and_nothing_is_left(stub: Stub) -> None:
    (stub.folder / "bin/sbatch").write_text(
        "#!/bin/sh\necho 'sbatch: error: Batch job submission failed: Invalid partition name specified' >&2\nexit 1\n"
    )
    with pytest.raises(SiteError, match="partition") as caught:
        submit(COMMAND, partition="gone", site="generic")
    assert hint_of(caught.value) == "muster queues, or sinfo -s, lists them"
    assert list(Path("muster-runs").iterdir()) == []


def test_without_a_cluster_it_is_said(stub: Stub) -> None:
    said = "sbatch: fatal: _establish_config_source: failed to fetch config"
    (stub.folder / "bin/sbatch").write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    with pytest.raises(NoSlurm, match="no cluster is set up") as caught:
        submit(COMMAND, site="generic")
    assert "login node" in hint_of(caught.value)


def test_a_job_that_is_not_there_is_refused(stub: Stub) -> None:
    with pytest.raises(RequestError, match="Slurm knows no job 99"):
        muster.job(99)
    with pytest.raises(RequestError, match="'x' is not a job id"):
        muster.job("x")


def test_the_events_of_a_job_that_fails(stub: Stub, job: Job, clock: Clock) -> None:
    later = {**WAITS, "started": "1790000500"}
    stub.say(
        *(row(**fields) for fields in (WAITS, later, {**WAITS, "reason": "Resources"}, RUNS, RUNS, WAITS, RUNS, FAILED))
    )

    found = list(job.events())

    assert [type(each) for each in found] == [Pending, Pending, Running, Pending, Running, Ended]
    assert [each.reason for each in found if isinstance(each, Pending)] == ["Priority", "Resources", "Priority"]
    assert [each.nodes for each in found if isinstance(each, Running)] == [("node1", "node2")] * 2
    end = found[-1]
    assert isinstance(end, Ended)
    assert (end.result.status, end.result.ok, end.result.cause) == (7, False, "it ended with a status other than 0")
    assert len(stub.asked("squeue")) == 8
    assert clock.slept == [ASK_EVERY_S] * 7


def test_a_job_that_began_and_ended_between_two_looks_was_running(stub: Stub, job: Job) -> None:
    began = {"started": "1790000000"}
    stub.say(row(**WAITS), row(**{**FAILED, **began}))

    found = list(job.events())

    assert [type(each) for each in found] == [Pending, Running, Ended]
    run = found[1]
    assert isinstance(run, Running)
    assert (run.state.phase, run.nodes, run.started) == (Phase.RUNNING, ("node1", "node2"), 1790000000)


def test_a_job_that_began_again_between_two_looks_is_running_twice(stub: Stub, job: Job) -> None:
    stub.say(
        row(**RUNS), row(**RUNS), row(**{**RUNS, "started": "1790000300"}), row(**{**WELL, "started": "1790000300"})
    )

    found = list(job.events())

    assert [type(each) for each in found] == [Running, Running, Ended]


def test_a_job_that_never_had_nodes_was_never_running(stub: Stub, job: Job) -> None:
    stub.say(row(**WAITS), row(state="CANCELLED", node_list=""))

    assert [type(each) for each in job.events()] == [Pending, Ended]


def test_rows_of_a_sweep_are_those_of_the_same_table(stub: Stub, folder: Path) -> None:
    (folder / "grid.csv").write_text("lr,name\n0.1,a b\n2,c\n")
    rows = [{"lr": 0.1, "name": "a b"}, {"lr": 2, "name": "c"}]
    command = ["python", "train.py", "--lr", "{lr}", "{name}"]

    given, read = (plan(command, sweep=each, time=5, site="generic").value.sweep for each in (rows, "grid.csv"))

    assert given is not None
    assert read is not None
    assert (given.columns, given.rows, given.path) == (read.columns, read.rows, "2 rows of a program")


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "there is no row"),
        ([{"lr": 1}, 2], r"sweep\[1\]: 2 is not a mapping"),
        ([{"lr": 1}, {"seed": 1}], r"sweep\[1\] has the columns seed, but sweep\[0\] has lr"),
        ([{"lr": None}], "lr=None is neither a text nor a number"),
        ([{"lr": True}], "lr=True is neither a text nor a number"),
        ([{"l-r": 1}], "cannot be a column"),
    ],
)
def test_wrong_rows_are_refused_by_their_number(stub: Stub, rows: list[Any], sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence):
        plan([*COMMAND, "{lr}"], sweep=rows, time=5, site="generic")


def test_the_controller_is_asked_at_most_once_in_ten_seconds(stub: Stub, job: Job, clock: Clock) -> None:
    stub.say(row(**WAITS))

    for _ in range(50):
        assert job.state().phase is Phase.WAITING
    assert len(stub.asked("squeue")) == 1
    clock.now += ASK_EVERY_S
    job.state()
    assert len(stub.asked("squeue")) == 2


def test_a_job_that_is_over_is_not_asked_for_again(stub: Stub, job: Job, clock: Clock) -> None:
    stub.say(row(**WELL))

    assert job.wait().name == "COMPLETED"
    clock.now += 100
    result = job.result()
    assert (result.ok, result.status, result.cause, result.rank, result.host) == (True, 0, None, None, None)
    assert len(stub.asked("squeue")) == 1


def test_a_wait_ends_at_its_time_and_the_job_goes_on(stub: Stub, job: Job, clock: Clock) -> None:
    stub.say(row(**RUNS))

    with pytest.raises(TimeoutError, match="job 41 was not over after 25 s") as caught:
        job.result(timeout=25)
    assert isinstance(caught.value, TookTooLong)
    assert "it goes on" in hint_of(caught.value)
    assert sum(clock.slept) == 25
    assert stub.asked("scancel") == []


def test_a_silent_controller_is_waited_for_but_not_for_ever(stub: Stub, job: Job, clock: Clock) -> None:
    stub.say(row(**RUNS), row(**WELL))
    events = job.events()
    assert isinstance(next(events), Running)
    stub.fall_silent()
    with pytest.raises(SchedulerSilent):
        list(events)
    assert clock.now - 1000 > 300

    stub.fall_silent(silent=False)
    assert job.wait().name == "COMPLETED"


def test_accounting_that_is_away_is_asked_again_for_how_a_job_ended(stub: Stub, job: Job, clock: Clock) -> None:
    run_of(stub, "41")
    stub.say(row(**RUNS))
    assert job.state().name == "RUNNING"
    stub.forget()
    stub.account("echo 'sacct: error: Problem talking to the database: Connection refused' >&2; exit 1")
    began = clock()

    *_, end = job.events()

    assert isinstance(end, Ended)
    assert clock() - began > 300
    assert (end.result.state.phase, end.result.status, end.result.ok) == (Phase.ENDED, None, False)
    assert "accounting does not answer: how it ended is not known" in end.state.sentence


def test_a_job_that_the_controller_forgot_is_over_at_once_where_there_are_no_accounts(
    stub: Stub, job: Job, clock: Clock
) -> None:
    run_of(stub, "41")
    stub.say(row(**RUNS))
    assert job.state().name == "RUNNING"
    stub.forget()
    began = clock()

    state = job.wait()

    assert clock() - began <= ASK_EVERY_S
    assert (state.name, state.phase) == ("UNKNOWN", Phase.ENDED)
    assert "keeps no accounts: how it ended is not known" in state.sentence


def test_an_empty_answer_of_squeue_is_no_end(stub: Stub, job: Job, clock: Clock) -> None:
    stub.say(row(**RUNS), "EMPTY", row(**RUNS), row(**WELL))

    assert [type(each) for each in job.events()] == [Running, Ended]
    assert job.result().ok


def test_the_first_failure_of_a_job_is_that_of_why(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    made = submit(COMMAND, nodes=2, ntasks_per_node=2, site="generic")
    assert made.directory is not None
    logs = made.directory / "logs"
    (logs / "batch.log").write_text("srun: error: node2: task 3: Exited with exit code 7\n")
    (logs / "node2.log").write_text("2: all well\n3: Traceback\n3: torch.OutOfMemoryError: CUDA out of memory.\n")
    stub.say(queued(made, **FAILED))

    result = made.result()

    told = subprocess.run([MUSTER, "why", "41", "--json"], capture_output=True, text=True, check=True)
    (why,) = json.loads(told.stdout)
    assert (result.status, result.rank, result.host) == (7, 3, "node2")
    assert result.failure is not None
    assert result.failure.as_json() == why["first_failure"]
    assert list(result.last_lines) == why["last_lines"] == ["Traceback", "torch.OutOfMemoryError: CUDA out of memory."]
    assert result.known_cause == why["known_error"]["cause"]
    assert result.remedy == why["known_error"]["remedy"]
    assert result.cause == why["first_failure"]["sentence"]


def test_an_array_is_over_when_all_of_its_tasks_are(stub: Stub, job: Job) -> None:
    done, broken = row(shown_id="41_0", **WELL), row(id="43", shown_id="41_1", **FAILED)
    stub.say(done + row(id="43", shown_id="41_1", **RUNS), done + broken)

    found: list[Event] = list(job.events())

    assert [type(each) for each in found] == [Running, Ended]
    assert isinstance(found[-1], Ended)
    assert (found[-1].result.job, found[-1].result.status) == ("41_1", 7)


def test_each_task_of_a_sweep_has_its_result_and_its_row(stub: Stub) -> None:
    Path("grid.csv").write_text("lr,seed\n0.1,1\n0.2,2\n")
    made = submit([*COMMAND, "{lr}", "{seed}"], sweep="grid.csv", nodes=2, site="generic")
    for task, values in ((1, '{"lr": "0.1", "seed": "1"}'), (2, '{"lr": "0.2", "seed": "2"}')):  # as the job writes it
        folder = (made.directory or Path()) / f"task-{task}"
        (folder / "row.json").write_text(values)
    stub.say(queued(made, **{**FAILED, "shown_id": "41_2"}) + queued(made, **{**WELL, "id": "42", "shown_id": "41_1"}))

    results = made.results()

    assert [(result.job, result.ok, result.status) for result in results] == [("41_1", True, 0), ("41_2", False, 7)]
    assert [result.row for result in results] == [{"lr": "0.1", "seed": "1"}, {"lr": "0.2", "seed": "2"}]


def _sweep_of_three(rows_per_job: int) -> Job:
    Path("grid.csv").write_text("lr\n0.1\n0.2\n0.3\n")
    words = {"sweep_per_node": rows_per_job} if rows_per_job else {}
    return submit([*COMMAND, "{lr}"], sweep="grid.csv", site="generic", **words)


@pytest.mark.parametrize("rows_per_job", [0, 2])
def test_a_task_that_the_controller_has_forgotten_is_told_as_unknown(stub: Stub, rows_per_job: int) -> None:
    made = _sweep_of_three(rows_per_job)
    stub.say(queued(made, **{**WELL, "id": "43", "shown_id": "41_3"}))

    results = made.results()

    assert [(result.job, result.ok, result.state.phase) for result in results] == [
        ("41_1", False, Phase.ENDED),
        ("41_2", False, Phase.ENDED),
        ("41_3", True, Phase.ENDED_WELL),
    ]
    assert "how it ended is not known" in results[0].state.sentence
    assert made.state().phase is Phase.ENDED


def test_accounting_is_asked_for_the_tasks_that_the_controller_has_forgotten(stub: Stub) -> None:
    made = _sweep_of_three(0)
    stub.say(queued(made, **{**WELL, "id": "43", "shown_id": "41_3"}))
    heading = (
        "JobIDRaw\x1fJobID\x1fState\x1fReason\x1fExitCode\x1fUser\x1fPartition\x1fAccount\x1fQOS\x1fNNodes"
        "\x1fNCPUS\x1fTimelimit\x1fSubmit\x1fStart\x1fEnd\x1fNodeList\x1fComment\x1fJobName\n"
    )
    comment = re.search(r"--comment=(\S+)", ((made.directory or Path()) / "job.sh").read_text())
    assert comment is not None
    told = f"42\x1f41_2\x1fFAILED\x1fNone\x1f7:0{7 * chr(31)}0{4 * chr(31)}node1\x1f{comment[1]}\x1ftrain\n"
    (stub.folder / "told").write_text(heading + told)
    stub.account(f"echo \"$*\" >>'{stub.folder}/sacct.asked'; cat '{stub.folder}/told'")

    results = made.results()

    assert [(result.job, result.status, result.state.name) for result in results] == [
        ("41_1", None, "UNKNOWN"),
        ("41_2", 7, "FAILED"),
        ("41_3", 0, "COMPLETED"),
    ]
    assert "--jobs=41_1,41_2" in stub.asked("sacct")[0]


def test_all_tasks_that_wait_stand_in_one_line_and_none_is_forgotten(stub: Stub) -> None:
    made = _sweep_of_three(0)
    stub.say(queued(made, **{**WAITS, "shown_id": "41_[1-3]"}))

    assert made.state().phase is Phase.WAITING
    assert not stub.asked("sacct")


def test_a_job_is_cancelled_once_and_not_after_its_end(stub: Stub, job: Job, clock: Clock) -> None:
    stub.say(row(**WAITS), row(state="CANCELLED"))

    job.cancel()
    assert stub.asked("scancel") == ["41"]
    assert job.result().state.name == "CANCELLED"
    assert job.result().status is None
    job.cancel()
    assert stub.asked("scancel") == ["41"]


def test_the_names_are_there_and_typed_at_their_home() -> None:
    assert {"plan", "submit", "job"} <= set(dir(muster))
    assert muster.submit is submit
    assert muster.plan.build.make_plan  # the room of that name is still a room


def run_python(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["plan", "submit", "job"])
def test_an_older_python_gets_one_sentence(name: str) -> None:
    code = f"import sys, muster; sys.version_info = (3, 8, 10); muster.{name}"
    assert run_python(code).stderr.splitlines()[-1] == (
        f"ImportError: muster.{name} needs Python 3.9 or newer, but this is 3.8"
    )


@pytest.mark.parametrize("name", ["plan", "submit", "job"])
def test_the_first_name_that_is_taken_is_a_function(name: str) -> None:
    assert run_python(f"import muster; print(callable(muster.{name}))").stdout == "True\n"
    assert run_python(f"from muster import {name}; print(callable({name}))").stdout == "True\n"


def test_the_ranks_library_alone_says_what_it_is(tmp_path: Path) -> None:
    package = Path(muster.__file__).parent
    (tmp_path / "muster").mkdir()
    (tmp_path / "muster/__init__.py").write_text((package / "__init__.py").read_text())
    (tmp_path / "muster/rank").symlink_to(package / "rank")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import muster; muster.submit"
    told = run_python(code, "-S", "-I").stderr.splitlines()[-1]
    assert told.startswith("ImportError: muster.submit needs the whole of Muster")


def test_loading_the_interface_loads_no_training_environment() -> None:
    code = "import sys, muster.api; print(sorted({'torch', 'numpy', 'rich', 'muster.cli'} & set(sys.modules)))"
    assert run_python(code).stdout == "[]\n"
