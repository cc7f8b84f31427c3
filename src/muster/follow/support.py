"""The files of a job that its owner sends to a site's support: bounded, without secrets, for nobody else to read.

Never in it: RUN/passed, RUN/changes.diff, RUN/snapshot, checkpoints, whole logs, links, and what is not a plain file.
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
import tarfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from muster.act.record import Run
from muster.errors import RequestError
from muster.follow.attempt_list import folder_of, read_attempts, read_ends
from muster.follow.find_output import find_output
from muster.follow.redact import Redactor
from muster.follow.watch import LogFile, lines_at_end
from muster.slurm.jobs import SlurmJob

LINES, LINE_LENGTH, LOGS = 200, 2_000, 40
"""Of each log the last lines, of each line the beginning; so many logs of each attempt, the batch script's too."""

ATTEMPTS = 20
_FILE_BYTES = 1 << 20
_RAW_LENGTH = 1 << 14


class ReportFile(msgspec.Struct, frozen=True):
    """One file of the report."""

    name: str
    text: str
    what: str
    """In words, for the list."""

    omitted: int = 0
    """How many secrets were replaced in it."""


def redactor_for(run: Run | None, environment: Mapping[str, str]) -> Redactor:
    """Return what replaces the secrets of a job: those that its record hides, and those of this shell."""
    names = set(_hidden_names(run)) if run is not None else set()
    passed_variables = dict(_passed(run)) if run is not None else {}
    names |= set(passed_variables)
    tool = Redactor(names)
    values = {value for name, value in environment.items() if tool.is_hidden(name)}
    return Redactor(names, values | set(passed_variables.values()))


def _hidden_names(run: Run) -> Iterator[str]:
    variables = plan_of(run).get("variables")
    for variable in variables if isinstance(variables, list) else ():
        if isinstance(variable, dict) and isinstance(variable.get("value"), dict) and variable["value"].get("hidden"):
            yield str(variable.get("name"))


def _passed(run: Run) -> Iterator[tuple[str, str]]:
    """Return the hidden values that the job has not read yet."""
    for file in (run.directory / "passed", *run.directory.glob("task-*/passed")):
        for entry in (_text_of(file) or "").split("\0"):
            name, equals, value = entry.partition("=")
            if equals:
                yield name, value


def plan_of(run: Run | None) -> dict[str, Any]:
    """Return the plan of a run; empty where there is none that can be read."""
    return {} if run is None else _json_of(run.directory / "plan.json")


_ROLE_FILES = (
    ("roles/roles.json", "the places of the roles"),
    ("roles/events", "what happened to each role, and when"),
)


def record_parts(run: Run, redactor: Redactor) -> Iterator[ReportFile | str]:
    """Yield the script, the plan and the record; a sentence for one that cannot be read."""
    for name, subject in (
        ("job.sh", "the script that was queued"),
        ("plan.json", "the plan, each value with its reason"),
        ("record.json", "how it was made: command, commit, names of all variables, values of a few"),
        *(_ROLE_FILES if (run.directory / "roles").is_dir() else ()),
    ):
        text = _text_of(run.directory / name)
        if text is None:
            yield f"{name} of the record cannot be read: {run.directory / name}"
            continue
        old_count = redactor.count
        clean = redactor.json(text) if name.endswith(".json") else redactor.text(text)
        yield ReportFile(name, clean, subject, redactor.count - old_count)
        if name.endswith(".json") and not _json_of(run.directory / name):
            yield f"{name} of the record is damaged: it stands in the report as it is"


def torch_of(run: Run | None) -> dict[str, Any]:
    """Return the versions that the environment's own record names, where `muster build` made the environment."""
    record = _json_of(run.directory / "record.json") if run is not None else {}
    kind = record.get("environment")
    venv = kind.get("VIRTUAL_ENV") if isinstance(kind, dict) else None
    venv_record = _json_of(Path(venv) / "muster.json") if isinstance(venv, str) and venv else {}
    image = record.get("image")
    texts = {name: value for name, value in venv_record.items() if isinstance(value, str)}
    return {**texts, **({"image": image} if image else {})}


def log_parts(job: SlurmJob | None, run: Run | None, asked_id: str, redactor: Redactor) -> Iterator[ReportFile | str]:
    """Yield the ends of the logs, attempt after attempt; a sentence for what is not among them."""
    numbers = _attempts(run, (job.shown_id if job else asked_id).partition("_")[2])
    if len(numbers) > ATTEMPTS:
        yield f"the logs of the first {len(numbers) - ATTEMPTS} attempts are omitted"
    part_count = 0
    for number in numbers[-ATTEMPTS:]:
        output = find_output(job, run, asked_id, number if run is not None else None)
        files = [] if output is None else [file for file in output.files() if _is_plain(file.path, run)]
        if len(files) > LOGS:
            yield f"of the {len(files)} logs of attempt {number} the last {LOGS} are in it"
        for file in files[-LOGS:]:
            part = _log_part(file, f"logs/attempt-{number}/{file.role}".rstrip("/"), redactor)
            part_count += isinstance(part, ReportFile)
            yield part
    if not part_count:
        yield "no log of the job is there, or can be read by you"


