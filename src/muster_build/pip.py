"""pip as a program: its complaints in one sentence each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from muster.errors import CommandFailed, RequestError
from muster.runner import ProgramResult, Runner, run

_HOUR_S = 3600.0
_NO_WAY_OUT = "proxies are read from your environment; where there is no way out: --offline --wheelhouse DIR"


def pip(python: Path, words: Sequence[str], environment: Mapping[str, str], runner: Runner = run) -> ProgramResult:
    """Run pip of `python`; what it lacks is named."""
    argv = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", *words]
    result = runner(argv, env=environment, timeout_s=_HOUR_S)
    if result.ok:
        return result
    missing = re.search(r"No matching distribution found for (\S+)", result.stderr)
    if missing and "after connection broken by" in result.stderr:
        message = f"pip {words[0]}: the package index was not reached: whether it has {missing[1]} is not known"
        raise CommandFailed(["pip"], result.status, "", message, hint=_NO_WAY_OUT)
    if missing:
        offline = "--no-index" in words
        complaint = "the wheelhouse lacks" if offline else "no package index has, for this Python and machine,"
        hint = "look at name and version"
        if any(word.startswith("--platform") for word in words):
            hint = "look at name and version; a wheel may want a newer --glibc, or another --python-version"
        if offline:
            hint = "muster build lock --wheelhouse on a connected machine brings it"
        raise RequestError(f"{complaint} {missing[1]}", hint=hint)
    errors = [line.removeprefix("ERROR: ") for line in result.stderr.splitlines() if line.startswith("ERROR: ")]
    error_lines = errors or result.stderr.strip().splitlines() or ["it said nothing"]
    clashing = re.search(r"Cannot install (.+?) because these package versions have conflicting", result.stderr)
    if clashing:
        hint = "name versions that go together, or leave one of them to pip"
        raise RequestError(f"these do not go together: {clashing[1]}", hint=hint)
    if error_lines[0].startswith("Invalid requirement: "):
        raise RequestError(f"pip {words[0]}: {error_lines[0]}", hint="correct that line")
    raise CommandFailed(["pip"], result.status, "", f"pip {words[0]}: {error_lines[0]}", hint=_NO_WAY_OUT)


def offline_words(wheelhouse: Path | None, *, offline: bool) -> tuple[str, ...]:
    """Return where pip looks: a wheelhouse first, and with `offline` nowhere else."""
    if offline and wheelhouse is None:
        raise RequestError("--offline needs a place to take packages from", hint="--wheelhouse DIR")
    if wheelhouse is not None and not wheelhouse.is_dir():
        raise RequestError(f"the wheelhouse {wheelhouse} is not there", hint="muster build lock --wheelhouse makes it")
    find_links = () if wheelhouse is None else ("--find-links", str(wheelhouse.absolute()))
    return (*(("--no-index",) if offline else ()), *find_links)
