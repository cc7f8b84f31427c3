"""One file never ends the look at the others, whatever it holds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.cli.app import main

_HEAD = b"#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --time=10\n"
_GOOD = _HEAD + b"#SBTACH --gres=gpu:4\nsrun --kill-on-bad-exit=1 python train.py\n"


def _make_pipe(path: Path) -> None:
    os.mkfifo(path)


def _forbid(path: Path) -> None:
    path.write_bytes(_GOOD)
    path.chmod(0)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


_NOT_READ: dict[str, bytes | Callable[[Path], None]] = {
    "elf": b"\x7fELF\x02\x01\x01" + b"\0" * 900,
    "zero.sh": _HEAD + b"echo a\0b\n",
    "five-megabytes.sh": _HEAD + b"echo 0123456789\n" * 330_000,
    "pipe": _make_pipe,
    "folder": Path.mkdir,
    "loop": _loop,
    "dangling": lambda path: path.symlink_to("nowhere"),
    "letter.txt": b"Dear all,\n",
    "empty": b"",
    "utf-16.sh": _GOOD.decode().encode("utf-16"),
    "nested-ifs.sh": _HEAD + b"if a; then\n" * 3000 + b"b\n" + b"fi\n" * 3000,
    "nested-substitutions.sh": _HEAD + b"A=" + b"$(echo " * 3000 + b"x" + b")" * 3000 + b"\n",
}
_READ: dict[str, bytes] = {
    "nested-braces.sh": _HEAD + b"{ " * 5000 + b"a; " + b"} " * 5000 + b"\n",
    "nested.py": b"x = " + b"(" * 5000 + b"1" + b")" * 5000 + b"\n",
    "endless-line.sh": _HEAD + b"echo " + b"x" * 200_000 + b"\n",
    "endless-words.sh": _HEAD + b"srun python t.py " + b"$A " * 4_000 + b"\n",
    "open-quote.sh": _HEAD + b"echo 'never closed\n" * 200,
    "latin-1.sh": _HEAD + "echo Müller\n".encode("latin-1"),
    "carriage.sh": _GOOD.replace(b"\n", b"\r\n"),
    "old-mac.sh": _GOOD.replace(b"\n", b"\r"),
    "control.sh": _HEAD + bytes(range(1, 32)) + b"\n",
    "mark.sh": b"\xef\xbb\xbf" + _GOOD,
    "half-a-character.sh": _HEAD + "echo ü".encode()[:-1],
    "directives.sh": b"#!/bin/bash\n" + b"#SBATCH --nodes=1\n" * 2_000,
    "late-directives.sh": _HEAD + b"echo\n" + b"#SBATCH --nodes=1\n" * 2_000,
    "elifs.sh": _HEAD + b"if a; then\n b\n" + b"elif c; then\n d\n" * 300 + b"fi\n",
    "pipes.sh": _HEAD + b"a" + b" | b" * 1_000 + b"\n",
    "ands.sh": _HEAD + b"a" + b" && b" * 1_000 + b"\n",
    "here-documents.sh": _HEAD + b"cat <<A\n$(cat <<B\n$X\nB\n)\nA\n" * 300,
    "unclosed.sh": _HEAD + b"cat <<EOF\n" + b"a\n" * 5_000,
    "old.csh": b"#!/bin/csh\n#SBATCH --cpu-per-task=8\nset x = (1 2)\n",
    "own-output.sh": _GOOD + b"(((( [[ {{ `` $(( $( \n" * 300,
}


@pytest.mark.parametrize("name", [*_NOT_READ, *_READ])
def test_a_hostile_file_does_not_end_the_run(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = _NOT_READ.get(name, _READ.get(name))
    hostile = tmp_path / name
    if isinstance(content, bytes):
        hostile.write_bytes(content)
    elif content is not None:
        content(hostile)
    (tmp_path / ".muster.toml").write_text("[lint]\nshellcheck = false\n")  # the reader here is the subject
    for number in (1, 2):
        (tmp_path / f"good{number}.sh").write_bytes(_GOOD)

    status = main(["lint", "--json", str(tmp_path / "good1.sh"), str(hostile), str(tmp_path / "good2.sh")])

    told = capsys.readouterr()
    found = {Path(each["path"]).name for each in json.loads(told.out)}
    assert {"good1.sh", "good2.sh"} <= found
    assert "a bug in Muster" not in told.err
    assert (status == 2, name in told.err) == (name in _NOT_READ, name in _NOT_READ)


@pytest.mark.skipif(os.geteuid() == 0, reason="by design: root reads every file")
def test_a_file_of_somebody_else_does_not_end_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _forbid(tmp_path / "closed.sh")
    (tmp_path / "good.sh").write_bytes(_GOOD)

    assert main(["lint", "--json", str(tmp_path / "closed.sh"), str(tmp_path / "good.sh")]) == 2
    told = capsys.readouterr()
    assert json.loads(told.out)
    assert "closed.sh cannot be read: Permission denied" in told.err