def _attempts(run: Run | None, task: str) -> list[int]:
    if run is None:
        return [1]
    folder = folder_of(run, task if task.isdigit() else None)
    known_numbers = {attempt.number for attempt in read_attempts(folder)} | {
        attempt.number for attempt in read_ends(folder)
    }
    kept_numbers = {path.name.removeprefix("attempt-") for path in (folder / "logs").glob("attempt-*")}
    return sorted(known_numbers | {int(number) for number in kept_numbers if re.fullmatch("[0-9]{1,9}", number)} | {1})


def _log_part(file: LogFile, folder: str, redactor: Redactor) -> ReportFile | str:
    try:
        with file.path.open("rb") as stream:
            total = os.fstat(stream.fileno()).st_size
            last = deque(lines_at_end(file, stream), maxlen=LINES)
    except OSError as error:
        return f"{file.path} cannot be read: {error.strerror}"
    old_count = redactor.count
    # Secrets first: what a cut leaves of one is not found any more.
    text = redactor.text("".join(f"{raw[:_RAW_LENGTH].decode(errors='replace')}\n" for raw in last))
    lines = "".join(f"{_cut(line)}\n" for line in text.split("\n")[:-1])
    subject = f"its last lines: {len(last)}, of {total:,} bytes in all"
    return ReportFile(f"{folder}/{_safe(file.path.name)}", lines, subject, redactor.count - old_count)


def _cut(line: str) -> str:
    excess = len(line) - LINE_LENGTH
    return line if excess <= 0 else f"{line[:LINE_LENGTH]} (and more: the line is cut here)"


def _is_plain(path: Path, run: Run | None) -> bool:
    """Return whether it is a file: not a pipe, which would never end, nor a link in the run's logs to elsewhere."""
    try:
        is_own = run is not None and path.is_relative_to(run.directory)
        return stat.S_ISREG((path.lstat() if is_own else path.stat()).st_mode)
    except OSError:
        return False


def _text_of(file: Path) -> str | None:
    """Return the beginning of a plain file; None where there is none to read."""
    try:
        if not stat.S_ISREG(file.lstat().st_mode):
            return None
        with file.open("rb") as stream:
            return stream.read(_FILE_BYTES).decode(errors="replace")
    except OSError:
        return None


def _json_of(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(_text_of(file) or "")
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def is_archive(path: Path) -> bool:
    """Return whether a name asks for an archive; any other is a folder's."""
    return path.name.endswith((".tar.gz", ".tgz"))


def write_report(target: Path, parts: Iterable[ReportFile], now: int) -> None:
    """Write the report as an archive or a folder that is not there yet, for nobody else to read."""
    files = list(_named_apart(parts))
    try:
        if is_archive(target):
            _write_private(target, _packed(files, _safe(re.sub(r"\.(tar\.gz|tgz)$", "", target.name)), now))
            return
        target.mkdir(mode=0o700)
        for part in files:
            place = target / part.name
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write_private(place, part.text.encode(errors="replace"))
    except FileExistsError:
        raise RequestError(f"{target} is already there", hint="remove it, or name another: -o FILE.tar.gz") from None
    except OSError as error:
        raise RequestError(
            f"the report cannot be written to {target}: {error.strerror}", hint="name another place: -o FILE.tar.gz"
        ) from None


def _packed(parts: Iterable[ReportFile], folder: str, now: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for part in parts:
            content = part.text.encode(errors="replace")
            entry = tarfile.TarInfo(f"{folder}/{part.name}")
            entry.size, entry.mode, entry.mtime = len(content), 0o600, now
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _write_private(path: Path, content: bytes) -> None:
    """Write a new file; nothing is left of one that fails."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except BaseException:
        path.unlink()
        raise


def _named_apart(parts: Iterable[ReportFile]) -> Iterator[ReportFile]:
    """Yield the parts with names that differ: the second of two alike gets a number."""
    taken_names: set[str] = set()
    for part in parts:
        name, number = part.name, 2
        while name in taken_names:
            name, number = f"{part.name}-{number}", number + 1
        taken_names.add(name)
        yield msgspec.structs.replace(part, name=name)


def _safe(name: str) -> str:
    """Return a file's name that is harmless wherever it is unpacked."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip(".-")[:100] or "log"
