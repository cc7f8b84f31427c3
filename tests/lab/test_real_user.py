"""What a person does with a lab, typed by an ordinary user whom useradd made, in a folder of theirs."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest

from muster.runner import checked
from plugins.real_user import RealUser, real_user

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def user() -> Iterator[RealUser]:
    with real_user() as made:
        yield made


@pytest.fixture(scope="module")
def lab(user: RealUser) -> Iterator[str]:
    """The name of a lab of the user's."""
    name = f"real{os.getpid()}"
    checked(user.run(user.muster("lab", "up", "--name", name, "-N", "2")))
    try:
        yield name
    finally:
        assert user.run(user.muster("lab", "down", "--name", name)).status == 0


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder of root's that nobody else may enter, with a program and a script in it."""
    folder = Path(mkdtemp(dir="/var/tmp"))
    (folder / "train.py").write_text("print('never')\n")
    (folder / "tool").write_text("#!/bin/sh\n")
    (folder / "tool").chmod(0o755)
    yield folder
    for path in (folder / "train.py", folder / "tool"):
        path.unlink()
    folder.rmdir()


def test_exec_runs_a_step_on_every_host(user: RealUser, lab: str) -> None:
    done = user.run(user.muster("lab", "exec", "--name", lab, "--", "srun", "-N2", "hostname"))

    assert sorted(done.stdout.split()) == ["node1", "node2"], done.stderr


@pytest.mark.parametrize(("place", "name", "is_told"), [((), "root", True), (("--user", "alice"), "alice", False)])
def test_a_shell_tells_that_its_root_is_the_caller(
    user: RealUser, lab: str, place: tuple[str, ...], name: str, is_told: bool
) -> None:
    words = user.muster("lab", "shell", "--name", lab, *place)

    done = user.run(["sh", "-c", 'echo id -un | SHELL=/bin/sh "$@"', "sh", *words], cwd=Path("/"))

    assert done.stdout == f"{name}\n", done.stderr
    assert ("you are root in the lab, and nobody but yourself on this machine" in done.stderr) == is_told


def test_a_launch_and_a_queued_job_run_in_the_lab(user: RealUser, lab: str) -> None:
    here = user.muster("lab", "exec", "--name", lab, "--", user.python, "-m", "muster")
    (user.home / "hello.py").write_text("import os\nprint('rank', os.environ['RANK'])\n")

    ran = user.run([*here, "run", "-N", "2", "-t", "5", "--", user.python, "hello.py"])
    queued = user.run([*here, "submit", "-N", "2", "-t", "5", "--", user.python, "hello.py"])

    assert sorted(ran.stdout.splitlines()) == ["0: rank 0", "1: rank 1"], ran.stderr
    assert queued.status == 0, queued.stderr
    job = (queued.stdout + queued.stderr).partition("job ")[2].partition(":")[0]
    assert sorted(user.run([*here, "logs", "-f", job]).stdout.splitlines()) == ["0: rank 0", "1: rank 1"]


RAISES = """\
import sys
print('out', flush=True)
print('err', file=sys.stderr, flush=True)
raise ValueError('a typo of mine')
"""


@pytest.mark.parametrize("into", ["a file", "pipes", pytest.param("one pipe", marks=pytest.mark.long), "a terminal"])
def test_a_rehearsal_says_no_and_all_that_the_ranks_wrote_arrives(user: RealUser, into: str) -> None:
    (user.home / "typo.py").write_text(f"def on_gpu(x):\n    return x.cuda()\n{RAISES}")
    words = user.muster("run", "--rehearse", "--site", "generic", "-N", "2", "-t", "30", "--", user.python, "typo.py")

    if into == "a file":  # one description of it for both streams, as `> f 2>&1` makes
        done = user.run(["sh", "-c", '"$@" >out.txt 2>&1', "sh", *words])
        said = (user.home / "out.txt").read_text()
    elif into == "one pipe":
        done = user.run(["sh", "-c", '{ "$@" 2>&1; echo "status $?"; } | cat', "sh", *words])
        said = done.stdout
    elif into == "a terminal":  # of the user's own, as in a shell
        done = user.run(["script", "-qec", shlex.join(words), "/dev/null"])
        said = done.stdout.replace("\r\n", "\n")
    else:
        done = user.run(words)
        said = done.stdout + done.stderr

    assert done.status == 1 or "status 1\n" in said, said
    lines = ("out", "err", "Traceback (most recent call last):", "ValueError: a typo of mine")
    # The launcher may end one rank before it has come so far.
    assert any(all(f"{rank}: {line}\n" in said for line in lines) for rank in (0, 1)), said
    own = said.partition("shown on a lab")[2]
    assert "WRONG typo is broken: it ended with status 1 on rank" in own
    assert "        | ValueError: a typo of mine\n" in own
    assert "insists" not in own
    assert "bug in Muster" not in said


