"""What the supervisor of a job believes, and what it outlives: old Pythons, silent programs, missing places."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launch.shells import each_shell
from muster.life import asking, attempt, machine
from muster.life.chain import LinkChain
from muster.life.machine import LifePhase, LifeState
from muster.life.rules import Rules
from muster.life.saves import Saves
from muster.life.supervise import Supervisor
from muster.life.written import RunFiles

_LIFE = Path(asking.__file__).parent
_SCONTROL = 'case "$*" in *hostnames*) echo a; echo b ;; *"show job"*) cat "$0.job" ;; esac\n'
_JOB = "JobId=7 JobName=j JobState=RUNNING EndTime=2030-01-01T00:00:00 PreemptTime=None NodeList=a,b\n"
_HOME = Path(pwd.getpwuid(os.getuid()).pw_dir)
_OLD = [*map(str, _HOME.glob(".pyenv/versions/3.6.*/bin/python3.6")), "/usr/libexec/platform-python", "python3.6"]


def _runs(python: str) -> bool:
    return shutil.which(python) is not None and subprocess.run([python, "-c", ""], check=False).returncode == 0


# The oldest that a batch host may have, where this machine has one.
_PYTHONS = [sys.executable, *[python for python in _OLD if _runs(python)][:1]]

Steer = Callable[..., "subprocess.CompletedProcess[str]"]


def _program(path: Path, text: str) -> None:
    path.write_text("#!/bin/bash\n" + text)
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of Slurm's programs, the first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    _program(folder / "scontrol", _SCONTROL)
    (folder / "scontrol.job").write_text(_JOB)
    for name in ("srun", "sbatch", "scancel", "squeue", "sacct"):
        _program(folder / name, "exit 1\n" if name == "sbatch" else ":\n")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "a,b")
    return folder


@pytest.fixture
def steer(programs: Path, tmp_path: Path) -> Steer:
    """Return a function that steers a job whose attempts are a text of shell."""
    assert programs

    def play(
        text: str, *words: str, python: str = sys.executable, start: tuple[str, ...] = (), **variables: str
    ) -> Any:
        run = tmp_path / "run"
        (run / "logs").mkdir(parents=True, exist_ok=True)
        (tmp_path / "job.sh").write_text(text)
        command = [python, *(start or ("-I", "-S", str(_LIFE))), f"file={tmp_path}/job.sh", f"run={run}", "logs=logs"]
        command += ["nodes=2", "tasks=1", *words]
        environment = {**os.environ, **variables}
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)

    return play


def _rules(*words: str, **variables: str) -> Rules:
    return Rules(["file=job.sh", *words], {"SLURM_JOB_ID": "7", **variables})


@pytest.mark.parametrize("python", _PYTHONS)
def test_it_runs_with_every_python_that_a_batch_host_has(steer: Steer, python: str) -> None:
    end = steer("exit 0", python=python)

    assert (end.returncode, end.stderr) == (0, "")


@pytest.mark.parametrize("python", _PYTHONS)
def test_a_failed_attempt_starts_again_with_every_python(steer: Steer, tmp_path: Path, python: str) -> None:
    count = f'echo x >>{tmp_path}/starts; exit "$(($(wc -l <{tmp_path}/starts) == 1 ? 3 : 0))"'
    end = steer(count, "restarts=1", python=python)

    assert (end.returncode, (tmp_path / "starts").read_text()) == (0, "x\nx\n")
    assert "the same ranks start again (restart 1 of 1)" in end.stderr


def test_a_job_without_links_writes_nothing_of_links(steer: Steer, tmp_path: Path) -> None:
    assert steer("exit 0").returncode == 0
    assert {"links", "job.sh"}.isdisjoint(path.name for path in (tmp_path / "run").rglob("*"))


def test_what_nohup_has_ignored_stays_ignored(steer: Steer, tmp_path: Path) -> None:
    told = 'kill -HUP "$PPID"; sleep 0.2; '
    count = f'echo x >>{tmp_path}/starts; exit "$(($(wc -l <{tmp_path}/starts) == 1 ? 3 : 0))"'
    end = steer(told + count, "restarts=1", python="nohup", start=(sys.executable, "-I", "-S", str(_LIFE)))

    assert (end.returncode, (tmp_path / "starts").read_text()) == (0, "x\nx\n")


@pytest.fixture
def shell(programs: Path, tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Return a function that runs a script up to its supervisor; a text of shell stands before that."""
    parts = _LIFE.parent / "render" / "shell"
    text = "".join((parts / name).read_text() for name in ("begin/python.sh", "begin/become.sh", "again/supervise.sh"))
    # Python's start takes its time, and meanwhile somebody asks the ranks to save.
    _program(programs / "slow", f'kill -USR1 "$$"\nexec {sys.executable} "$@"\n')

    def run(before: str) -> subprocess.CompletedProcess[str]:
        rest = f"muster_run_dir={tmp_path} muster_nodes=2 muster_ntasks_per_node=1\n{before}\n"
        _program(tmp_path / "job.sh", f"{text}{rest}muster_supervise slow {_LIFE} restarts=0\necho ranks\n")
        return subprocess.run([tmp_path / "job.sh"], capture_output=True, text=True, timeout=60, check=False)

    return run


