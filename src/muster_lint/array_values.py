"""What a case gives each task of an array. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint.job import BatchScript
from muster_lint.values import TextSpan

_NUMBER = r"\$?\{?SLURM_ARRAY_TASK_ID\}?"
_CASE = re.compile(rf"^[ \t]*case[ \t]+\"?{_NUMBER}\"?[ \t]+in\b", re.MULTILINE)
_ESAC = re.compile(r"^[ \t]*esac\b", re.MULTILINE)
_ARM = re.compile(r"\s*\(?(\d+)\)")
_SET = re.compile(r"(?<!\S)([A-Za-z_]\w*)=([\w./-]+)(?=[;\s]|$)")
_MOST_TASKS = 1000


def tasks_of_array(job: BatchScript) -> list[int]:
    """Return the numbers of the array's tasks; none where they are not written as numbers and ranges."""
    written = ((job.header["array"].value or "") if "array" in job.header else "").partition("%")[0]
    tasks: list[int] = []
    for part in written.split(","):
        found = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part)
        if found is None:
            return []
        tasks += range(int(found[1]), int(found[2] or found[1]) + 1)
        if len(tasks) > _MOST_TASKS:
            return []
    return tasks


def _arms(job: BatchScript) -> dict[int, dict[str, str]]:
    """Return what the first case of the task's number sets for each number."""
    case = _CASE.search(job.body)
    end = _ESAC.search(job.body, case.end()) if case is not None else None
    pieces = job.body[case.end() : end.start()].split(";;") if case is not None and end is not None else []
    return {int(found[1]): dict(_SET.findall(piece)) for piece in pieces if (found := _ARM.match(piece))}


def shared_results(job: BatchScript) -> Iterator[tuple[TextSpan, str, int, int]]:
    """Yield a place of results that two arms of a case set to one value, while other values of theirs differ."""
    arms = _arms(job)
    first: dict[str, int] = {}
    for task in tasks_of_array(job):
        for name, value in arms.get(task, {}).items():
            if not _OF_RESULTS.fullmatch(name) or not re.search(rf"\$\{{?{name}\b", job.body):
                continue
            if value in first and arms[first[value]] != arms[task]:
                places = [each.place for each in job.shell.assigned(name) if each.value and each.value.value == value]
                if len(places) > 1:
                    yield places[1], value, first[value], task
                    return
            first.setdefault(value, task)


_OF_RESULTS = re.compile(r"(\w+_)?(results?|out(put)?s?)(_?(dir|folder|path|file))?|save_?(dir|path|to)", re.IGNORECASE)
