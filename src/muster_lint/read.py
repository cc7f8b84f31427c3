"""A file → the text to be looked at, and what kind of text it is; what cannot be read is a sentence."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from muster.errors import RequestError
from muster.older import StrEnum

_LARGEST_BYTES = 2_000_000
_SHELLS = re.compile(r"^#!\s*(/usr/bin/env\s+(-S\s*)?)?\S*\b(ba|da|k|z)?sh\b")
_OTHER_SUFFIXES = (".md", ".rst", ".toml", ".json", ".yaml", ".yml", ".ipynb", ".cfg", ".ini")
_PYTHON_LINE = re.compile(r"(import|from) [A-Za-z_][\w.]*( import .*| as \w+)?$|\"\"\"|def \w+\(.*\).*:$|class \w+.*:$")
_DIRECTIVE = re.compile(r"^#SBATCH\b", re.MULTILINE)


class FileKind(StrEnum):
    """What a file holds."""

    BATCH = "batch"
    """A script that bash or a shell like it reads."""

    PYTHON = "python"
    OTHER = "other"
    """A batch script in another language: its header alone is read."""


class SourceFile(msgspec.Struct, frozen=True):
    """One file as text."""

    path: str
    text: str
    kind: FileKind


def read_source(path: str) -> SourceFile:
    """Return the text of a file; `-` is the standard input."""
    data = _bytes_of(path)
    if len(data) > _LARGEST_BYTES:
        raise RequestError(
            f"{path} has more than {_LARGEST_BYTES // 1_000_000} MB: this is not a script that a person wrote",
            hint="give the batch script itself",
        )
    if b"\0" in data:
        raise RequestError(f"{path} is not text: it holds zero bytes", hint="give a batch script or a Python script")
    text = data.decode("utf-8", errors="replace")
    return SourceFile(path, text, _kind_of(path, text.removeprefix("\ufeff")))


def scripts_below(path: str) -> Iterator[str]:
    """Yield the path itself, or the batch scripts in the folder that it is, those of hidden folders left out."""
    if not Path(path).is_dir():
        yield path
        return
    is_empty = True
    for folder, names, files in os.walk(path):
        names[:] = sorted(name for name in names if not name.startswith(".") and name != "node_modules")
        for name in sorted(files):
            if name.endswith(_SUFFIXES) and _is_batch(Path(folder, name)):
                is_empty = False
                yield str(Path(folder, name))
    if is_empty:
        yield path  # which is told beside the files that can be read


_SUFFIXES = (".sbatch", ".slurm", ".job", ".sub", ".sh", ".bash", ".batch")


def _is_batch(file: Path) -> bool:
    """Tell whether a file is for sbatch, by its first lines or a step in it."""
    try:
        data = file.read_bytes() if file.stat().st_size <= _LARGEST_BYTES else b""
    except OSError:
        return False
    return re.search(rb"^#SBATCH\b|^\s*srun\b", data, re.MULTILINE) is not None


def _bytes_of(path: str) -> bytes:
    if path == "-":
        import sys

        return sys.stdin.buffer.read(_LARGEST_BYTES + 1)
    file = Path(path)
    try:
        mode = file.stat().st_mode
        if stat.S_ISDIR(mode):
            raise RequestError(f"there is no batch script in {path}", hint=f"their names end in {', '.join(_SUFFIXES)}")
        if not stat.S_ISREG(mode) and not path.startswith(("/dev/fd/", "/dev/stdin")):
            # A look at a pipe or a device without end would not come back; bash's <(…) is /dev/fd/N.
            raise RequestError(f"{path} is a pipe or a device, not a file", hint="give it as the standard input: -")
        with file.open("rb") as stream:
            return stream.read(_LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise RequestError(f"there is no file {path}", hint="give the path of a batch script") from None
    except ValueError:
        raise RequestError(f"{path!r} cannot be the name of a file", hint="give the path of a batch script") from None
    except OSError as error:
        raise RequestError(f"{path} cannot be read: {error.strerror}", hint="ask its owner to open it") from None


def source_of(path: str, text: str) -> SourceFile:
    """Return a text that is held elsewhere, as the file of this path."""
    return SourceFile(path, text, _kind_of(path, text.removeprefix("\ufeff")))


def _is_python(text: str) -> bool:
    """Tell whether a text without #! begins as Python does."""
    if text.startswith("#!"):
        return False
    lines = (line.rstrip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return _PYTHON_LINE.match(first) is not None


def _kind_of(path: str, text: str) -> FileKind:
    first = text.partition("\n")[0]
    if re.match(r"^#!.*\bpython", first) or path.endswith(".py") or _is_python(text):
        return FileKind.PYTHON
    if first.startswith("#!") and not _SHELLS.match(first):
        if _DIRECTIVE.search(text):
            return FileKind.OTHER
        program = (first.rpartition("/")[2].split() or ["strange"])[0]
        raise RequestError(
            f"{path} is a {program} script, and has no #SBATCH lines", hint="give a batch script of bash"
        )
    if _SHELLS.match(first) or re.search(
        r"^\s*#\s*SBATCH\b|\bsrun\b|\bsbatch\b|\btorchrun\b|\bmpirun\b", text, re.MULTILINE
    ):
        if path.endswith(_OTHER_SUFFIXES):
            raise RequestError(f"{path} is a document, not a batch script", hint="save the script in a file of its own")
        return FileKind.BATCH
    raise RequestError(
        f"{path} is neither a batch script nor a Python script",
        hint="a batch script begins with #!/bin/bash and has #SBATCH lines or srun",
    )
