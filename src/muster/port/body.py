"""The lines between the header and the launch → options of Muster: modules, environments, variables, folders. Pure.

A command that Muster has no place for is asked about; none is lost.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping

from muster.lint.bash import Assignment, Command
from muster.port.expand import TASKS, WIRED, Values, expanded, names_in
from muster.port.step import Chain
from muster.port.values import Draft

__all__ = ["read_assignments", "read_commands", "text_of"]


def read_commands(chains: Iterable[Chain], launch: Chain | None, draft: Draft) -> None:
    """Read every command of the batch host but the launch."""
    own = {chain.command.function for chain in chains if chain.command.function}
    after = False
    for chain in chains:
        command = chain.command
        if chain is launch:
            after = True
        elif command.in_substitution or command.function:
            _say_function(command, draft)
        elif command.program in own:
            draft.drop(command.place.line, text_of(command), "it calls a function of the script, which says something")
        elif chain.weight >= 4 or (chain.stage("step") and not chain.is_chore):
            draft.ask(command.place.line, text_of(command), "a second launch: it is a job of its own for Muster")
        elif chain.stage("step") and chain.is_chore and not after:
            _chore(chain, draft)
        else:
            _read(chain, draft, after=after)


def _say_function(command: Command, draft: Draft) -> None:
    if command.function:
        draft.drop(command.place.line, text_of(command), f"a line of the function {command.function}, not of the job")


def _read(chain: Chain, draft: Draft, *, after: bool) -> None:
    command = chain.command
    words = [word.value for word in expanded(command, chain.values)[1:]]
    reader = _COMMANDS.get(command.program)
    if reader is not None:
        reader(command.place.line, text_of(command), words, draft)
    elif command.program in _SHOWS or (chain.weight == 0 and command.program.startswith("python")):
        draft.drop(command.place.line, text_of(command), "shows something, and changes nothing")
    elif command.program in _CONTROL:
        draft.drop(command.place.line, text_of(command), _CONTROL[command.program])
    else:
        when = "after the ranks" if after else "before the ranks"
        why = f"Muster's job runs nothing {when} on the batch host: do it by hand, or inside the command"
        draft.ask(command.place.line, text_of(command), f"{why}{_BETTER.get(command.program, '')}")


def _chore(chain: Chain, draft: Draft) -> None:
    """A step before the ranks that prepares or looks."""
    line, words = chain.command.place.line, [chain.stages[-1].word.value, *(w.value for w in chain.stages[-1].words)]
    if chain.stages[-1].name in _SHOWS:
        draft.drop(line, text_of(chain.command), "shows something, and changes nothing")
    elif any("$" in word for word in words) or draft.get("node_prologue"):
        draft.ask(
            line, text_of(chain.command), "--node-prologue COMMAND runs one command on every node before its ranks"
        )
    else:
        draft.change(
            line, text_of(chain.command), "node_prologue", shlex.join(words), "once on every node, before its ranks"
        )


# ---------------------------------------------------------------- commands


def _module(line: int, what: str, words: list[str], draft: Draft) -> None:
    words = [word for word in words if word not in {"--force", "-f", "-q", "--quiet", "-s", "--silent"}]
    verb, names = (words[0], words[1:]) if words and words[0] in _MODULE_VERBS else ("load", words)
    names = [name for name in names if not name.startswith("-") or name == "-"]
    if verb in {"purge", "reset"}:
        draft.note(line, what, "", "the modules of the submitting shell are unloaded")
    elif verb in {"load", "add", "try-load"}:
        for name in names:
            if "$" in name:
                draft.ask(line, what, f"the name of the module is not in the script: {name}")
            elif name.startswith("-"):
                draft.ask(line, what, f"a module is unloaded: {name}")
            else:
                draft.keep(line, what, "module", name, "")
    elif verb == "use":
        for name in names:
            if "$" in name:
                draft.ask(line, what, f"the directory is not in the script: {name}")
            else:
                draft.keep(line, what, "module_use", name, "a directory with more modules")
    elif verb in {"list", "avail", "spider", "show", "is-loaded", "whatis"}:
        draft.drop(line, what, "shows something, and changes nothing")
    else:
        draft.ask(line, what, "Muster loads modules, and does nothing else with them: --module NAME")


_MODULE_VERBS = frozenset(
    "load add try-load purge reset use unload rm swap switch list avail spider show is-loaded whatis restore".split()  # noqa: SIM905
)


def _source(line: int, what: str, words: list[str], draft: Draft) -> None:
    path = words[0] if words else ""
    if path.endswith("/bin/activate"):
        folder = path.removesuffix("/bin/activate")
        if "$" in path:
            draft.ask(line, what, "the folder of the environment is not in the script: --venv DIR")
        elif len(words) > 1:  # conda's own: source /opt/conda/bin/activate NAME
            draft.keep(line, what, "conda", words[1], "a conda environment")
        else:
            draft.keep(line, what, "venv", folder, "a virtual environment")
    elif path in {"activate", "conda"} and len(words) > 1:
        draft.keep(line, what, "conda", words[1], "a conda environment")
    elif re.search(r"conda\.sh$|mamba\.sh$", path):
        draft.drop(line, what, "--conda does what conda's own function does")
    elif re.search(r"^/etc/(profile|bash)|/lmod/|/init/bash$|\.bashrc$|\.bash_profile$|\.profile$", path):
        draft.drop(line, what, "what it is read for, the command `module`, is there in Muster's script")
    else:
        draft.ask(line, what, "a file of yours: what it sets, --env, --module or --venv can say")


def _conda(line: int, what: str, words: list[str], draft: Draft) -> None:
    names = [word for word in words[1:] if not word.startswith("-")]
    if words[:1] == ["activate"] and names and "$" not in names[0]:
        draft.keep(line, what, "conda", names[0], "a conda environment")
    elif words[:1] in (["deactivate"], ["info"], ["list"], ["env"]):
        draft.drop(line, what, "only what the plan names is active in the job")
    else:
        draft.ask(line, what, "the environment is not in the script: --conda ENV")


def _cd(line: int, what: str, words: list[str], draft: Draft) -> None:
    path = words[0] if words else ""
    if re.fullmatch(r"\$\{?SLURM_SUBMIT_DIR\}?|\$\{?PWD\}?|\.", path):
        draft.drop(line, what, "Muster's ranks work where the job was submitted")
    elif not path or "$" in path:
        draft.ask(line, what, "the folder is not in the script: --chdir DIR")
    else:
        draft.keep(line, what, "chdir", path, "the working directory of the ranks")


def _unset(line: int, what: str, words: list[str], draft: Draft) -> None:
    for name in words:
        if name.isidentifier():
            draft.keep(line, what, "unset_env", name)
        elif name != "-v":
            draft.ask(line, what, f"{name} is not the name of a variable")


def _mkdir(line: int, what: str, words: list[str], draft: Draft) -> None:
    del words
    draft.ask(line, what, "Muster makes the folder of its logs; make others by hand, once, before you submit")


def _set(line: int, what: str, words: list[str], draft: Draft) -> None:
    del words
    draft.drop(line, what, "Muster's script ends with a sentence where one of its steps fails")


def _eval(line: int, what: str, words: list[str], draft: Draft) -> None:
    if "conda" in what or "mamba" in what:
        draft.drop(line, what, "--conda does what conda's own function does")
    else:
        draft.ask(line, what, f"it runs what another command prints: {' '.join(words)}")


_COMMANDS: Mapping[str, Callable[[int, str, list[str], Draft], None]] = {
    "module": _module,
    "ml": _module,
    "source": _source,
    ".": _source,
    "conda": _conda,
    "mamba": _conda,
    "micromamba": _conda,
    "cd": _cd,
    "pushd": _cd,
    "unset": _unset,
    "mkdir": _mkdir,
    "set": _set,
    "eval": _eval,
}
_SHOWS = frozenset(
    """
    echo printf date hostname env printenv nvidia-smi rocm-smi which pwd lscpu squeue sinfo scontrol sacct numactl free
    df ls cat sleep true type command uname whoami nvcc gcc head tail wc nproc ip ibstat lsb_release sstat seff module
    """.split()  # noqa: SIM905
)
_CONTROL = {
    "wait": "Muster's script waits for its step",
    "exit": "the job ends as its ranks end",
    "trap": "Muster's script passes signals on to the ranks",
    "shopt": "Muster's script sets what it needs itself",
    "return": "the job ends as its ranks end",
    "popd": "the job has one working directory",
    "deactivate": "only what the plan names is active in the job",
    "shift": "the command has its own arguments",
    "local": "a line of a function, not of the job",
    "break": "Muster's script has no loops",
    "continue": "Muster's script has no loops",
    "test": "Muster's script checks what it needs itself",
    "[": "Muster's script checks what it needs itself",
}
_BETTER = {
    "cp": "; --stage DATA copies data to the nodes' own disks",
    "rsync": "; --stage DATA copies data to the nodes' own disks",
    "tar": "; --stage DATA copies data to the nodes' own disks",
    "unzip": "; --stage DATA copies data to the nodes' own disks",
    "pip": "; muster build venv makes an environment once, and not in every job",
    "sbatch": "; --sbatch=--dependency=… lets one job follow another",
    "ulimit": "; Slurm passes the limits of the submitting shell on",
}


# ---------------------------------------------------------------- variables


def read_assignments(
    assignments: Iterable[Assignment], values: Values, draft: Draft, *, used_in: Iterable[str]
) -> list[str]:
    """Read the variables of the script; return the settings that only a task can make."""
    words = " ".join(used_in)
    settings: list[str] = []
    own = [each for each in assignments if not each.of_command]
    for index, each in enumerate(own):
        later = {other.name: other.place.line for other in own[index + 1 :] if other.exported}
        what = f"{'export ' if each.exported else ''}{each.name}={each.value.text if each.value else ''}"
        what = re.sub(r"\s*\\?\n\s*", " ", what)
        what = what if len(what) < 100 else f"{what[:99]}…"
        if each.name in WIRED:
            draft.drop(each.place.line, what, "every rank has it, right for its own place", f"variable {each.name}")
        elif each.exported and each.name in later:
            draft.ask(each.place.line, what, f"line {later[each.name]} sets it again: which holds?")
        elif each.exported:
            settings += _exported(each, what, values, draft)
        elif each.name in values.used or each.name in names_in(words):
            draft.note(each.place.line, what, "", "its value stands where it is used")
        else:
            draft.drop(each.place.line, what, "a variable of the script alone: no rank sees it")
    return settings


def _exported(each: Assignment, what: str, values: Values, draft: Draft) -> list[str]:
    line, value = each.place.line, values.of(each.value.value) if each.value else ""
    if "$(" in value or "`" in value:
        if each.name in values.used:
            draft.note(line, what, "", "its value stands where it is used")
        else:
            draft.ask(line, what, f"the batch host works it out: --env {each.name}=VALUE gives it a fixed value")
        return []
    if each.name in values.used and (re.search(r"\s", value) or value.startswith("-")):
        draft.note(line, what, "", "its words stand where it is used")
        return []
    if value.startswith("("):
        draft.drop(line, what, "an array cannot be exported: no rank sees it")
        return []
    placed = re.sub(r"\$\{?SLURM_JOB_?ID\}?", "{job_id}", value)
    if not names_in(placed):
        draft.keep(line, what, "env", f"{each.name}={placed}", "a variable of the ranks")
        return []
    if names_in(value) == (each.name,) and value in {f"${each.name}", f"${{{each.name}}}"}:
        draft.keep(line, what, "env", each.name, "yours is passed on")
        return []
    unknown = [name for name in names_in(value) if name not in TASKS and not name.startswith("SLURM_")]
    if unknown:
        why = f"{', '.join(unknown)} is set outside the script: is it known where the ranks run?"
        draft.ask(line, what, why, "in the command", field=f"setting {each.name}")
    else:
        draft.note(
            line, what, "in the command", "only the task knows its value: it is set there", f"setting {each.name}"
        )
    return [f'export {each.name}="{value}"']


def text_of(command: Command) -> str:
    """Return a command as it is written, in one line."""
    words = [*(f"{each.name}={each.value.text if each.value else ''}" for each in command.assignments)]
    text = " ".join([*words, *(word.text for word in command.words)])
    text = re.sub(r"\s*\\?\n\s*", " ", text)
    return text if len(text) < 100 else f"{text[:99]}…"
