"""Rules on slips of the hand in commands that everybody uses, and in the words of the shell."""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster_lint import sources
from muster_lint.bash import SimpleCommand
from muster_lint.embedded import open_texts
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.rules.status import cancels_itself
from muster_lint.values import Hit, Severity, TextSpan
from muster_lint.works import text_of

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\n"


@rule(
    "words-of-another-command",
    Severity.FRAGILE,
    "a command among the words of another",
    why="""A line is one command: what looks like the next one are words of the first. pip looks for packages called pip and install, module for modules called module
    and load, cd refuses a second word.""",
    instead="Write one command in a line, or put && between them.",
    source=sources.BASH,
    bad=_HEAD + "set -e\nmodule load module load cuda\nsrun --kill-on-bad-exit=1 ./train\n",
    good=_HEAD + "set -e\nmodule load cuda\nsrun --kill-on-bad-exit=1 ./train\n",
)
def find_mixed_commands(job: BatchScript) -> Iterator[Hit]:
    """Yield the first well-known command that holds the beginning of another, or an option that means something else."""
    for each in job.shell.commands if job.directives else ():
        message = _slip(each) if each.place.line == each.place.end_line else ""
        if message:
            yield Hit(each.place, message)
            return


def _slip(command: SimpleCommand) -> str:
    """Return what a command makes of the words of another one; nothing where it holds none."""
    text, words = text_of(command), [word.value for word in command.words[1:]]
    if command.program in {"python", "python3"} and words[:1] == [command.program]:
        return f"{command.program} looks for a script called {command.program}"
    if command.program == "cd" and len(words) > 1 and all(word.is_literal for word in command.words):
        is_marked = re.search(r"[\[\]{}<>]|^-", " ".join(words)) is not None
        return "" if is_marked else f"cd takes one folder, and gets {len(words)} words: it goes nowhere"
    for pattern, message in _SLIPS:
        found = pattern.match(text)
        if found is not None:
            return message.format(*found.groups())
    return ""


_SLIPS = (
    (re.compile(r"(?:python\S* -m )?pip\d? install\b.* (pip\d?|conda) install(?= |$)"), "pip looks for packages called {0} and install"),
    (re.compile(r"(?:module|ml) load\b.* (module|ml) load\b"), "it looks for modules called {0} and load"),
    (re.compile(r"(?:source|\.) activate conda activate\b"), "it activates an environment called conda"),
    (re.compile(r"mkdir .*\b(mkdir|cd) "), "it takes {0} for the name of a folder"),
    (re.compile(r"module use (?:-a |--append )?([A-Za-z][\w+-]*/v?\d[\w.+-]*)$"), "module use adds a folder called {0} to the places of modules, and loads none"),
    (re.compile(r"squeue\b.* -q\s*(\$\(hostname|`hostname|\$\{?HOSTNAME|\$\{?SLURMD_NODENAME)"), "-q asks for a QOS: the jobs of a node are asked for by -w"),
)  # fmt: skip


@rule(
    "filled-in-by-submission",
    Severity.FRAGILE,
    "a variable of the job that the submitting shell fills in",
    why="""In a here-document whose mark has no quotes bash puts the values in before sbatch reads the text. Where the job is submitted there is no job yet: the
    variable is empty, and the script holds nothing in its place.""",
    instead="Write a backslash in front of it, \\$SLURM_JOB_ID, or quote the mark: <<'EOF'.",
    source=sources.BASH,
    bad="#!/bin/bash\nsbatch <<EOF\n#!/bin/bash\n#SBATCH --time=01:00:00\nsrun --kill-on-bad-exit=1 ./train $SLURM_JOB_ID\nEOF\n",
    good="#!/bin/bash\nsbatch <<'EOF'\n#!/bin/bash\n#SBATCH --time=01:00:00\nsrun --kill-on-bad-exit=1 ./train $SLURM_JOB_ID\nEOF\n",
)
def find_early_fillings(job: BatchScript) -> Iterator[Hit]:
    """Yield the first variable of Slurm that is empty in a text which a script that is not a job itself gives to sbatch."""
    for before, text in open_texts(job) if not job.directives else ():
        for number, line in enumerate(text.splitlines(), start=before + 1):
            found = _OF_A_JOB.search(line) if not re.match(r"\s*#(?!SBATCH)", line) else None
            if found is not None and not job.shell.assigned(found[1]) and found[1] not in job.declared:
                place = TextSpan(number, found.start() + 1, number, found.end() + 1)
                yield Hit(place, f"the shell that submits puts its own ${found[1]} here, which is empty")
                return


