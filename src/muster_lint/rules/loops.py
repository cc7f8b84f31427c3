"""Rules on what the rounds of a loop write over."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.bash import SimpleCommand
from muster_lint.job import BatchScript
from muster_lint.launch import LaunchCommand
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity, TextSpan
from muster_lint.works import is_work

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\nset -e\n"


@rule(
    "loop-overwrites",
    Severity.FRAGILE,
    "rounds of a loop that write one file",
    why="Each round is told something else, and opens the same file: behind the loop there are the results of its last round alone.",
    instead="Put the loop's variable into the name: --output model-$rate.bin.",
    source=sources.BASH,
    bad=_HEAD + "for rate in 1 2 3; do\n    srun --kill-on-bad-exit=1 ./solve --rate $rate > result.txt\ndone\n",
    good=_HEAD
    + 'for rate in 1 2 3; do\n    srun --kill-on-bad-exit=1 ./solve --rate $rate > "result-$rate.txt"\ndone\n',
)
def find_overwritten_rounds(job: BatchScript) -> Iterator[Hit]:
    """Yield the files that a command of a loop writes in each round, although other words of it vary."""
    loops = [place for place, first in job.shell.blocks if first == "for"]
    for launch in job.launches if loops and job.directives else ():
        each = launch.command
        around = [place for place in loops if each.place.is_within(place)] if each.in_loop else []
        if not around or each.function is not None or each.in_substitution or not is_work(job, launch):
            continue
        varying = _varying(job, around[-1])
        if not any(varying & set(word.names) for word in each.words):
            continue
        for path, names, place in _written(job, launch, around[-1], varying):
            is_same = not _all_names(job, names) & (varying | _OTHERWISE) and not re.search(r"\$\(|`|[*?]", path)
            if is_same and not _is_used(job, around[-1], each, path):
                unknown = "" if place == each.place else "whether the program adds to it"
                yield Hit(place, f"each round of the loop writes {job.shell.filled(path)}", unknown=unknown)


_OTHERWISE = {"RANDOM", "SECONDS", "BASHPID"}


def _varying(job: BatchScript, loop: TextSpan) -> set[str]:
    """Return the variables that a loop sets, or that are made of these."""
    names = {each.name for each in job.shell.assignments if each.place.is_within(loop) and not each.of_command}
    for each in job.shell.assignments:
        if each.value is not None and names & set(each.value.names):
            names.add(each.name)
    return names


def _all_names(job: BatchScript, names: set[str]) -> set[str]:
    """Return these variables, and those that their values are made of."""
    found = set(names)
    for _ in range(3):
        values = [each.value for name in found for each in job.shell.assigned(name)]
        found |= {name for value in values if value is not None for name in value.names}
    return found


def _written(
    job: BatchScript, launch: LaunchCommand, loop: TextSpan, varying: set[str]
) -> Iterator[tuple[str, set[str], TextSpan]]:
    """Yield the files that a command writes, each with its variables, and its place: for a redirection that of the command."""
    place = launch.command.place
    text = "\n".join(job.lines[place.line - 1 : place.end_line])
    if loop.end_line == place.end_line:
        text = text[: len(text) - len(job.lines[place.end_line - 1]) + loop.end_column - 1]
    for target in launch.command.writes:
        if re.search(rf"(?<!>)>\|?\s*{re.escape(target)}", text):
            yield target.replace('"', ""), set(re.findall(r"\$\{?(\w+)", target)), place
    words = launch.stages[-1].words
    told = launch.command.words
    is_placed = any(_all_names(job, set(each.names)) & varying and _OF_FOLDER.search(each.value) for each in told)
    has_folder = is_placed or any(
        _OF_FOLDER.match(before.value) and set(each.names) & varying for before, each in zip(told, told[1:])
    )
    for index, each in enumerate(words):
        name, equals, value = each.value.partition("=")
        option, path = (name, value) if equals else (words[index - 1].value if index else "", each.value)
        if (
            _OF_OUTPUT.fullmatch(option)
            and _IS_FILE.search(path)
            and not (has_folder and not path.startswith(("/", "$")))
        ):
            yield path, set(each.names), each.place


_OF_FOLDER = re.compile(r"-\S*(dir|folder|path|root|prefix|bind)|^-B")
_OF_OUTPUT = re.compile(
    r"--?(out(put)?|o|save|predictions?|results?|export)([-_]?(file|path|name|model|csv|json|to))?|--(model|log)[-_]?out(put)?"
)
_IS_FILE = re.compile(r"(?<!\.)\.[A-Za-z]\w{0,9}$")


def _is_used(job: BatchScript, loop: TextSpan, command: SimpleCommand, path: str) -> bool:
    """Tell whether the loop itself does something with the file, goes elsewhere, or ends early."""
    name = path.rpartition("/")[2]
    values = [each.value for each in job.shell.assignments if each.place.is_within(loop) and each.value is not None]
    if any(name in value.value for value in values):
        return True
    for each in job.shell.commands:
        if each.order != command.order and each.place.is_within(loop):
            words = [word.value for word in each.words]
            if each.program in _GOES or any(name in word or path in word for word in (*words, *each.writes)):
                return True
    return False


_GOES = frozenset({"cd", "pushd", "break", "exit", "mv", "rsync", "git", "cp", "tar"})
