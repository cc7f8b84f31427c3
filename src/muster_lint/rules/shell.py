"""Rules on the shell around the job: text that is not bash, lost statuses, places."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.bash import ask_bash
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity, TextSpan
from muster_lint.works import SERVER, text_of

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\n"


@rule(
    "not-bash",
    Severity.BREAKS,
    "text that bash cannot read",
    why="bash stops at the first place that it cannot read; what stands before it has run already.",
    instead="Close the quote, bracket or block that is open.",
    source=sources.BASH,
    bad=_HEAD + "if [ -d data ]; then\n    srun --kill-on-bad-exit=1 hostname\n",
    good=_HEAD + "if [ -d data ]; then\n    srun --kill-on-bad-exit=1 hostname\nfi\n",
)
def find_syntax_errors(job: BatchScript) -> Iterator[Hit]:
    """Yield the first place that bash itself refuses."""
    if not job.directives or re.match(r"#!.*\b(z|k|da)?sh\b(?<!bash)", job.lines[0] if job.lines else ""):
        return
    # The grammar refuses a little that bash takes, takes what bash refuses, and an open quote leads it astray.
    asked = ask_bash(job.text)
    if asked is None or asked.ok or "\r\n" in job.text:
        return  # dos-line-ends says the last
    first = job.shell.error or TextSpan(len(job.lines), 1, len(job.lines), 2)
    place = _named_line(job, asked.stderr) or first
    if _knows_patterns(job, place):  # bash -n does not run shopt
        asked = ask_bash(job.text, "-O", "extglob") or asked
        place = _named_line(job, asked.stderr) or first
    if not asked.ok and not _ends_before(job, place):
        blank = re.search(r"(?<!<)<[A-Za-z.][\w ./-]*>", "".join(job.lines[place.line - 1 : place.line]))
        instead = f"Write your own value for {blank[0]}: bash takes < and > for redirections." if blank else ""
        severity = Severity.STYLE if blank else None
        yield Hit(place, "the text is not bash from here on", instead, severity=severity)


def _ends_before(job: BatchScript, place: TextSpan) -> bool:
    """Tell whether the script surely ends in front of a place: bash reads no further."""
    last = [each for each in job.shell.commands if each.place < place]
    ends = [each for each in last if each.program == "exit" or (each.program == "exec" and len(each.words) > 1)]
    return any(
        not (each.is_conditional or each.is_guarded or each.in_loop or each.function or each.in_substitution)
        for each in ends
    )


def _knows_patterns(job: BatchScript, place: TextSpan) -> bool:
    """Tell whether the script has turned on extglob at its top level before this place."""
    return any(
        each.program == "shopt"
        and {"-s", "extglob"} <= {word.value for word in each.words}
        and each.place.line < place.line
        and not (each.is_conditional or each.is_guarded or each.in_loop or each.function or each.in_substitution)
        for each in job.shell.commands
    )


def _named_line(job: BatchScript, message: str) -> TextSpan | None:
    """Return the line that bash's message names, where it is one of the file."""
    match = re.search(r"line (\d+):", message)
    number = int(match[1]) if match else 0
    return TextSpan(number, 1, number, len(job.lines[number - 1]) + 1) if 0 < number <= len(job.lines) else None


_BASH_ALONE = frozenset({"source", "declare", "typeset", "shopt", "pushd", "popd", "mapfile", "readarray", "let"})


@rule(
    "bash-under-sh",
    Severity.STYLE,
    "words of bash in a script for sh",
    why="On Debian and Ubuntu sh is dash: dash stops at an array, and goes on without what a source would have set.",
    instead="Write #!/bin/bash in the first line.",
    source="dash(1) of Debian 12: no arrays, no source, no declare",
    bad="#!/bin/sh\n#SBATCH --nodes=1\n#SBATCH --time=10\nsizes=(1 2 4)\nsrun --kill-on-bad-exit=1 echo ${sizes[1]}\n",
    good="#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=10\nsizes=(1 2 4)\nsrun --kill-on-bad-exit=1 echo ${sizes[1]}\n",
)
def find_bash_words(job: BatchScript) -> Iterator[Hit]:
    """Yield the first array or command that bash knows and dash does not, in a script whose first line names sh."""
    if re.match(r"#!\s*(/usr)?/bin/(env\s+)?sh\b", job.lines[0] if job.lines else "") is None:
        return
    arrays = [each.place for each in job.shell.assignments if each.elements is not None]
    commands = [each.place for each in job.shell.commands if each.words and each.words[0].value in _BASH_ALONE]
    if arrays or commands:
        place = min([*arrays, *commands])
        what = "an array" if place in arrays else job.lines[place.line - 1].strip().split()[0]
        yield Hit(place, f"{what} is of bash, and this script is for sh", unknown="whether sh is bash on the nodes")