_OF_A_JOB = re.compile(
    r"(?<!\\)\$\{?(SLURM_(?:JOB_?ID|JOB_\w+|ARRAY_\w+|(?:STEP_)?NODELIST|NTASKS\w*|NPROCS|CPUS_\w+|PROCID|LOCALID|NODEID|TMPDIR|GPUS\w*|NNODES))\b"
)


@rule(
    "arguments-not-handed-on",
    Severity.FRAGILE,
    "arguments that the text of another shell does not get",
    why="""bash -c gives its text only the words behind it. In single quotes $@ and $1 are those of the new shell: without words behind the text they are
    empty, and what sbatch was given is lost.""",
    instead='Hand them on behind the text, after a word for $0: bash -c \'cd /work && python "$@"\' bash "$@".',
    source=sources.BASH,
    bad=_HEAD + "srun --kill-on-bad-exit=1 bash -c 'cd /work && ./train $@'\n",
    good=_HEAD + 'srun --kill-on-bad-exit=1 bash -c \'cd /work && ./train "$@"\' bash "$@"\n',
)
def find_lost_arguments(job: BatchScript) -> Iterator[Hit]:
    """Yield the first text in single quotes that reads arguments, where bash -c gives it none."""
    for each in job.shell.commands if job.directives else ():
        names = [word.program for word in each.words[:-2]]
        is_last = len(each.words) > 2 and re.fullmatch(r"-[a-z]*c", each.words[-2].value) is not None
        if not is_last or names[-1] not in {"sh", "bash", "dash"} or each.words[-1].quoted != "'":
            continue
        text = each.words[-1].value
        found = _ARGUMENT.search(text)
        if found is not None and not (_ADDS_WORDS & {*names} or re.search(r"\bset (-- )?\S|\(\)|\bfunction\b", text)):
            yield Hit(each.words[-1].place, f"{found[0]} is empty in this shell: no word stands behind its text")
            return


_ARGUMENT = re.compile(r"(?<!\\)\$(?:[@*1-9](?!\w)|\{[@*1-9]\})")
_ADDS_WORDS = frozenset({"xargs", "parallel", "find", "awk", "ssh"})
"""Programs that put words behind the text, or that read it with another shell first."""


@rule(
    "text-as-command",
    Severity.FRAGILE,
    "a text in quotes that is run as a command",
    why="""What stands in quotes is one word, blanks and all, and the first word of a line is the command. A list in bash has no commas: NAME="a", "b" gives NAME its
    value for the command "b" alone, which is not there.""",
    instead='A message needs echo in front of it. Write a value in one pair of quotes, or a list as NAME=("a" "b"). A command stands without quotes around its words.',
    source=sources.BASH,
    bad=_HEAD + 'SETTINGS="--depth 3", "--width 4"\nsrun --kill-on-bad-exit=1 ./train $SETTINGS\n',
    good=_HEAD + 'SETTINGS="--depth 3 --width 4"\nsrun --kill-on-bad-exit=1 ./train $SETTINGS\n',
)
def find_texts_as_commands(job: BatchScript) -> Iterator[Hit]:
    """Yield the first command whose name is a literal with a blank in it."""
    for each in job.shell.commands if job.directives and job.shell.error is None else ():
        name = each.words[0] if each.words else None
        is_text = name is not None and name.quoted and name.is_literal and re.match(r"[^/~.\s]\S* +\S", name.value)
        if name is not None and is_text and "\n" not in name.value:
            before = re.match(r"\s*(\w+(\[.*\])?)=", job.lines[each.place.line - 1][: name.place.column - 1])
            lost = f": {before[1]} does not keep its value" if before is not None else ""
            yield Hit(name.place, f"{name.value!r} is one word, and no program is called that{lost}")
            return


