"""The lines between the header and the launch → options of Muster: modules, environments, folders. Pure.

A command that Muster has no place for is asked about; none is lost.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from muster_lint.bash import SimpleCommand
from muster_lint.port.assignments import APART, SHOWS, exports_all
from muster_lint.port.expand import expanded
from muster_lint.port.guards import is_guarded
from muster_lint.port.step import Chain
from muster_lint.port.values import Draft, Fate, ask_all, option_words
from muster_lint.values import TextSpan


def read_commands(
    chains: Sequence[Chain], launch: Chain | None, draft: Draft, lines: list[str], apart: Sequence[TextSpan] = ()
) -> None:
    """Read every command of the batch host but the launch; what stands apart, in parentheses without it, ends there."""
    if launch is not None:
        _say_piped_in(chains, launch, draft)
    function_names = {chain.command.function for chain in chains if chain.command.function}
    is_after = False
    for chain in chains:
        command = chain.command
        if chain is launch:
            is_after = True
        elif command.in_substitution or command.function:
            if command.function:
                reason = f"a line of the function {command.function}, not of the job"
                draft.drop(command.place.line, text_of(command), reason)
        elif command.program in _OF_ONE_SHELL and any(command.place.is_within(span) for span in apart):
            draft.drop(command.place.line, text_of(command), APART)
        elif command.program in function_names:
            draft.leave(command.place.line, text_of(command), "a function of the script: the job calls none")
        elif is_after and command.program == "tee" and launch is not None and launch.command.pipes_on:
            draft.drop(command.place.line, text_of(command), _LOGS)
        elif launch is not None and (chain.weight >= 4 or (chain.stage("step") and not chain.is_chore)):
            reason = f"Muster's job has the launch of line {launch.command.place.line} alone: this is a job of its own"
            draft.leave(command.place.line, text_of(command), reason)
        elif chain.stage("step") and chain.is_chore and not is_after:
            _chore(chain, draft)
        else:
            done = len(draft.rows)
            _read(chain, draft, lines, is_after=is_after)
            if is_guarded(lines, command.place):
                ask_all(draft, draft.rows[done:], "in the script it runs only behind a test")


_OF_ONE_SHELL = frozenset("module ml source . conda mamba micromamba cd pushd popd unset deactivate".split())  # noqa: SIM905


def _say_piped_in(chains: Sequence[Chain], launch: Chain, draft: Draft) -> None:
    """Say that what another command pipes into the launch does not reach the ranks."""
    place = launch.command.place
    for chain in chains:
        command = chain.command
        is_before = command.pipes_on and command.order < launch.command.order and not command.in_substitution
        if is_before and command.place.end_line == place.line and not launch.command.in_substitution:
            reason = "its output is the input of the ranks, and the job gives them none"
            draft.leave(command.place.line, f"{text_of(command)} | …", reason)


def _read(chain: Chain, draft: Draft, lines: list[str], *, is_after: bool) -> None:
    command = chain.command
    words = [word.value for word in expanded(command, chain.values)[1:]]
    reader = _COMMANDS.get(command.program)
    if command.writes:
        _writes(command, draft)
    elif is_after and reader is not None and command.program not in {"mkdir", "eval"}:
        draft.drop(command.place.line, text_of(command), "it stands behind the launch: the ranks know nothing of it")
    elif reader is not None:
        reader(command.place.line, text_of(command), words, draft)
    elif command.program == "printf" and words[:1] == ["-v"]:
        draft.ask(command.place.line, text_of(command), "the batch host works the variable out: write its value")
    elif _only_shows(command, words):
        draft.drop(command.place.line, text_of(command), "shows something, and changes nothing")
    elif command.program in {"exit", "return"} and not (is_after or is_guarded(lines, command.place)):
        draft.ask(command.place.line, text_of(command), "the script ends here: does it always?")
    elif command.program in _CONTROL:
        draft.drop(command.place.line, text_of(command), _CONTROL[command.program])
    else:
        moment = "after the ranks" if is_after else "before the ranks"
        reason = f"Muster's job runs nothing {moment} on the batch host: do it by hand, or inside the command"
        draft.leave(command.place.line, text_of(command), f"{reason}{_BETTER.get(command.program, '')}")


def _only_shows(command: SimpleCommand, words: list[str]) -> bool:
    """Tell whether a command prints something, and does nothing else."""
    if command.program in SHOWS:
        return command.program != "command" or words[:1] in (["-v"], ["-V"])
    text = " ".join(word.value for word in command.words[1:])
    does = re.search(r"open\(|write|save|mkdir|system|subprocess|download|dump|touch", text)
    is_python = re.match(r"python[\d.]*$", command.program) is not None
    return is_python and re.match(r"(-V|--version)\b|-c\b", text) is not None and does is None


def _writes(command: SimpleCommand, draft: Draft) -> None:
    """Say that a file which the script writes is not there when the ranks of the job look for it."""
    reason = f"it writes {', '.join(command.writes)}, and the job writes no file before its ranks: write it by hand"
    draft.leave(command.place.line, text_of(command), reason)


_LOGS = "the lines of the ranks are in the run directory: muster logs"


def _chore(chain: Chain, draft: Draft) -> None:
    """Read a step before the ranks that prepares or looks."""
    line, words = chain.command.place.line, [chain.stages[-1].word.value, *(w.value for w in chain.stages[-1].words)]
    if chain.command.writes:
        _writes(chain.command, draft)
    elif chain.stages[-1].name in SHOWS:
        draft.drop(line, text_of(chain.command), "shows something, and changes nothing")
    elif chain.stages[-1].kind == "python":
        draft.leave(line, text_of(chain.command), "Muster's job runs no other program before the ranks: do it by hand")
    elif any("$" in word for word in words) or draft.get("node_prologue"):
        draft.ask(
            line, text_of(chain.command), "--node-prologue COMMAND runs one command on every node before its ranks"
        )
    else:
        draft.change(
            line, text_of(chain.command), "node_prologue", shlex.join(words), "once on every node, before its ranks"
        )


# ---------------------------------------------------------------- commands


def _module(line: int, subject: str, words: list[str], draft: Draft) -> None:
    words = [word for word in words if word not in {"--force", "-f", "-q", "--quiet", "-s", "--silent"}]
    # `ml` without a verb loads, and alone lists; `module` always has one.
    words = words or ["list"]
    is_verb = words[0] in _MODULE_VERBS or not subject.startswith("ml")
    verb, names = (words[0], words[1:]) if is_verb else ("load", words)
    names = [name for name in names if not name.startswith("-") or name == "-"]
    if verb in {"purge", "reset"}:
        if draft.values.get("module") or draft.values.get("module_use"):
            draft.ask(line, subject, "the modules that stand above it are unloaded again: which does the job need?")
        else:
            draft.note(line, subject, "", "the modules of the submitting shell are unloaded")
    elif verb in {"load", "add", "try-load"}:
        for name in names:
            _load(line, subject, name, draft)
    elif verb == "use":
        for name in names:
            if "$" in name:
                draft.ask(line, subject, f"the directory is not in the script: {name}")
            else:
                draft.keep(line, subject, "module_use", name, "a directory with more modules")
    elif verb in {"list", "avail", "spider", "show", "is-loaded", "whatis"}:
        draft.drop(line, subject, "shows something, and changes nothing")
    else:
        draft.ask(line, subject, "Muster loads modules, and does nothing else with them: --module NAME")


def _load(line: int, subject: str, name: str, draft: Draft) -> None:
    if "$" in name:
        draft.ask(line, subject, f"the name of the module is not in the script: {name}")
    elif name.startswith("-"):
        draft.ask(line, subject, f"a module is unloaded: {name}")
    else:
        draft.keep(line, subject, "module", name, "")


_MODULE_VERBS = frozenset(
    "load add try-load purge reset use unload rm swap switch list avail spider show is-loaded whatis restore".split()  # noqa: SIM905
)


def _with_tilde(word: str) -> str:
    return re.sub(r"^\$(HOME\b|\{HOME\})", "~", word)


def _source(line: int, subject: str, words: list[str], draft: Draft) -> None:
    words = [_with_tilde(word) for word in words]
    path = words[0] if words else ""
    if path.endswith("/bin/activate"):
        folder = path.removesuffix("/bin/activate")
        if "$" in path or re.match("~[^/]", path):
            draft.ask(line, subject, "the folder of the environment is not in the script: --venv DIR")
        elif len(words) > 1:  # conda's own: source /opt/conda/bin/activate NAME
            draft.keep(line, subject, "conda", words[1], "a conda environment")
        else:
            draft.keep(line, subject, "venv", folder, "a virtual environment")
    elif path == "activate" and len(words) > 1:
        draft.keep(line, subject, "conda", words[1], "a conda environment")
    elif re.search(r"(^|/)(conda|mamba)\.sh$", path):
        draft.drop(line, subject, "--conda does what conda's own function does")
    elif re.search(r"^/etc/(profile|bash)|/lmod/|/init/bash$", path):
        draft.drop(line, subject, "what it is read for, the command `module`, is there in Muster's script")
    elif re.search(r"\.bashrc$|\.bash_profile$|\.profile$", path):
        draft.ask(
            line, subject, "the ranks do not read it: what of it do they need? --env, --module or --conda says it"
        )
    else:
        draft.ask(line, subject, "a file of yours: what it sets, --env, --module or --venv can say")


def _conda(line: int, subject: str, words: list[str], draft: Draft) -> None:
    names = [_with_tilde(word) for word in words[1:] if not word.startswith("-")]
    if words[:1] == ["activate"] and names and "$" not in names[0]:
        draft.keep(line, subject, "conda", names[0], "a conda environment")
    elif words[:1] == ["deactivate"]:
        _deactivate(line, subject, words, draft)
    elif words[:1] in (["info"], ["list"]) or words[:2] == ["env", "list"]:
        draft.drop(line, subject, "shows something, and changes nothing")
    elif words[:1] in ([], ["activate"]):
        draft.ask(line, subject, "the environment is not in the script: --conda ENV")
    else:
        draft.leave(line, subject, f"Muster's job makes no environment{_BETTER['pip']}")


def _cd(line: int, subject: str, words: list[str], draft: Draft) -> None:
    path = _with_tilde(words[0]) if words else ""
    before = draft.get("chdir")
    if path in {"-", "--"} or (subject.startswith("pushd") and not path):
        draft.ask(line, subject, "which folder it goes to is not in the script: --chdir DIR")
    elif re.fullmatch(r"\$\{?SLURM_SUBMIT_DIR\}?|\$\{?PWD\}?|\.", path):
        if before is not None and "SUBMIT" in path:
            draft.ask(line, subject, f"it goes back to where the job was submitted, from {before}: --chdir DIR")
        else:
            draft.drop(line, subject, "Muster's ranks work where the job was submitted")
    elif not path or "$" in path or "`" in path or re.match("~[^/]", path):
        draft.ask(line, subject, "the folder is not in the script: --chdir DIR")
    elif before is not None and not path.startswith(("/", "~")):
        draft.keep(line, subject, "chdir", posixpath.normpath(posixpath.join(before, path)), "below the folder above")
    else:
        draft.keep(line, subject, "chdir", path, "the working directory of the ranks")


def settle_folder(draft: Draft, of_step: list[str]) -> None:
    """Give the ranks the folder that counts: that of their step or image, else that of the last line that sets one."""
    if of_step:
        draft.values["chdir"] = of_step
    now = shlex.join(option_words("chdir", draft.values.get("chdir", [])))
    rows = [row for row in draft.rows if row.field == "chdir" and row.now]
    last = next((row for row in reversed(rows) if row.now == now), None)
    for row in rows:
        if last is not None and row.now != now and row.verdict in {Fate.KEPT, Fate.CHANGED}:
            draft.replace(
                row, Fate.DROPPED, "", f"line {last.line} sets another folder, in which the ranks work: {now}"
            )
    for field in ("output", "error"):
        log = draft.get(field)
        if last is not None and not last.what.startswith("#SBATCH") and log is not None and not log.startswith("/"):
            draft.revise(field, Fate.CHANGED, log, f"it lies below {now}, no more where the script was submitted")


def _popd(line: int, subject: str, words: list[str], draft: Draft) -> None:
    del words
    if draft.get("chdir") is None:
        draft.drop(line, subject, "the job has one working directory")
    else:
        draft.ask(line, subject, f"it leaves {draft.get('chdir')}: where do the ranks work? --chdir DIR")


def _trap(line: int, subject: str, words: list[str], draft: Draft) -> None:
    action = words[0] if words else ""
    if action in {"", "-", ":", "true"} or re.fullmatch(r"\s*(kill|exit|wait|scancel)\b[^;&|]*", action):
        draft.drop(line, subject, "Muster's script passes signals on to the ranks")
    else:
        reason = "Muster's script passes signals on to the ranks, and runs nothing else: what the trap does is yours"
        draft.leave(line, subject, reason)


def _deactivate(line: int, subject: str, words: list[str], draft: Draft) -> None:
    del words
    if draft.get("venv") or draft.get("conda"):
        draft.ask(line, subject, "the environment above it is left again: which does the job need?")
    else:
        draft.drop(line, subject, "only what the plan names is active in the job")


def _unset(line: int, subject: str, words: list[str], draft: Draft) -> None:
    for name in words:
        if name.isidentifier():
            draft.keep(line, subject, "unset_env", name)
        elif name != "-v":
            draft.ask(line, subject, f"{name} is not the name of a variable")


def _mkdir(line: int, subject: str, words: list[str], draft: Draft) -> None:
    del words
    draft.leave(line, subject, "Muster makes the folder of its logs; make others by hand, once, before you submit")


def _set(line: int, subject: str, words: list[str], draft: Draft) -> None:
    if re.search(r"(^| )([-+]\w*[fBkn]|[-+]\w*o (noglob|braceexpand|keyword|noexec))", " ".join(words)):
        draft.ask(line, subject, _MAKES_WORDS)
    elif exports_all(words) is not None:
        draft.drop(line, subject, "the variables that it exports have rows of their own")
    else:
        draft.drop(line, subject, "Muster's script ends with a sentence where one of its steps fails")


def _shopt(line: int, subject: str, words: list[str], draft: Draft) -> None:
    if {*words} & {"dotglob", "extglob", "failglob", "globstar", "nocaseglob", "nullglob", "lastpipe"}:
        draft.ask(line, subject, _MAKES_WORDS)
    else:
        draft.drop(line, subject, "Muster's script sets what it needs itself")


_MAKES_WORDS = "it changes what bash makes of words and of names of files: are those of the command right?"


def _eval(line: int, subject: str, words: list[str], draft: Draft) -> None:
    if "conda" in subject or "mamba" in subject:
        draft.drop(line, subject, "--conda does what conda's own function does")
    else:
        draft.ask(line, subject, f"it runs what another command prints: {' '.join(words)}")


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
    "shopt": _shopt,
    "eval": _eval,
    "popd": _popd,
    "trap": _trap,
    "deactivate": _deactivate,
}
_CONTROL = {
    "wait": "Muster's script waits for its step",
    "exit": "the job ends as its ranks end",
    "return": "the job ends as its ranks end",
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


def text_of(command: SimpleCommand) -> str:
    """Return a command as it is written, in one line."""
    words = [f"{each.name}={each.value.text if each.value else ''}" for each in command.assignments]
    text = " ".join([*words, *(word.text for word in command.words)])
    text = re.sub(r"\s*\\?\n\s*", " ", text)
    return text if len(text) < 100 else f"{text[:99]}…"
