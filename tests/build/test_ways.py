"""How a program of others is asked, and what its answer means: proot's words, modules, the proof of an image."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from muster.errors import CommandFailed
from muster.runner import ProgramResult, run
from muster_build.engine import Builder
from muster_build.proot import proot_words
from muster_build.venv import VenvOrder, _first_of, _with_modules


def _program(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("there", [True, False])
def test_proot_becomes_root_of_the_folder_and_gets_the_proxies_alone(tmp_path: Path, there: bool) -> None:
    if there:
        _program(tmp_path / "bin/proot")
    environment = {"PATH": f"{tmp_path}/bin", "https_proxy": "p", "SECRET": "s", "HOME": "/home/ada"}
    words, passed = proot_words(environment, tmp_path / "box", ["/bin/bash", "-e"], tmp_path / "work/post")

    assert words[:4] == [f"{tmp_path}/bin/proot" if there else "proot", "-0", "-r", f"{tmp_path}/box"]
    assert f"{tmp_path}/work/post:/.muster-post" in words
    assert words[-4:] == ["sh", "/bin/bash", "-e", "/.muster-post"]
    assert passed.keys() == {"https_proxy", "HOME", "LANG", "PATH", "PROOT_TMP_DIR"}
    assert (passed["HOME"], passed["PROOT_TMP_DIR"]) == ("/root", f"{tmp_path}/work")


_MODULES = """\
module() {
    case $1 in
    purge) export LOADED= ;;
    use) export USED="$USED:$2" ;;
    load) case $2 in none*) echo "no $2" >&2; return 1 ;; esac; export LOADED="$LOADED:$2" ;;
    esac
}
"""


def _order(tmp_path: Path, *modules: str, use: tuple[str, ...] = ()) -> VenvOrder:
    return VenvOrder(directory=tmp_path / "venv", modules=modules, module_use=use)


@pytest.mark.parametrize(
    ("modules", "use", "loaded", "used"),
    [
        (("a", "b"), (), ":a:b", None),
        (("none|a",), (), ":a", None),
        (("a b",), ("/m n",), ":a b", ":/m n"),
        ((), ("/m",), "", ":/m"),
        ((), (), None, None),
    ],
)
def test_the_modules_of_an_environment_are_loaded_by_a_login_shell(
    tmp_path: Path, modules: tuple[str, ...], use: tuple[str, ...], loaded: str | None, used: str | None
) -> None:
    (tmp_path / ".bash_profile").write_text(_MODULES)
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": "x", "VIRTUAL_ENV": "y"}
    after = _with_modules(_order(tmp_path, *modules, use=use), environment, run)

    assert (after.get("LOADED"), after.get("USED")) == (loaded, used)
    assert not {"PYTHONPATH", "VIRTUAL_ENV"} & after.keys()
    assert after["HOME"] == str(tmp_path)


@pytest.mark.parametrize(
    ("status", "out", "errors", "says"),
    [(1, "", "first\nno module b\n", "no module b"), (0, "", "", "it said nothing"), (1, "A=1\0", "x", "x")],
)
def test_modules_that_cannot_be_loaded_are_an_error(
    tmp_path: Path, status: int, out: str, errors: str, says: str
) -> None:
    def answer(argv: Sequence[str], **_: Any) -> ProgramResult:
        return ProgramResult(tuple(argv), status, out, errors)

    with pytest.raises(CommandFailed, match=f"the modules cannot be loaded: {says}"):
        _with_modules(_order(tmp_path, "b"), {}, answer)


def test_the_first_module_that_can_be_loaded_is() -> None:
    assert _first_of("a|b c") == "module load a || module load 'b c'"


@pytest.mark.parametrize(
    ("answers", "asked", "says"),
    [
        ([(0, ""), (0, "")], ["inspect", "exec"], None),
        ([(1, "first\nbad image")], ["inspect"], "it cannot be used: bad image"),
        ([(1, "")], ["inspect"], "it cannot be used: it said nothing"),
        ([(0, ""), (1, 'exec: "true": executable file not found in $PATH')], ["inspect", "exec"], None),
        ([(0, ""), (1, "open /dev/fuse: denied"), (0, "")], ["inspect", "exec", "exec --unsquash"], None),
        ([(0, ""), (1, "open /dev/fuse: denied"), (1, "no")], ["inspect", "exec", "exec --unsquash"], "used: no"),
        ([(1, "open /dev/fuse: denied")], ["inspect"], "used: open /dev/fuse: denied"),
        ([(0, ""), (255, "no room")], ["inspect", "exec"], "used: no room"),
    ],
)
def test_an_image_is_proved_by_a_program_that_starts_in_it(
    tmp_path: Path, answers: list[tuple[int, str]], asked: list[str], says: str | None
) -> None:
    words: list[str] = []
    left = iter(answers)

    def answer(argv: Sequence[str], *, env: Mapping[str, str] | None = None, **_: Any) -> ProgramResult:
        assert env == {"A": "1"}
        words.append(" ".join(word for word in argv[1:3] if word in {"inspect", "exec", "--unsquash"}))
        status, errors = next(left)
        return ProgramResult(tuple(argv), status, "", errors)

    builder = Builder("/opt/apptainer", tmp_path, {"A": "1"})
    if says is None:
        builder.prove(tmp_path / "x.sif", answer)
    else:
        with pytest.raises(CommandFailed, match=says):
            builder.prove(tmp_path / "x.sif", answer)

    assert words == asked


def test_an_engine_says_its_version() -> None:
    asked: list[str] = []

    def answer(argv: Sequence[str], **_: Any) -> ProgramResult:
        asked.append(argv[1])
        return ProgramResult(tuple(argv), 0, "1.4\n", "")

    builder = Builder("/opt/apptainer", Path("/c"), {})
    assert builder.version(answer) == "1.4"
    assert replace(builder, program="/opt/enroot").version(answer) == "1.4"
    assert asked == ["--version", "version"]