@rule(
    "continuation-broken",
    Severity.BREAKS,
    "a blank behind a backslash",
    why="A backslash continues a line only as its last character; with a blank behind it the command ends here and the next line is a command of its own.",
    instead="Remove the blank.",
    source=sources.BASH,
    bad=_HEAD + "srun --kill-on-bad-exit=1 \\ \n    hostname\n",
    good=_HEAD + "srun --kill-on-bad-exit=1 \\\n    hostname\n",
)
def find_broken_continuations(job: BatchScript) -> Iterator[Hit]:
    """Yield a backslash followed by blanks at a line's end."""
    from muster_lint.values import Edit

    for number, line in enumerate(job.lines, start=1):
        match = re.search(r"(?<!\\)\\([ \t]+)$", line)
        if match and not line.lstrip().startswith("#"):
            place = TextSpan(number, match.start(1) + 1, number, match.end(1) + 1)
            # A line of options is not a command of its own; another line may be one, which the edit would swallow.
            goes_on = number < len(job.lines) and re.match(r"\s*--?[a-zA-Z]", job.lines[number])
            inside = any(text.line <= number <= text.end_line for text, _ in job.shell.heredocs)
            edits = (Edit(place, ""),) if goes_on else ()
            following = job.lines[number].strip() if number < len(job.lines) else ""
            if not following or following.startswith("#") or inside:
                continue  # nothing is lost
            yield Hit(place, "the command ends here", edits=edits, severity=None if goes_on else Severity.FRAGILE)


@rule(
    "continuation-comment",
    Severity.BREAKS,
    "a comment inside a continued command",
    why="The comment line ends the command: the options after it are a command of their own.",
    instead="Move the comment above the command.",
    source=sources.BASH,
    bad=_HEAD + "srun --kill-on-bad-exit=1 \\\n    # --exclusive \\\n    hostname\n",
    good=_HEAD + "# --exclusive\nsrun --kill-on-bad-exit=1 \\\n    hostname\n",
)
def find_comments_in_commands(job: BatchScript) -> Iterator[Hit]:
    """Yield a comment, or an empty line, inside a continued command whose next line is one of options."""
    written = {line for place, _ in job.shell.heredocs for line in range(place.line, place.end_line + 1)}
    yield from _comments_in_texts(job)
    empty_ends = {
        launch.command.place.end_line
        for launch in job.launches
        if launch.stages and launch.stages[-1].kind in {"step", "mpi", "agent"} and not launch.stages[-1].words
    }
    written |= {line for place in job.shell.long_texts for line in range(place.line, place.end_line + 1)}
    for number, (line, following) in enumerate(zip(job.lines, job.lines[1:]), start=2):
        if not line.rstrip("\r").endswith("\\") or re.search(r"(^|\s)#", line) or number in written:
            continue
        if following.strip() and not following.lstrip().startswith("#"):
            continue
        rest = [each for each in job.lines[number:] if each.strip() and not each.lstrip().startswith("#")]
        is_empty = number - 1 in empty_ends  # what the command starts stands behind the comment
        if rest and (is_empty or re.match(r"\s*--?[A-Za-z]", rest[0])):
            subject = "comment" if following.strip() else "empty line"
            yield Hit(
                TextSpan(number, 1, number, len(following) + 1),
                f"the command ends before this {subject}, and {rest[0].split()[0]} is a command of its own",
            )


def _comments_in_texts(job: BatchScript) -> Iterator[Hit]:
    """Yield a comment inside a continued command in the double quotes of bash -c: it takes the rest of the command."""
    for launch in job.launches:
        for word in launch.early if launch.inner is not None else ():
            lines = range(word.place.line + 1, word.place.end_line)
            for number in lines if word.quoted == '"' else ():
                line, before = job.lines[number - 1].strip(), job.lines[number - 2]
                rest = job.lines[number].strip()
                if line.startswith("#") and line.endswith("\\") and before.endswith("\\") and rest.startswith("-"):
                    place = TextSpan(number, 1, number, len(job.lines[number - 1]) + 1)
                    yield Hit(
                        place, f"the shell that reads this text takes the rest for a comment: {rest.split()[0]} is lost"
                    )
                    return


