"""A cluster of programs that answer as a kind of silence says, and a verb that runs over it, judged by its end.

    silences = Silences(folder, pytest.MonkeyPatch())      # once for a module
    complaints = silences.judge(VERB, kind)                # [] is right

A verb of a table is a `Verb`: its words, and the programs without whose answer it knows nothing (`needs`). A status
of 0, or no word of who did not answer, is then wrong. Wrong with every verb are a traceback, a bug in Muster, no end,
and the user's command on this machine. Where the answer is right after all, the verb does as over a healthy cluster.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import muster.runner
import plugins.forked
from muster.errors import MusterError, SchedulerSilent, SiteError
from muster.runner import ProgramResult
from plugins.forked import run_muster
from plugins.patience import patient

from .kinds import HEALTHY, HELPERS, KINDS, Kind

__all__ = ["PYTHON", "Silences", "Verb", "case_of", "kinds_for"]

_HEALTHY = Kind("healthy", tuple(HEALTHY), "@healthy", is_answer=True)
PYTHON = "from Python"
"""Stands first in the words of a function of `muster`, in the place of a verb."""

_HANG_S = 0.05
"""What a program that never ends is waited for, whatever patience Muster has."""

_NO_END_S = 8.0
_RIGHT = "right answer: "


class Verb(NamedTuple):
    """A verb and its words; COMMAND stands for a command that leaves a trace where it runs."""

    words: tuple[str, ...]
    needs: tuple[str, ...]
    """Programs without whose answer the verb knows nothing: its status is not 0."""

    names: tuple[str, ...] = ()
    """Programs without whose answer it knows less, and says so."""

    environment: Mapping[str, str] = {}
    runs_here: bool = False
    """Where there is no Slurm, it runs the command on this machine."""

    statuses: tuple[int, ...] = ()
    """What it may end with beside 0 and 3."""

    healthy_status: int = 0
    """Its status over programs that answer, and start nothing."""

    starts_others: bool = False
    """It starts Muster again, which waits for a silent program as long as Muster does."""


class Ended(NamedTuple):
    """How a verb ended."""

    result: ProgramResult | None
    """None: it did not end."""

    asked: tuple[str, ...]
    """The programs that it asked, each with its words."""

    has_started: bool
    """Whether the user's command ran on this machine."""


def kinds_for(verb: Verb) -> list[Kind]:
    """Return the kinds that the verb may meet: those of a program that it needs or names, and all right answers."""
    return [
        kind
        for kind in KINDS
        if (set(kind.programs) & {*verb.needs, *verb.names})
        and not (verb.starts_others and (kind.hangs or kind.is_no_slurm))
    ]


def case_of(name: str, kind: Kind, *, is_in_test: bool, full: Sequence[str], half: int) -> Any:
    """Return a verb and a kind as a case.

    `make test-fast` meets every second kind (`half`: 0 or 1) with one of the verbs that meet them all.
    """
    is_fast = name in full and KINDS.index(kind) % (2 * len(full)) == 2 * full.index(name) + half
    marks = (() if is_fast else (pytest.mark.wide,)) if is_in_test else (pytest.mark.long,)
    return pytest.param(name, kind, id=f"{name}-{kind.name}", marks=marks)


class Silences:
    """The folders of programs, and the ends of the verbs over them."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._patch = patch
        self._bodies = folder / "bodies"
        self._tools = folder / "tools"
        self._healthy_ends: dict[Verb, Ended] = {}
        for made in (self._bodies, self._tools):
            made.mkdir()
        for name, body in HEALTHY.items():
            (self._bodies / name).write_text(body)
        for name in HELPERS:
            path = shutil.which(name)
            if path is not None:
                (self._tools / name).symlink_to(path)

    def judge(self, verb: Verb, kind: Kind) -> list[str]:
        """Return what is wrong with the verb's end over this kind."""
        end = self.end(verb, kind)
        if end.result is None:
            return ["it does not end"]
        complaints = list(_wrong(verb, kind, end, end.result, lambda: self._healthy_end(_key(verb))))
        return [*complaints, f"status {end.result.status}", end.result.stderr] if complaints else []

    def end(self, verb: Verb, kind: Kind) -> Ended:
        """Run the verb over the kind."""
        home = Path(self._folder, f"run-{time.monotonic_ns()}")
        home.mkdir()
        asked, started = home / "asked", home / "started"
        asked.touch()
        path = self._programs(home, kind, asked)
        munge = home / "munge"
        if kind.is_munge_down:
            munge.mkdir()
        work = home / "work"
        work.mkdir()
        words = [
            word
            for each in verb.words
            for word in (["sh", "-c", f"echo started >>{started}"] if each == "COMMAND" else [each])
        ]
        with self._patch.context() as patch:
            patch.setattr(muster.runner, "_MUNGE", str(munge / "socket"))
            patch.setattr(muster.runner, "start", _impatient(kind, muster.runner.start))
            patch.setattr(time, "sleep", _fast(time.sleep))
            if words[0] == PYTHON:
                patch.setattr(plugins.forked, "main", _submit_from_python)
            try:
                result = run_muster(words, env=_environment(path, home, verb), cwd=work, timeout_s=patient(_NO_END_S))
            except SchedulerSilent:
                result = None
        return Ended(result, tuple(asked.read_text(errors="replace").splitlines()), started.exists())

    def _healthy_end(self, verb: Verb) -> Ended:
        if verb not in self._healthy_ends:
            self._healthy_ends[verb] = self.end(verb, _HEALTHY)
        return self._healthy_ends[verb]

    def _programs(self, home: Path, kind: Kind, asked: Path) -> str:
        folder = home / "programs"
        folder.mkdir()
        for name in HEALTHY:
            answer = kind.answer if name in kind.programs else "@healthy"
            if not answer:
                continue
            log = f"printf '%s\\n' \"{name} $*\" >>{asked}\n"
            right = f"echo '{_RIGHT}{name}' >>{asked}; . {self._bodies / name}"
            text = answer.replace("@healthy", right).replace("@part", f". {self._bodies / name}")
            program = folder / name
            spoiled = name in kind.programs
            program.write_text(f"{kind.first_line if spoiled else '#!/bin/sh'}\n{log}{text}")
            program.chmod(kind.mode if spoiled else 0o755)
        return f"{folder}:{self._tools}"


