"""`muster build shell` opens a sandbox on a real terminal: what is done there stays, whoever does it."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from build.places import Ordinary, Place
from build.small_registry import SmallRegistry
from muster.runner import end_group, start
from plugins.labs import MUSTER

_PATIENCE_S = 60


def on_a_terminal(argv: Sequence[str], env: Mapping[str, str], cwd: Path, typed: Sequence[tuple[str, bytes]]) -> int:
    """Run `argv` on a terminal, typing each line when what stands beside it has been said; its exit status."""
    ours, theirs = pty.openpty()
    process = start(argv, env=env, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, own_group=True)
    os.close(theirs)
    said = b""
    try:
        for line, awaited in typed:
            deadline = time.monotonic() + _PATIENCE_S
            while awaited not in said:
                if select.select([ours], [], [], 0.2)[0]:
                    said += os.read(ours, 65536)
                assert time.monotonic() < deadline, said.decode(errors="replace")
            said = b""
            os.write(ours, f"{line}\n".encode())
        return process.wait(_PATIENCE_S)
    finally:
        end_group(process)
        os.close(ours)


# What is typed is said again by the terminal; what is awaited is only said by the shell.
TYPED = [
    ("echo id-$(id -u)", b"Apptainer>"),
    ("echo changed >/opt/made; echo do''ne", b"id-0"),
    ("exit 7", b"done"),
]


def test_root_changes_a_sandbox(place: Place, open_registry: SmallRegistry) -> None:
    assert place.muster("image", "--from", open_registry.image, "--sandbox", "-o", "box").ok
    argv = [sys.executable, "-m", "muster", "build", "shell", "box"]
    assert on_a_terminal(argv, place.environment(), place.folder, TYPED) == 7
    assert place.inside("box", "cat", "/opt/made").stdout == "changed\n"


def test_an_ordinary_user_changes_a_sandbox(user: Ordinary) -> None:
    assert user.muster("image", "--from", user.registry.image, "--sandbox", "-o", "box", ids=True).ok
    path = f"{user.program.parent}:{os.environ['PATH']}"
    argv = [*user.person.prefix(), "/usr/bin/env", f"PATH={path}", MUSTER, "build", "shell", "box"]
    assert on_a_terminal(argv, user.person.environment(), user.folder, TYPED) == 7
    assert (user.folder / "box/opt/made").read_text() == "changed\n"


@pytest.mark.parametrize(
    ("name", "sentence"), [("nothing", "there is no sandbox nothing"), ("file", "is not a sandbox")]
)
def test_what_is_no_sandbox_is_named(place: Place, name: str, sentence: str) -> None:
    (place.folder / "file").touch()
    refused = place.muster("shell", name)
    assert (refused.status, sentence in refused.stderr) == (2, True), refused.stderr