@rule(
    "assignment-with-blanks",
    Severity.BREAKS,
    "blanks around = in an assignment",
    why="bash runs NAME as a command with = as its first word.",
    instead="Write NAME=VALUE without blanks.",
    source=sources.BASH,
    bad=_HEAD + 'DATA = /tmp\nsrun --kill-on-bad-exit=1 ls -d "$DATA"\n',
    good=_HEAD + 'DATA=/tmp\nsrun --kill-on-bad-exit=1 ls -d "$DATA"\n',
)
def find_spaced_assignments(job: BatchScript) -> Iterator[Hit]:
    """Yield commands whose first argument is =."""
    for each in job.commands:
        if len(each.words) > 1 and each.words[1].text == "=" and re.fullmatch(r"[A-Za-z_]\w*", each.words[0].text):
            unknown = _unread(job, each.words[0].text, each.place.line)
            yield Hit(each.place, f"bash runs {each.words[0].text!r} as a command", unknown=unknown)
        elif each.program == "set" and len(each.words) == 2 and re.match(r"[A-Z_]+=", each.words[1].text):
            yield Hit(each.place, f"set does not set {each.words[1].text.partition('=')[0]}", severity=Severity.FRAGILE)
    for place, keyword, name in job.shell.spaced:
        message = f"{keyword} takes no blanks around =: it stops with an error, and sets nothing"
        yield Hit(place, message, unknown=_unread(job, name, place.line))


def _unread(job: BatchScript, name: str, line: int) -> str:
    """Return what is not known of a variable that no later line reads where the script goes on after an error."""
    later = "\n".join(each for each in job.lines[line:] if not each.lstrip().startswith("#"))
    is_read = job.stops_at_errors or re.search(rf"\$\{{?{name}\b", later)
    return "" if is_read else f"whether anything reads {name}"


@rule(
    "options-alone",
    Severity.BREAKS,
    "a line of options that is a command of its own",
    why="The line before it does not end in a backslash: bash runs the options as a program, which is not there.",
    instead="End the line before it with a backslash.",
    source=sources.BASH,
    bad=_HEAD + "srun --kill-on-bad-exit=1 ./train --depth 3\n    --width 4\n",
    good=_HEAD + "srun --kill-on-bad-exit=1 ./train --depth 3 \\\n    --width 4\n",
)
def find_lone_options(job: BatchScript) -> Iterator[Hit]:
    """Yield commands whose first word is an option."""
    if job.shell.error is not None:
        return  # what is read there may be no command
    continued = {number for number, line in enumerate(job.lines, start=2) if line.rstrip("\r").endswith("\\")}
    for each in job.shell.commands:
        first = each.words[0].text
        before = job.lines[each.place.line - 2].strip() if each.place.line > 1 else ""
        is_behind_comment = before.startswith("#") or not before or re.search(r"\\\s+$", job.lines[each.place.line - 2])
        is_rest = (
            re.fullmatch(r"\"?\$\{?[@*]\}?\"?", first)
            and len(each.words) == 1
            and _starts_program(job, each.place.line - 1)
        )
        if (
            (re.match(r"--?[A-Za-z][\w-]*", first) or is_rest)
            and each.place.line not in continued
            and not (is_behind_comment or each.in_substitution)
        ):
            yield Hit(each.place, f"bash runs {first!r} as a command: the line before it ends the command")


def _starts_program(job: BatchScript, line: int) -> bool:
    """Tell whether a command that starts a program ends on this line."""
    return any(
        launch.command.place.end_line == line
        and (launch.stage("python") or launch.stage("step") or launch.stage("agent"))
        for launch in job.launches
    )


@rule(
    "errors-to-terminal",
    Severity.FRAGILE,
    "2>&1 in front of > file",
    why="The shell reads redirections from left to right: 2>&1 goes where the output goes now, so the errors are not in the file.",
    instead="Write > file 2>&1.",
    source=sources.BASH,
    bad=_HEAD + "srun --kill-on-bad-exit=1 hostname 2>&1 > all.log\n",
    good=_HEAD + "srun --kill-on-bad-exit=1 hostname > all.log 2>&1\n",
)
def find_early_redirections(job: BatchScript) -> Iterator[Hit]:
    """Yield 2>&1 in front of the file that the output goes to."""
    for number, line in enumerate(job.lines, start=1):
        match = re.search(r"(?<![\d&])2>&1\s+1?>>?\s*(?!/dev/null)[\w./$\"{]", line)
        is_text = any(place.line <= number <= place.end_line for place, _ in job.shell.heredocs)
        if match and not is_text and not line.lstrip().startswith("#"):
            place = TextSpan(number, match.start() + 1, number, match.end() + 1)
            yield Hit(place, "the errors do not go into the file")