def _submit_from_python(words: Sequence[str]) -> int:
    """Submit from Python as the words behind the first say; return the status of the command line for its error."""
    import muster

    try:
        print(getattr(muster, words[1])(list(words[2:]), nodes=1))
    except MusterError as error:
        print(f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return 3 if isinstance(error, SiteError) else 2
    return 0


def _key(verb: Verb) -> Verb:
    return verb._replace(environment=_Frozen(verb.environment))


class _Frozen(dict):  # type: ignore[type-arg]
    """Variables that may be the key of a table."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted(self.items())))


def _environment(path: str, home: Path, verb: Verb) -> dict[str, str]:
    return {
        "PATH": path,
        "HOME": str(home),
        "USER": os.environ.get("USER", "root"),
        "LC_ALL": "C.UTF-8",
        "SHELL": "/bin/sh",
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "PYTHONPATH": os.pathsep.join([str(Path(muster.runner.__file__).parent.parent)]),
        **verb.environment,
    }


def _impatient(kind: Kind, start: Callable[..., Any]) -> Callable[..., Any]:
    """Return `runner.start` whose processes are not waited for where the kind's programs hang."""

    def start_one(argv: Any, **words: Any) -> Any:
        process = start(argv, **words)
        if kind.hangs and Path(argv[0]).name in kind.programs:
            communicate = process.communicate
            process.communicate = lambda text=None, timeout=None: communicate(text, timeout and min(timeout, _HANG_S))
        return process

    return start_one


def _fast(sleep: Callable[[float], None]) -> Callable[[float], None]:
    return lambda seconds: sleep(min(seconds, 0.01))


def _wrong(verb: Verb, kind: Kind, end: Ended, result: ProgramResult, healthy: Callable[[], Ended]) -> Iterator[str]:
    """Yield what is wrong with an end."""
    text = result.stdout + result.stderr
    if "Traceback (most recent call last)" in text or "a bug in Muster" in text:
        yield "a traceback, or a bug in Muster"
    if kind.is_no_slurm:
        yield from _wrong_without_slurm(verb, end, result)
        return
    if end.has_started:
        yield "the command was started on this machine"
    if kind.is_answer:
        right = healthy().result
        if right is None or (result.status, result.stdout) != (right.status, right.stdout):
            yield "a right answer, but another status and other words than over a healthy cluster"
        return
    yield from _wrong_words(verb, kind, _spoiled(kind, end.asked), result)


def _wrong_without_slurm(verb: Verb, end: Ended, result: ProgramResult) -> Iterator[str]:
    if verb.runs_here:
        if result.status != 0 or not end.has_started:
            yield "there is no Slurm, and the command did not run on this machine"
    elif result.status not in {2, 3} or "hint: " not in result.stderr or end.has_started:
        yield "there is no Slurm, and that is no error"


def _wrong_words(verb: Verb, kind: Kind, spoiled: set[str], result: ProgramResult) -> Iterator[str]:
    if spoiled & set(verb.needs) and result.status == 0:
        yield "status 0, but the answer that it needs was never given"
    allowed = {0, 3, *verb.statuses, verb.healthy_status, *(() if _can_be_asked(kind) else (2,))}
    if result.status not in allowed:
        yield "a status other than 0 and 3"
    if spoiled & {*verb.needs, *verb.names}:
        names = "|".join([*map(re.escape, sorted(spoiled)), *([kind.sentence] if kind.sentence else [])])
        if not re.search(names, result.stderr):
            yield f"no sentence on stderr names who did not answer ({names})"
        if result.status != 0 and "hint: " not in result.stderr:
            yield "no hint"


def _spoiled(kind: Kind, asked: Sequence[str]) -> set[str]:
    """Return the programs that were asked and did not answer right, or could not note it."""
    questions = Counter(line.partition(" ")[0] for line in asked)
    answers = Counter(line.removeprefix(_RIGHT) for line in asked if line.startswith(_RIGHT))
    return {name for name in kind.programs if questions[name] > answers[name] or not _can_be_asked(kind)}


def _can_be_asked(kind: Kind) -> bool:
    """Return whether the kind's programs can note that they were asked."""
    return bool(kind.answer) and kind.mode & 0o100 != 0 and kind.first_line == "#!/bin/sh"
