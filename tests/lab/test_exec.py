"""Guards that a command in a lab differs from one outside by its world only: status, streams, signals, terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import pytest

from muster.rank.contract import LAB_FOLDERS
from muster.runner import checked, end_group, run, start
from plugins.labs import Lab
from plugins.real_user import real_user

from .processes import alive, becomes_true, named, with_word

pytestmark = pytest.mark.lab

# Says how many SIGTERMs and SIGINTs it got within a second of the first.
COUNT_SIGNALS = """
import signal, sys, time
seen = []
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, lambda number, _: seen.append(number))
print("ready", flush=True)
while not seen:
    time.sleep(0.01)
time.sleep(1)
print(*[signal.Signals(number).name for number in seen], flush=True)
"""


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
)
@pytest.mark.parametrize("host", [None, "node2"])
def test_the_exit_status_is_the_commands(either_lab: Lab, script: str, status: int, host: str | None) -> None:
    assert either_lab.exec(["sh", "-c", script], host=host).status == status


def test_a_program_is_named_by_a_path_from_the_callers_directory(lab: Lab, shared_directory: Path) -> None:
    script = shared_directory / "tools/hello"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho hello\n")
    script.chmod(0o755)
    assert checked(lab.exec(["tools/hello"], cwd=shared_directory)).stdout == "hello\n"
    assert checked(lab.exec(["./hello"], cwd=script.parent)).stdout == "hello\n"


def test_a_directory_that_is_gone_is_told_and_the_command_starts_in_the_root(lab: Lab, tmp_path: Path) -> None:
    words = ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(tmp_path), *lab.argv(["pwd"])]
    done = run(words, env=lab.person.environment())
    assert done.stdout == "/\n"
    assert "the working directory is not there any more: the command starts in /" in done.stderr


def test_stdin_and_stdout_pass_byte_for_byte(lab: Lab, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4000
    (tmp_path / "in").write_bytes(content)
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as sink:
        assert start(lab.argv(["cat"]), env=lab.person.environment(), stdin=source, stdout=sink).wait(30) == 0
    assert (tmp_path / "out").read_bytes() == content


def test_stderr_is_the_commands_alone(lab: Lab) -> None:
    answer = lab.exec(["sh", "-c", "echo out; echo err >&2"])
    assert (answer.stdout, answer.stderr) == ("out\n", "err\n")


def test_words_pass_unread(lab: Lab) -> None:
    words = ["--name", "a b", "$(touch x)", "", "*", "--", "'"]
    said = checked(lab.exec([sys.executable, "-c", "import sys; print(sys.argv[1:])", *words])).stdout
    assert said == f"{words}\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_arrives_once(lab: Lab, number: signal.Signals, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        argv = lab.argv([sys.executable, "-c", COUNT_SIGNALS])
        process = start(argv, env=lab.person.environment(), stdout=out, own_group=True)
    try:
        assert becomes_true(lambda: (tmp_path / "out").read_bytes() == b"ready\n")
        process.send_signal(number)
        assert process.wait(30) == 0
        assert (tmp_path / "out").read_text() == f"ready\n{number.name}\n"
    finally:
        end_group(process)


def test_what_the_caller_ignores_the_command_ignores(lab: Lab) -> None:
    argv = ["nohup", *lab.argv(["sh", "-c", "kill -HUP $$; echo alive"])]
    assert checked(run(argv, env=lab.person.environment())).stdout == "alive\n"


def test_a_killed_exec_leaves_nothing_of_its_command(either_lab: Lab) -> None:
    mark = f"86{os.getpid()}{time.monotonic_ns() % 10**6}"
    command = ["sh", "-c", f"sleep {mark} & setsid sleep {mark} & sleep {mark}"]
    process = start(either_lab.argv(command), env=either_lab.person.environment(), own_group=True)
    assert becomes_true(lambda: len(with_word(mark)) == 3)
    members = with_word(mark)
    end_group(process)
    assert becomes_true(lambda: not alive(members))


@pytest.mark.parametrize("under", ["nothing", "sh", "bash"])
@pytest.mark.parametrize("words", [["sleep"], ["sh", "-c", 'sleep "$1"; true', "sh"], ["srun", "-N2", "sleep"]])
def test_a_closed_terminal_ends_the_command(either_lab: Lab, under: str, words: list[str]) -> None:
    mark = f"88{os.getpid()}{time.monotonic_ns() % 10**6}"
    argv = either_lab.argv([*words, mark])
    shells = {
        "nothing": [],
        "sh": ["sh", "-c", '"$@"; true', "sh"],
        "bash": ["bash", "--norc", "-ic", '"$@"; true', "-"],
    }
    terminal = Terminal([*shells[under], *argv], either_lab.person.environment())
    ranks = 2 if words[0] == "srun" else 1
    assert becomes_true(lambda: len([each for each in with_word(mark) if is_sleep(each[0])]) == ranks)
    members = with_word(mark)

    os.close(terminal.descriptor)

    try:
        assert becomes_true(lambda: not alive(members))
        assert not checked(either_lab.exec(["squeue", "--noheader"])).stdout
    finally:
        for pid, _ in alive(members):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(terminal.pid, 0)


def is_sleep(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text() == "sleep\n"
    return False


def test_what_a_command_leaves_in_the_background_lives_on(lab: Lab) -> None:
    mark = f"87{os.getpid()}"
    checked(lab.exec(["sh", "-c", f"sleep {mark} >/dev/null 2>&1 &"]))
    left = with_word(mark)
    assert len(left) == 1
    os.kill(left.pop()[0], signal.SIGKILL)


def test_the_callers_own_cluster_does_not_leak_in(lab: Lab) -> None:
    foreign = {"SLURM_JOB_ID": "77", "SLURM_CONF": "/nowhere", "SBATCH_ACCOUNT": "x", "PMI_RANK": "3", "KEPT": "yes"}
    said = checked(lab.exec(["env"], env=foreign)).stdout.splitlines()
    assert "KEPT=yes" in said
    assert not [line for line in said if line.startswith(("SLURM_", "SBATCH_", "PMI_"))]


def test_an_ordinary_lab_user_is_somebody_else_with_a_home_of_their_own(either_lab: Lab) -> None:
    said = checked(
        either_lab.exec(["sh", "-c", 'id -un; cd; pwd; touch here; srun sh -c "id -un; ls ~"'], user="alice")
    )
    assert said.stdout == "alice\n/run/muster-lab/home/alice\nalice\nhere\n"
    shown_folders = checked(either_lab.exec(["printenv", LAB_FOLDERS], user="alice")).stdout.splitlines()
    assert "/run/muster-lab/home" in shown_folders, "else every launch from it is warned"


def test_a_lab_keeps_its_users_when_the_machine_replaces_its_own_list(either_lab: Lab) -> None:
    # Whoever made the lab stays a user too, with subordinate ids, while useradd runs for another test.
    asks = [*either_lab.person.prefix(), "sh", "-c", "id -un; read _; id -un; cat /etc/subuid"]
    with subprocess.Popen(asks, stdin=PIPE, stdout=PIPE, text=True) as maker:
        assert maker.stdout is not None
        name = maker.stdout.readline()
        with real_user():
            said = checked(either_lab.exec(["sh", "-c", "id -un; cat /etc/hostname"], user="alice")).stdout
            checked(either_lab.exec(["srun", "-N2", "id", "-un"], user="alice"))
            answers, _ = maker.communicate("\n")

    assert said == f"alice\n{Path('/etc/hostname').read_text()}"
    assert answers.startswith(name)
    assert name == "root\n" or answers == f"{name}rehearsal:300000:65536\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--host", "node9", "--", "true"], "there is no host in this lab named 'node9'"),
        (["--user", "carol", "--", "true"], "there is no user in this lab named 'carol'"),
        (["--", "no-such-program"], "the program 'no-such-program' is not on PATH in the lab"),
        ([], "muster lab exec needs a command"),
        (["--hots", "node1", "--", "true"], "there is no option --hots"),
    ],
)
def test_what_cannot_be_run_is_refused_with_a_hint(lab: Lab, words: list[str], complaint: str) -> None:
    answer = lab.muster("exec", *words)
    assert answer.status == 2
    assert answer.stderr.startswith(f"muster: error: {complaint}")
    assert "\n\nhint: " in answer.stderr


class Terminal:
    """A command on a terminal of its own, as a person would have it."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            with contextlib.suppress(BaseException):
                os.execvpe(argv[0], argv, env)  # noqa: S606
            os._exit(71)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def shows(self, text: str, timeout_s: float = 30) -> bool:
        """Wait until `text` appears, after what was waited for before."""
        deadline = time.monotonic() + timeout_s
        while text not in self.seen:
            if not select.select([self.descriptor], [], [], max(0, deadline - time.monotonic()))[0]:
                return False
            try:
                self.seen += os.read(self.descriptor, 4096).decode(errors="replace")
            except OSError:  # the other side is closed
                return text in self.seen
        self.seen = self.seen.partition(text)[2]
        return True

    def status(self) -> int:
        """Wait for the end; reads on, so that the command can write its last words."""
        if self.shows("\0") or not becomes_true(lambda: named(self.pid) is None):
            os.kill(self.pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.descriptor)
        return code