def test_a_request_to_save_that_comes_before_the_supervisor_ends_nothing(
    shell: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    end = shell("")

    assert (end.returncode, end.stdout, end.stderr) == (0, "ranks\n", "")


def test_a_job_that_was_told_to_end_before_its_supervisor_starts_no_ranks(
    shell: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    end = shell("muster_interrupted=143")

    assert (end.returncode, end.stdout) == (143, "")


def test_python_36_knows_no_option_of_the_wakeup(steer: Steer) -> None:
    text = (
        "import signal, sys\nown = signal.set_wakeup_fd\nsignal.set_wakeup_fd = lambda number: own(number)\n"
        "from muster.life.supervise import main\nmain(sys.argv[1:])\n"
    )
    end = steer("exit 0", start=("-c", text))

    assert (end.returncode, end.stderr) == (0, "")


@pytest.mark.parametrize("python", _PYTHONS)
def test_a_checkpoint_of_any_name_reaches_the_ranks_in_the_plainest_locale(
    steer: Steer, tmp_path: Path, python: str
) -> None:
    folder = tmp_path / "päth"
    folder.mkdir()
    (folder / "one.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    end = steer(f'printf %s "$MUSTER_CHECKPOINT" >{tmp_path}/told', f"checkpoint={folder}", python=python, LC_ALL="C")

    assert (end.returncode, end.stderr) == (0, "")
    assert (tmp_path / "told").read_bytes() == os.fsencode(folder / "one.safetensors")


def test_the_last_task_of_an_array_is_not_taken_for_another_task(programs: Path) -> None:
    mine = _JOB.replace("JobId=7", "JobId=7 ArrayJobId=7 ArrayTaskId=3")
    other = "JobId=5 ArrayJobId=7 ArrayTaskId=0 JobState=FAILED EndTime=2020-01-01T00:00:00 PreemptTime=None\n"
    (programs / "scontrol.job").write_text(mine + other)

    job = asking.ask_job("7")

    assert job is not None
    assert (job.state, job.end > time.time()) == ("RUNNING", True)


@pytest.mark.parametrize("text", ["", "JobId=77 JobState=RUNNING\n"])
def test_no_answer_on_the_job_is_none(programs: Path, text: str) -> None:
    (programs / "scontrol.job").write_text(text)

    assert asking.ask_job("7") is None


def test_a_format_of_times_that_the_user_chose_changes_no_answer(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    _program(
        programs / "scontrol",
        '[ "$SLURM_TIME_FORMAT" = %s ] && end=1900000000 || end=Tomorr\n'
        'echo "JobId=7 JobState=RUNNING EndTime=$end PreemptTime=None NodeList=a"\n',
    )
    job = asking.ask_job("7")

    assert job is not None
    assert job.end == 1900000000


def test_a_list_of_nodes_is_asked_for_again(programs: Path, tmp_path: Path) -> None:
    _program(programs / "scontrol", f"[ -e {tmp_path}/once ] && echo a && echo b\ntouch {tmp_path}/once\n")

    assert asking.expand("n[1-2]") == ("a", "b")


def test_a_link_before_without_a_name_is_no_other_job(programs: Path) -> None:
    assert programs

    assert asking.ask_old_job("") == ""


def test_without_a_folder_nothing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "attempts").write_text("3\t1\ta,b\t\t7\n")

    assert RunFiles("").attempts() == []


def test_who_reads_a_file_that_is_put_again_reads_all_of_the_old_one_or_of_the_new_one(tmp_path: Path) -> None:
    files = RunFiles(str(tmp_path))
    files.put("roles.json", "old")
    with (tmp_path / "roles.json").open() as reader:
        files.put("roles.json", "new")

        assert (reader.read(), files.lines("roles.json")) == ("old", ["new"])
    assert [path.name for path in tmp_path.iterdir()] == ["roles.json"]


def test_a_claim_that_is_not_written_yet_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "link-2").touch()
    timer = threading.Timer(0.3, lambda: (tmp_path / "link-2").write_text("8\n"))
    timer.start()

    assert RunFiles(str(tmp_path)).claim("link-2", "9") == "8"
    timer.join()


def test_a_claim_that_nobody_can_write_is_ones_own(tmp_path: Path) -> None:
    assert RunFiles(str(tmp_path / "none")).claim("link-2", "9") == "9"


def test_a_next_link_whose_script_is_gone_is_said_and_the_status_stays(programs: Path, tmp_path: Path) -> None:
    assert programs
    said: list[str] = []
    chain = LinkChain(_rules("links=3", f"run={tmp_path}"), RunFiles(str(tmp_path)), {}, said.append)

    chain.queue_next()
    chain._stop_queueing()
    chain.queue_next()

    assert "the next link of this job is not queued" in said[0]
    assert "job.sh" in said[0]


@pytest.mark.parametrize(
    ("state", "over", "stays"),
    [
        (LifeState(decision="done"), "", False),
        (LifeState(decision="end"), "", False),
        (LifeState(decision="end", told=143), "", True),
        (LifeState(decision="next"), "", True),
        (LifeState(), "", True),  # another job is this link, or how the link before ended is not known
        (LifeState(), "the script is done\n", False),
    ],
)
def test_what_was_passed_on_goes_when_the_job_is_over(
    programs: Path, tmp_path: Path, state: LifeState, over: str, stays: bool
) -> None:
    assert programs
    (tmp_path / "passed").touch()
    if over:
        (tmp_path / "over").write_text(over)
    supervisor = Supervisor(_rules(f"run={tmp_path}", "logs=logs", "links=3"), dict(os.environ))
    supervisor.state = state

    supervisor._finish()

    assert (tmp_path / "passed").exists() is stays


def test_a_list_of_nodes_that_was_not_written_leaves_the_ranks_their_nodes(programs: Path, tmp_path: Path) -> None:
    assert programs
    (tmp_path / "attempts").write_text("1\t5\t\t\t7\n")

    supervisor = Supervisor(_rules(f"run={tmp_path}", "logs=logs", "nodes=3", "spares=1"), dict(os.environ))

    assert supervisor.terms.nodes == 2


def test_ranks_that_this_host_cannot_start_are_a_failed_attempt(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert programs
    (tmp_path / "logs").mkdir()
    supervisor = Supervisor(_rules(f"run={tmp_path}", "logs=logs", "nodes=2"), dict(os.environ))
    said: list[str] = []
    monkeypatch.setattr(supervisor, "say", said.append)

    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("muster.life.script.subprocess.Popen", refuse)
    supervisor.tell(machine.LinkBegins(("a", "b")))
    supervisor._wait()

    assert "temporarily unavailable" in said[0]
    assert supervisor.state.phase == LifePhase.JUDGES


def test_what_a_host_refuses_meanwhile_ends_no_training(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert programs
    supervisor = Supervisor(_rules(f"run={tmp_path}", "logs=logs", "nodes=2"), dict(os.environ))
    said: list[str] = []
    monkeypatch.setattr(supervisor, "say", said.append)

    def refuse() -> None:
        raise RuntimeError("can't start new thread")

    supervisor.post(refuse)
    supervisor._wait()

    assert "can't start new thread" in said[0]


def test_an_end_whose_logs_cannot_be_read_is_told(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert programs
    ends: list[attempt.ScriptEnd] = []
    (tmp_path / "job.sh").write_text("exit 3")

    def fails(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(attempt.RunningAttempt, "read_end", fails)
    rules = _rules(f"run={tmp_path}", "keeps=yes")
    running = attempt.RunningAttempt(1, ("a",), rules, 1, lambda act: act(), lambda _, end: ends.append(end))
    running.start([str(tmp_path / "job.sh")], dict(os.environ))
    until = time.monotonic() + 30
    while not ends and time.monotonic() < until:
        time.sleep(0.02)

    assert [end.status for end in ends] == [3]


def _saves(*words: str) -> tuple[Saves, list[str]]:
    said: list[str] = []
    return Saves(_rules("save=60", "signal=USR1", "clock=yes", *words), RunFiles(""), said.append), said


def test_a_limit_that_slurm_did_not_say_is_asked_for_again(programs: Path) -> None:
    (programs / "scontrol.job").write_text("")
    saves, _ = _saves()
    began = time.monotonic()
    saves.begin()
    at = saves.find_time(began)
    (programs / "scontrol.job").write_text(_JOB)

    assert at is not None
    assert not saves.is_due(at, began)
    assert saves.environment("")["MUSTER_END"] != ""


def test_a_job_without_a_limit_is_not_asked_again(programs: Path) -> None:
    (programs / "scontrol.job").write_text(_JOB.replace("2030-01-01T00:00:00", "Unknown"))
    saves, _ = _saves()
    saves.begin()

    assert saves.find_time(time.monotonic()) is None


def test_the_text_that_tells_ranks_is_read_before_muster_changes(
    programs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _program(programs / "srun", f'printf "%s" "$*" >{tmp_path}/words; echo @told 2 2\n')
    saves, _ = _saves()
    saves.begin()
    monkeypatch.setattr(asking, "_PACKAGE", "/nowhere")

    assert saves.tell_ranks(("a", "b"), 1, lambda: True) == "asked"
    assert "muster_receivers" in (tmp_path / "words").read_text()


@pytest.mark.parametrize(
    ("answer", "said_then"),
    [
        ("srun: error: Unable to contact slurm controller' >&2; echo '", "no node answered"),
        ("@told 2 0", "no rank handles"),
    ],
)
def test_no_answer_of_the_nodes_is_not_taken_for_ranks_without_a_handler(
    programs: Path, answer: str, said_then: str
) -> None:
    _program(programs / "srun", f"echo '{answer}'\n")
    saves, said = _saves()
    saves.begin()

    assert saves.tell_ranks(("a",), 1, lambda: False) == ""
    assert said_then in said[0]


def test_a_text_that_is_not_there_is_said_at_the_beginning(programs: Path) -> None:
    assert programs
    saves, said = _saves("signals=/nowhere/signals.sh")
    saves.begin()

    assert "/nowhere/signals.sh" in said[0]


@pytest.mark.parametrize(
    "words",
    [
        "srun: error: Unable to confirm allocation: Unable to contact slurm controller (connect failure)",
        "srun: error: Unable to confirm allocation for job 7: Socket timed out on send/recv operation",
    ],
)
def test_a_controller_that_is_away_says_nothing_of_the_nodes(programs: Path, words: str) -> None:
    _program(programs / "srun", f"echo '{words}' >&2; exit 1\n")

    assert asking.ask_nodes(("a", "b"), 10.0) is None
    _program(programs / "srun", f"echo '{words}' >&2; exit 0\n")

    assert asking.ask_nodes(("a", "b"), 10.0) == ((), ())


@pytest.mark.parametrize(("name", "dead"), [("b", ("b",)), ("b.example", ("b.example",))])
def test_a_node_that_starts_no_step_is_dead(programs: Path, name: str, dead: tuple[str, ...]) -> None:
    _program(programs / "srun", f"echo 'srun: error: Task launch for 7.1 failed on node {name}: x' >&2; exit 1\n")

    assert asking.ask_nodes(("a", "b"), 10.0) == (dead, ())


@pytest.mark.parametrize(("status", "state"), [(0, "COMPLETED"), (1, None)])
def test_an_answer_of_accounting_that_failed_is_none(programs: Path, status: int, state: str | None) -> None:
    _program(programs / "scontrol", "exit 1\n")
    _program(programs / "sacct", f"echo COMPLETED; exit {status}\n")

    assert asking.ask_old_job("7") == state
    assert asking.ask_old_job("") == ""


@each_shell
def test_the_question_to_the_nodes_ends_what_an_attempt_of_this_job_has_left_there(
    shell: tuple[str, ...], programs: Path, tmp_path: Path
) -> None:
    """A job that a rank submits inherits the mark of the rank."""
    words = " ".join([shutil.which(shell[0]) or "", *shell[1:]])
    _program(
        programs / "srun", f'while [ "$1" != /bin/sh ]; do shift; done\nshift\nSLURMD_NODENAME=a exec {words} "$@"\n'
    )
    start = tmp_path / "7.1.2"
    own, *others = (
        subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"], "MUSTER_MARK": mark, **of_job})
        for mark, of_job in (
            (f"{start}/1.0", {"SLURM_JOB_ID": "7"}),
            (f"{start}/11.0", {"SLURM_JOB_ID": "7"}),
            (f"{start}/2.0", {"SLURM_JOB_ID": "7"}),
            (f"{start}/1.0", {"SLURM_JOB_ID": "8"}),
            (f"{start}/1.0", {"SLURM_JOB_ID": "77", "ANOTHER_SLURM_JOB_ID": "7"}),
            (f"{start}/1.0", {}),
        )
    )
    running = attempt.RunningAttempt(1, ("a",), _rules(), -1, lambda _: None, lambda *_: None)
    running.heard("ends", str(start))

    found = asking.ask_nodes(("a",), 60.0, running.mark(), str(tmp_path / "away"))
    for process in (own, *others):
        process.terminate()

    assert found == ((), ("a",))
    assert own.wait(60) == -signal.SIGKILL
    assert [process.wait(60) for process in others] == [-signal.SIGTERM] * 5


def test_a_step_of_another_task_is_not_this_ones(programs: Path) -> None:
    steps = ("7_3.0", "7_1.0", "7.2", "7_3.batch")
    lines = "".join(f"StepId={step} UserId=0 SrunHost:Pid={os.uname().nodename}:44\n" for step in steps)
    here = os.uname().nodename
    lines += f"\\nNo steps\\nStepId=7.5 Name=muster-deputy SrunHost:Pid={here}:44\\nStepId=7.6 SrunHost:Pid={here}:x\\n"
    _program(programs / "scontrol", f"printf '{lines}'\n")

    assert asking.find_steps("7", "7_3", [44]) == ["7_3.0", "7.2"]
    assert asking.find_steps("7", "7_3", [45]) == []


def test_a_step_that_another_host_started_is_not_this_ones_whatever_its_pid(programs: Path) -> None:
    own = os.uname().nodename
    hosts = ("login", own.partition(".")[0], own + ".example.org", own + "2")
    lines = "".join(f"StepId=7.{place} UserId=0 SrunHost:Pid={host}:44\n" for place, host in enumerate(hosts))
    _program(programs / "scontrol", f"printf '{lines}'\n")

    assert asking.find_steps("7", "7", [44]) == ["7.1", "7.2"]


def test_the_job_that_is_asked_for_is_the_last_that_started_ranks(tmp_path: Path) -> None:
    """Link 2 did nothing: how link 1 ended was not known."""
    (tmp_path / "links").write_text("1\t5\t0\n2\t6\t0\n3\t7\t0\n")
    (tmp_path / "attempts").write_text("1\t0\ta,b\t\t5\n2\t0\ta,b\t\t7\n")
    chain = LinkChain(_rules("links=9", "link=3"), RunFiles(str(tmp_path)), {}, lambda _: None)

    assert (chain.before(), chain.job_before) == ("", "5")
    (tmp_path / "ends").write_text("1\t0\t0\t1\t\t\tend\n")
    assert (chain.before(), chain.job_before) == ("end", "5")


def test_a_link_after_one_that_started_nothing_asks_for_that_one(tmp_path: Path) -> None:
    (tmp_path / "links").write_text("1\t5\t0\n")
    chain = LinkChain(_rules("links=9", "link=2"), RunFiles(str(tmp_path)), {}, lambda _: None)

    assert (chain.before(), chain.job_before) == ("", "5")


@pytest.fixture
def with_checkpoints(programs: Path, tmp_path: Path) -> Supervisor:
    """Return a supervisor whose job had one checkpoint when it was last looked for."""
    assert programs
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved/one.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    words = (f"run={tmp_path}", f"checkpoint={tmp_path}/saved", "logs=logs", "nodes=2")
    supervisor = Supervisor(_rules(*words), dict(os.environ))
    assert (supervisor.saves.search() or "").endswith("one.safetensors")
    return supervisor


@pytest.mark.parametrize("trouble", ["gone", "gone, and no word of it", "unread"])
def test_checkpoints_that_cannot_be_looked_for_are_unknown(
    with_checkpoints: Supervisor, tmp_path: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is away has no checkpoint to show, and the ranks would begin from nothing."""
    if trouble == "unread":
        monkeypatch.setattr("muster.life.saves._SEARCH", "/nowhere.py")
    else:
        (tmp_path / "saved").rename(tmp_path / "away")
        (tmp_path / "looks").unlink() if trouble != "gone" else None

    assert with_checkpoints._ask_disk() is None
    if trouble == "gone":
        (tmp_path / "away").rename(tmp_path / "saved")
        assert with_checkpoints._ask_disk() == machine.Newest(with_checkpoints.saves.checkpoint)


def test_a_folder_that_never_had_a_checkpoint_has_none(programs: Path, tmp_path: Path) -> None:
    assert programs
    (tmp_path / "looks").write_text("{}")
    supervisor = Supervisor(_rules(f"run={tmp_path}", f"checkpoint={tmp_path}/saved", "logs=logs"), dict(os.environ))

    assert supervisor._ask_disk() == machine.Newest("")


def test_no_ranks_start_where_a_supervisor_before_this_one_saw_checkpoints(
    steer: Steer, with_checkpoints: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    shutil.move(tmp_path / "looks", tmp_path / "run/looks")
    (tmp_path / "saved").rename(tmp_path / "away")
    short = "import sys; sys.path.insert(0, sys.argv.pop(1)); from muster.life import supervise\n"
    short += "supervise.FIRST_SEARCH_S = 0.2; sys.exit(supervise.main(sys.argv[1:]))"
    start = ("-c", short, str(_LIFE.parents[1]))
    end = steer("echo ranks", f"checkpoint={tmp_path}/saved", start=start)

    assert (end.returncode, end.stdout) == (1, "")
    warning, error, hint = (end.stderr.replace("\n\n", "\n").splitlines() + [""] * 3)[:3]
    assert warning == f"muster: warning: {tmp_path}/saved is not there, and had checkpoints before"
    assert error.startswith("muster: error: no ranks start, the job does not go on, the newest checkpoint is not known")
    assert hint.startswith("hint: ")


@pytest.mark.parametrize("trouble", ["gone", "hangs"])
@pytest.mark.parametrize("sent", [signal.SIGUSR1, signal.SIGTERM])
def test_a_disk_that_is_away_holds_no_signal_up(
    steer: Steer, with_checkpoints: Supervisor, programs: Path, tmp_path: Path, trouble: str, sent: signal.Signals
) -> None:
    """To save waits for ranks, which wait for the disk; to end waits for nobody."""
    assert with_checkpoints
    (tmp_path / "run").mkdir()
    shutil.move(tmp_path / "looks", tmp_path / "run/looks")
    (tmp_path / "saved").rename(tmp_path / "away")
    _program(programs / "srun", "echo @told 2 2\n")
    short = "import sys; sys.path.insert(0, sys.argv.pop(1)); from muster.life import saves, supervise\n"
    search = tmp_path / "search.py"
    search.write_text(f"import os, time\nwhile not os.path.exists({str(tmp_path / 'back')!r}): time.sleep(0.05)\n")
    if trouble == "hangs":
        (tmp_path / "saved").mkdir()
        short += f"saves._SEARCH = {str(search)!r}\n"
    # The signal comes while the disk is looked for; the disk comes back after that.
    short += "import os; own = saves.Saves.search; first = [1]\n"
    short += f"def look(*words): first and os.kill(first.pop() * os.getpid(), {int(sent)}); return own(*words)\n"
    short += "saves.Saves.search = look\n"
    back = (tmp_path / "back").touch if trouble == "hangs" else lambda: (tmp_path / "away").rename(tmp_path / "saved")
    timer = threading.Timer(2, back)
    timer.start()
    text = f"echo ranks; until [ -e {tmp_path}/run/saves ]; do sleep 0.1; done"
    words = (f"checkpoint={tmp_path}/saved", "save=60", "signal=USR1")
    short += "sys.exit(supervise.main(sys.argv[1:]))"
    end = steer(text, *words, start=("-c", short, str(_LIFE.parents[1])))
    timer.join()

    if sent == signal.SIGUSR1:
        assert (end.returncode, end.stdout) == (0, "ranks\n"), end.stderr
        assert "muster: 2 of 2 ranks got SIGUSR1" in end.stderr
    else:
        assert (end.returncode, end.stdout) == (143, "")
        assert "the job was told to end" in end.stderr
        assert "gone for good" not in end.stderr


def test_a_look_that_hangs_holds_no_request_to_save_up(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves, _ = _saves(f"checkpoint={tmp_path}")
    (tmp_path / "search.py").write_text(f"open({str(tmp_path / 'gate')!r}).read()\n")
    os.mkfifo(tmp_path / "gate")
    monkeypatch.setattr("muster.life.saves._SEARCH", str(tmp_path / "search.py"))
    _program(programs / "srun", "echo @told 2 2\n")
    look = threading.Thread(target=saves.search)
    look.start()
    gate = os.open(tmp_path / "gate", os.O_WRONLY)  # the look has begun
    tell = threading.Thread(target=saves.tell_ranks, args=(("a", "b"), 1, lambda: True))
    tell.start()
    tell.join(30)
    was_told = not tell.is_alive()
    os.close(gate)
    for each in (look, tell):
        each.join()

    assert was_told


def test_before_the_first_start_a_slow_disk_gets_more_time(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert programs
    supervisor = Supervisor(_rules(f"run={tmp_path}", f"checkpoint={tmp_path}"), dict(os.environ))
    patience: list[float] = []

    def run(_: object, timeout_s: float) -> asking.ProgramEnd:
        patience.append(timeout_s)
        return asking.ProgramEnd(0, "", "")

    monkeypatch.setattr(asking, "run", run)
    monkeypatch.setattr(supervisor, "tell", lambda _: None)
    supervisor._begin()
    supervisor._ask_disk()

    assert patience[0] >= 600
    assert patience[1] < machine.ANSWER_S


def test_a_log_that_is_not_there_yet_is_used_later(programs: Path, tmp_path: Path) -> None:
    assert programs
    supervisor = Supervisor(_rules(f"run={tmp_path}", "logs=logs"), dict(os.environ))
    supervisor.log = str(tmp_path / "attempt-2" / "batch.log")

    supervisor.say("early")
    (tmp_path / "attempt-2").mkdir()
    supervisor.say("late")

    assert Path(supervisor.log).read_text() == "late\n"