@rule(
    "csh-in-bash",
    Severity.FRAGILE,
    "a command of csh in a script for bash",
    why="setenv and unsetenv are commands of csh: bash says 'command not found' and goes on without the variable. set with a word gives $1 this word.",
    instead="Write export NAME=VALUE, unset NAME, or set -x for set echo.",
    source=sources.BASH,
    bad=_HEAD + "setenv DATA /tmp\nsrun --kill-on-bad-exit=1 ls -d $DATA\n",
    good=_HEAD + "export DATA=/tmp\nsrun --kill-on-bad-exit=1 ls -d $DATA\n",
)
def find_words_of_csh(job: BatchScript) -> Iterator[Hit]:
    """Yield the first setenv or unsetenv of a script, and set with a word that is an option of csh."""
    if not job.directives or re.match(r"#!.*csh", job.text) or "setenv()" in job.text.replace(" ", ""):
        return
    for each in job.shell.commands:
        words = [word.value for word in each.words[1:]]
        if each.program in {"setenv", "unsetenv"} and each.program not in job.functions and not each.is_conditional:
            reads = any(other.program in {"source", "."} and other.order < each.order for other in job.shell.commands)
            unknown = "whether a file that is read first defines it" if reads else ""
            yield Hit(each.place, f"{each.program} is a command of csh: bash does not know it", unknown=unknown)
            return
        if each.program == "set" and words in (["echo"], ["verbose"], ["noglob"]):
            is_harmless = re.search(r"\$\{?[@*1-9#]", job.body) is None
            lost = "and does nothing else" if is_harmless else "and the script's own arguments are lost"
            severity = Severity.STYLE if is_harmless else None
            yield Hit(each.place, f"set {words[0]} gives $1 the value {words[0]}, {lost}", severity=severity)
            return


@rule(
    "dollar-escaped",
    Severity.FRAGILE,
    "a variable that gets its own name instead of its value",
    why=r"Behind a backslash $ is a sign like others: the path ends in a folder called $PATH, and what the variable held is lost.",
    instead="Write it without the backslash. A backslash belongs there only in a text that another shell reads.",
    source=sources.BASH,
    bad=_HEAD + "export PYTHONPATH=/project/lib:\\$PYTHONPATH\nsrun --kill-on-bad-exit=1 ./train\n",
    good=_HEAD + "export PYTHONPATH=/project/lib:$PYTHONPATH\nsrun --kill-on-bad-exit=1 ./train\n",
)
def find_escaped_names(job: BatchScript) -> Iterator[Hit]:
    """Yield the first assignment whose value holds its own name behind a backslash, where nothing reads the value again."""
    tried: set[str] = set()
    for each in job.shell.assignments if job.directives and not re.search(r"\beval\b", job.body) else ():
        value = each.value
        is_plain = value is not None and value.quoted != "'" and value.place.line == value.place.end_line
        if value is None or not is_plain or "\\$" not in value.text or each.name == "PS1":
            continue
        if each.name in tried or len(tried) == _MOST_NAMES:
            continue
        tried.add(each.name)
        found = re.search(rf"\\\$\{{?{each.name}\b(?!\w)\}}?", value.text)
        if found is not None and not _is_read_by_a_shell(job, each.name):
            yield Hit(value.place, f"{each.name} {_where(value.text, found)} the word ${each.name}")
            return


