"""What the kernel does not start is a sentence, whichever way it is started."""

from __future__ import annotations

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
