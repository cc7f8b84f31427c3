"""A system with glibc, a shell, a few programs and this machine's Python with pip: as small as pip can live in."""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
from pathlib import Path

from muster.runner import run

_PROGRAMS = (
    "dash",
    "ls",
    "chown",
    "touch",
    "id",
    "cat",
    "mkdir",
    "rm",
    "sed",
    "getopt",
    "env",
    "true",
    "tr",
    "cut",
    "stat",
    "uname",
)
_LEFT_OUT = (
    *("test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "pydoc_data", "unittest"),
    *("site-packages", "dist-packages", "config-*", "__pycache__", "*.a", "_test*.so"),
)


def glibc_system(folder: Path) -> Path:
    """The same without Python: made as `folder`, a directory that Apptainer takes for an image."""
    for name in (
        "bin",
        "etc",
        "tmp",
        "proc",
        "sys",
        "dev",
        "var/tmp",
        "root",
        "home",
        "opt",
        "usr/bin",
        "usr/local/bin",
    ):
        (folder / name).mkdir(parents=True)
    for name in ("passwd", "group", "hosts", "resolv.conf"):
        (folder / "etc" / name).touch()
    for name in _PROGRAMS:
        found = shutil.which(name)
        assert found is not None
        _take(folder, Path(found), Path("bin") / name)
    (folder / "bin/sh").symlink_to("dash")
    return folder


def python_system(folder: Path) -> Path:
    """With Python and pip."""
    glibc_system(folder)
    base = Path(sys.base_prefix)
    _take(folder, base / "bin" / f"python{sysconfig.get_python_version()}", Path("usr/local/bin/python3"))
    library = Path(sysconfig.get_path("stdlib", vars={"installed_base": str(base), "base": str(base)}))
    target = folder / "usr/local/lib" / library.name
    shutil.copytree(library, target, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    for extension in (target / "lib-dynload").glob("*.so"):
        _take_libraries(folder, extension)
    (target / "site-packages").mkdir()
    # Its own pip, from the wheel that ensurepip has: beside the standard library, or where Debian keeps it.
    wheel = next(
        iter([*target.glob("ensurepip/_bundled/pip-*.whl"), *Path("/usr/share/python-wheels").glob("pip-*.whl")])
    )
    shutil.unpack_archive(wheel, target / "site-packages", "zip")
    return folder


def _take(folder: Path, program: Path, name: Path) -> None:
    shutil.copy2(program.resolve(), folder / name)
    _take_libraries(folder, program)


def _take_libraries(folder: Path, file: Path) -> None:
    """All that the loader would load, each at the path where it looks for it."""
    said = run(["ldd", str(file)]).stdout
    for path in re.findall(r"(?:=> )?(/\S+) \(0x", said):
        target = folder / path.lstrip("/")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(Path(path).resolve(), target)