@rule(
    "return-in-script",
    Severity.FRAGILE,
    "return outside of a function",
    why="A script that sbatch runs is not sourced: return is an error there, and the script goes on behind it.",
    instead="Write exit.",
    source=sources.BASH,
    bad=_HEAD + "cd /scratch/run || return 1\nsrun --kill-on-bad-exit=1 hostname\n",
    good=_HEAD + "cd /scratch/run || exit 1\nsrun --kill-on-bad-exit=1 hostname\n",
)
def find_returns(job: BatchScript) -> Iterator[Hit]:
    """Yield return in the body of a job script."""
    for each in job.shell.commands if job.directives else ():
        if each.program == "return" and each.function is None and not each.in_substitution:
            yield Hit(each.place, "the script goes on behind this return")


@rule(
    "sleep-for-order",
    Severity.FRAGILE,
    "a sleep that stands for an order",
    why="How long the other process takes depends on the machine: on a busy node the sleep is too short.",
    instead="Wait for what you need: a file, a port, or the process (wait).",
    source=sources.COTAINR_BASICS,
    bad=_HEAD
    + "srun --kill-on-bad-exit=1 bash -c 'if [ $SLURM_LOCALID -eq 0 ]; then rocm-smi; fi; sleep 2; python train.py'\n",
    good=_HEAD
    + "srun --kill-on-bad-exit=1 bash -c 'if [ $SLURM_LOCALID -eq 0 ]; then rocm-smi; fi; python train.py'\n",
)
def find_sleeps(job: BatchScript) -> Iterator[Hit]:
    """Yield sleeps between local ranks, and behind a server that goes on in the background."""
    for task in job.tasks:
        by_local_rank = "SLURM_LOCALID" in task.shell.text or "LOCAL_RANK" in task.shell.text
        for each in task.shell.commands:
            if each.program == "sleep" and by_local_rank and not (each.in_loop or each.is_conditional):
                yield Hit(each.place, "the other local ranks may be slower than this")
    server = ""
    for each in job.shell.commands if job.is_slurm and not _ASKS.search(job.text) else ():
        text = " ".join(word.value for word in each.words)
        found = SERVER.search(text) if each.in_background else None
        server = found[0] if found else server
        if each.program == "sleep" and server and not each.in_loop and not each.in_background:
            yield Hit(each.place, f"{server} may need longer than this to answer")
            server = ""


_ASKS = re.compile(r"\bcurl\b|\bnc -z|ray status|health|wait_for|until |/dev/tcp|ray_init|readiness|is.?ready")
"""The signs of a script that asks whether the server is there."""


@rule(
    "shell-without-commands",
    Severity.FRAGILE,
    "a shell that is given no commands",
    why="""In a batch job the shell reads an empty input and ends at once. The lines below it do not run inside: not in that container, group or
    environment.""",
    instead="Give it the commands: singularity exec IMAGE python train.py, pipenv run python train.py; or remove it.",
    source=sources.BASH,
    bad=_HEAD + "bash\nsrun --kill-on-bad-exit=1 hostname\n",
    good=_HEAD + "srun --kill-on-bad-exit=1 hostname\n",
)
def find_empty_shells(job: BatchScript) -> Iterator[Hit]:
    """Yield a shell without commands in front of other work."""
    commands = job.shell.commands if job.directives else ()
    for before, each in zip((None, *commands), commands):
        text = text_of(each)
        fed = each.reads or each.in_substitution or each.in_background or (before is not None and before.pipes_on)
        is_given = each.program in {"singularity", "apptainer"} and re.search(r"\.sh\b|\s-c\b", text)
        if (
            not (fed or is_given)
            and _EMPTY_SHELL.fullmatch(text)
            and any(other.order > each.order for other in commands)
        ):
            yield Hit(each.place, f"the lines below do not run in what {each.program} starts")


_EMPTY_SHELL = re.compile(
    r"(ba|z|da|tc|c)?sh( -[li]+)?|(poetry|pipenv) shell|nix-shell|newgrp \S+|scl enable [\w -]+ (ba)?sh"
    r"|(singularity|apptainer) shell( -\S+| [^\s-]\S*)*|docker run (-it|-ti|-i -t) .*\b(ba)?sh|srun .*--pty (/bin/)?(ba)?sh( -[li]+)?"
)