def test_ranks_that_wait_for_each_other_end_the_rehearsal(user: RealUser) -> None:
    (user.home / "waits.py").write_text(
        "import os, socket, sys\nif os.environ['RANK'] == '1':\n    sys.exit(0)\n"
        "with socket.create_server(('127.0.0.1', 0)) as server:\n    server.accept()\n"
    )
    words = ("--site", "generic", "-N", "2", "-t", "30", "--hang", "10s", "--", user.python, "waits.py")

    done = user.run(user.muster("run", "--rehearse", *words))

    assert done.status != 0
    assert "WRONG waits is broken: it hangs: no rank has gone on for 10 s: rank 0" in done.stderr
    assert "would have written" not in done.stderr


def test_a_launcher_that_lacks_its_module_is_said_to_lack_it(user: RealUser) -> None:
    words = ("--site", "generic", "--launcher", "torchrun", "-N", "1", "-t", "5", "--", "true")

    done = user.run(user.muster("run", "--rehearse", *words))

    assert done.status == 1
    assert "WRONG torchrun started no rank: the Python that runs it has no module 'torch' (install " in done.stderr


def test_ranks_that_know_of_nobody_are_said_to_and_are_not_wrong(user: RealUser) -> None:
    (user.home / "alone.py").write_text("print(sum(range(9)))\n")
    (user.home / "joins.py").write_text("import os\nprint(os.environ['RANK'])\n")
    note = "  - ranks that work together: nothing in alone.py could know of another rank\n"

    def rehearsed(script: str, nodes: str) -> str:
        words = ("--site", "generic", "-N", nodes, "-t", "5", "--", user.python, script)
        done = user.run(user.muster("run", "--rehearse", *words))
        assert done.status == 0, done.stderr
        return done.stderr

    assert note in rehearsed("alone.py", "2")
    assert "ranks that work together" not in rehearsed("alone.py", "1") + rehearsed("joins.py", "2")


def test_a_closed_folder_is_a_sentence(user: RealUser, lab: str, closed: Path) -> None:
    rehearse = ("run", "--rehearse", "--site", "generic", "-N", "1", "-t", "5")
    chdir = user.run(user.muster(*rehearse, "--chdir", str(closed), "--", "true"))
    script = user.run(user.muster(*rehearse, "--", user.python, f"{closed}/train.py"))
    program = user.run(user.muster("lab", "exec", "--name", lab, "--", f"{closed}/tool"))
    start = user.run(user.muster("lab", "exec", "--name", lab, "--", "pwd"), cwd=closed)

    assert (chdir.status, script.status, program.status, start.status) == (2, 1, 2, 0)
    assert f"error: the working directory {closed} is closed to you\n\nhint: " in chdir.stderr
    assert f"WRONG {closed}/train.py cannot be read on " in script.stderr
    assert f"error: {closed} is closed to you, but {closed}/tool lies in it\n\nhint: " in program.stderr
    assert f"muster: {closed} is closed to the lab's user; the command starts in /\n" in start.stderr
    assert start.stdout == "/\n"


def test_a_program_that_is_not_there_is_not_called_closed(user: RealUser, lab: str) -> None:
    done = user.run(user.muster("lab", "exec", "--name", lab, "--", "/usr/bin/no-such-tool"))

    assert done.status == 2
    assert "error: there is no program /usr/bin/no-such-tool in the lab\n\nhint: " in done.stderr
