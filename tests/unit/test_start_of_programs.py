"""What the kernel does not start is a sentence, whichever way it is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.errors import MachineLacks
from muster.runner import become, run, spawn, start


@pytest.mark.parametrize(
    "begin",
    [run, start, lambda argv: spawn(argv, {}, files={}), lambda argv: become(argv, {})],
)
def test_a_program_of_another_machine_is_named(begin: Callable[[list[str]], Any], tmp_path: Path) -> None:
    program = tmp_path / "squeue"
    program.write_bytes(b"\177ELF garbage\n")
    program.chmod(0o755)
    with pytest.raises(MachineLacks, match=r"squeue cannot be started: ") as error:
        begin([str(program)])
    assert error.value.hint == "it is another machine's program, or it is not whole: install it again"


def test_a_program_starts_elsewhere_from_a_folder_that_may_not_be_listed(tmp_path: Path) -> None:
    """An ordinary user may stand in a folder of somebody else that he may only go through."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o711)
    child = os.fork()
    if child == 0:
        try:
            os.chdir(closed)
            closed.chmod(0o111)
            if os.geteuid() == 0:
                os.setgid(20001)
                os.setuid(20001)
            pid = spawn(["sh", "-c", '[ "$PWD" = / ]'], {"PATH": "/usr/bin:/bin"}, files={}, folder="/")
            os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        finally:
            os._exit(1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_program_is_started_where_few_files_may_be_open() -> None:
    script = "from muster.runner import spawn; import os; print(os.waitpid(spawn(['true'], {}, files={7: 1}), 0)[1])"
    done = run(["sh", "-c", 'ulimit -n 30; exec "$0" -c "$1"', sys.executable, script])
    assert (done.status, done.stdout) == (0, "0\n"), done.stderr
