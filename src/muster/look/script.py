"""The user's script, read and not run: does it join the other ranks, start ranks of its own, or is it a job script?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import path as paths

from muster.facts import ScriptFacts
from muster.look.linked import libraries_of
from muster.look.programs import on_path
from muster.ownership import AnyPath
from muster.words.chain import script_of_python, split_wrappers

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_MOST_BYTES = 200_000
# Of Open MPI, MPICH, Intel's, and Cray: libmpi.so.40, libmpich.so.12, libmpi_mpifh.so.40, libmpi_gnu_112.so.12.
_MPI_LIBRARY = r"libmpi(?:ch|cxx|fort|_\w+)?\.so"


def look_at_script(
    command: Sequence[str], directory: str, environment: Mapping[str, str] | None = None
) -> ScriptFacts | None:
    """Return what the command's script, or its compiled program, shows; None: nothing that could be read.

    A program without a folder is looked for on the PATH of `environment`.
    """
    _, words = split_wrappers(command)
    if not words:
        return None
    name = paths.basename(words[0])
    word = next((word for word in words[1:] if not word.startswith("-")), "") if name in _SHELLS else words[0]
    if not name.startswith("python") and not name.endswith(".py"):
        text = _text_of(paths.join(directory, word)) if "/" in word or name in _SHELLS or "." in word else None
        return _of_program(words[0], directory, environment or {}) if text is None else _of_shell(word, text)
    script = script_of_python(words)
    if not script:
        return None
    from muster.look.python_script import look_at_python

    try:
        return look_at_python(paths.join(directory, script), script, words)
    except RecursionError:  # a sum of 2,000 terms: as of a script that cannot be read, nothing is known
        return None


def _text_of(file: AnyPath) -> str | None:
    try:
        if not paths.isfile(file) or paths.getsize(file) > _MOST_BYTES:
            return None
        with open(file, encoding="utf-8") as stream:
            return stream.read()
    except (OSError, UnicodeDecodeError):
        return None


def _of_program(word: str, directory: str, environment: Mapping[str, str]) -> ScriptFacts | None:
    """Return what a compiled program shows: that it is linked with an MPI."""
    path = word if "/" in word else on_path(word, environment)
    libraries = libraries_of(paths.join(directory, path)) if path else ()
    has_mpi = any(name.startswith("libmpi") and re.match(_MPI_LIBRARY, name) for name in libraries)
    return ScriptFacts(word, linked_mpi=True) if has_mpi else None


def _of_shell(word: str, text: str) -> ScriptFacts | None:
    first = text.partition("\n")[0]
    if first.startswith("#!") and not any(first.rstrip().endswith(shell) for shell in _SHELLS):
        return None
    batch = any(line.startswith("#SBATCH") for line in text.splitlines())
    return ScriptFacts(word, shell=text, batch=batch)