def test_a_terminal_passes_through(either_lab: Lab) -> None:
    terminal = Terminal(
        either_lab.argv(["sh", "-c", "test -t 0 -a -t 1 -a -t 2 && stty size && exit 5"]),
        either_lab.person.environment(),
    )
    assert terminal.status() == 5


def test_ctrl_c_reaches_the_command_once(lab: Lab) -> None:
    terminal = Terminal(lab.argv([sys.executable, "-c", COUNT_SIGNALS]), lab.person.environment())
    assert terminal.shows("ready")
    terminal.type("\x03")
    assert terminal.shows("SIGINT\r\n")
    assert "SIGINT" not in terminal.seen
    assert terminal.status() == 0


def test_ctrl_c_ends_srun(lab: Lab) -> None:
    terminal = Terminal(lab.argv(["srun", "-N2", "sh", "-c", "echo up; sleep 1000"]), lab.person.environment())
    assert terminal.shows("up")
    terminal.type("\x03")
    # Two typed at once may arrive as one signal: srun wants a second one after its question.
    assert terminal.shows("one more within 1 sec to abort")
    terminal.type("\x03")
    assert terminal.status() > 0


def test_srun_can_give_a_task_a_terminal(either_lab: Lab) -> None:
    terminal = Terminal(
        either_lab.argv(["srun", "--pty", "sh", "-c", "test -t 0 && hostname"]), either_lab.person.environment()
    )
    assert terminal.shows("node1")
    assert terminal.status() == 0