_MOST_NAMES = 20
"""How many names of a script are looked for in its whole text."""


def _where(text: str, found: re.Match[str]) -> str:
    return "ends in" if found.end() >= len(text.rstrip("\"'")) else "holds"


def _is_read_by_a_shell(job: BatchScript, name: str) -> bool:
    """Tell whether a text for another shell holds the value of a variable."""
    return re.search(rf"(\bssh\b|\bsh -c|<<).*\$\{{?{name}\b", job.body) is not None


@rule(
    "job-file-grows",
    Severity.FRAGILE,
    "a batch script that is added to at each run",
    why=""">> keeps what is in the file: the second run writes its script behind the first one, and sbatch takes the header of the first. The job starts both works, or
    the old one again.""",
    instead="Write > for the first line of the file, or give each job a file of its own.",
    source=sources.BASH,
    bad="#!/bin/bash\necho '#!/bin/bash' >> job.sh\necho \"srun --kill-on-bad-exit=1 ./train $1\" >> job.sh\nsbatch job.sh\n",
    good="#!/bin/bash\necho '#!/bin/bash' > job.sh\necho \"srun --kill-on-bad-exit=1 ./train $1\" >> job.sh\nsbatch job.sh\n",
)
def find_growing_jobs(job: BatchScript) -> Iterator[Hit]:
    """Yield the first text of a script that is added to a file of one name and then given to sbatch."""
    given = {each.words[-1].value for each in job.shell.commands if each.program == "sbatch" and len(each.words) > 1}
    tried: set[str] = set()
    for each in job.shell.commands if given else ():
        text = each.words[1] if len(each.words) > 1 else None
        if each.program not in {"echo", "printf"} or text is None or not text.value.startswith("#!"):
            continue
        for name in (given & {*each.writes}) - tried if len(tried) < _MOST_NAMES else ():
            tried.add(name)
            line = job.lines[each.place.end_line - 1] + " " + "".join(job.lines[text.place.end_line - 1 :][:1])
            place = re.escape(name)
            made = rf"(?<!>)>\|?\s*[\"']?(\./)?{place}\b|\b(rm|mv|truncate|unlink|trap)\b.*{place}"
            if "$" not in name and re.search(rf">>\s*[\"']?{place}\b", line) and not re.search(made, job.body):
                yield Hit(each.place, f"a second run adds its text to {name}, and sbatch reads the first one")
                return


@rule(
    "job-cancels-itself",
    Severity.FRAGILE,
    "a job that cancels itself at its end",
    why="A job that scancel ends is CANCELLED, whatever its programs did: nobody sees whether it went well, and a job that waits for it by afterok does not start.",
    instead="Remove the line: the job ends with its script, and what runs in the background ends with it.",
    source="SchedMD/slurm doc/man/man1/scancel.1; doc/man/man1/sbatch.1, --dependency=afterok",
    bad=_HEAD + "set -e\nsrun --kill-on-bad-exit=1 ./train\nscancel $SLURM_JOB_ID\n",
    good=_HEAD + "set -e\nsrun --kill-on-bad-exit=1 ./train\n",
)
def find_self_cancelling(job: BatchScript) -> Iterator[Hit]:
    """Yield scancel of the job itself where it is the last command of the script and no comment says why."""
    main = [each for each in job.shell.commands if each.function is None and not each.in_substitution]
    main = [each for each in main if each.program not in {"exit", "echo", "date"}]
    last = main[-1] if main and job.directives else None
    if last is None or not cancels_itself(last) or last.is_conditional or last.is_guarded or last.in_loop:
        return
    near = "\n".join(job.lines[max(0, last.place.line - 3) : last.place.line])
    if not re.search(r"#.*\b(cancel|kill|stop|end|clean|free)", near, re.IGNORECASE):
        yield Hit(last.place, "the job counts as CANCELLED even if all went well")