def test_a_shell_has_job_control(either_lab: Lab) -> None:
    person = either_lab.person
    environment = person.environment({"SHELL": "/bin/bash", "HOME": str(person.home)})
    terminal = Terminal(person.argv("lab", "shell", "--name", either_lab.name), environment)
    terminal.type("PS1='; '; hostname; sleep 500\n")
    assert terminal.shows("login\r\n")
    time.sleep(0.5)
    terminal.type("\x1a")
    assert terminal.shows("Stopped")
    terminal.type("fg\n")
    assert terminal.shows("sleep 500")
    time.sleep(0.5)
    terminal.type("\x03")
    time.sleep(0.5)
    terminal.type("exit 9\n")
    assert terminal.status() == 9


def test_a_stopped_exec_goes_on_where_it_was(lab: Lab) -> None:
    environment = lab.person.environment({"PS1": "; "})
    terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], environment)
    words = shlex.join(lab.argv(["sh", "-c", "echo begun; read line; echo got $line"]))
    terminal.type(f"{words}\n")
    assert terminal.shows("begun\r\n")
    terminal.type("\x1a")
    assert terminal.shows("Stopped")
    terminal.type("fg\n")
    time.sleep(0.5)
    terminal.type("hello\n")
    assert terminal.shows("got hello\r\n")
    terminal.type("exit 0\n")
    assert terminal.status() == 0
