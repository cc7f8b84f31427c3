"""muster completion: what a shell reads so that TAB knows every verb, its options and their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from muster.cli.command_line import CommandLine, Words
from muster.cli.verbs import VERBS, command_of
from muster.errors import RequestError, UnknownName
from muster.job.option import Option, option
from muster.parts import service


class Candidate(NamedTuple):
    """A word that may stand where the cursor is, and what it means."""

    word: str
    help: str = ""


# Each asks Muster itself for the words: nothing in them has to be kept equal to the verbs. An answer without a word
# leaves the place to the names of files.
_SCRIPTS = {
    "bash": """\
_muster() {
    local IFS=$'\\n'
    COMPREPLY=($("${COMP_WORDS[0]}" completion --for bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)) ||
        COMPREPLY=()
    [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace
}
complete -o default -F _muster muster
""",
    "zsh": """\
#compdef muster
_muster() {
    local -a found
    found=("${(@f)$("${words[1]}" completion --for zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n ${found[1]} ]]; then
        _describe muster found
    else
        _files
    fi
}
if [[ ${funcstack[1]-} == _muster ]]; then
    _muster "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
    compdef _muster muster
fi
""",
    "fish": """\
function __muster_complete
    set -l typed (commandline -opc)
    set -l found ($typed[1] completion --for fish -- $typed[2..] (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c muster -f -a '(__muster_complete)'
""",
}


def main(words: Words) -> int:
    """Print the completion of one shell, or the words that may stand at its cursor."""
    shell = getattr(words, "for")
    if shell is not None:
        for candidate in _answer(shell, list(words.operands)):
            print(candidate)
        return 0
    if not words.operands:
        raise RequestError("muster completion needs a shell's name", hint="muster completion bash, zsh or fish")
    if words.operands[0] not in _SCRIPTS:
        raise UnknownName("shell", words.operands[0], tuple(_SCRIPTS))
    if len(words.operands) > 1:
        raise RequestError(
            "muster completion prints the text of one shell", hint=f"muster completion {words.operands[0]}"
        )
    print(_SCRIPTS[words.operands[0]], end="")
    return 0


def _answer(shell: str, typed_words: list[str]) -> Iterator[str]:
    """Yield the candidates in the form that the shell reads."""
    cut = ""
    if shell == "bash":
        typed_words, cut = _joined(typed_words)
    for word, text in candidates(typed_words[:-1], typed_words[-1] if typed_words else ""):
        if shell == "bash":
            yield word.removeprefix(cut)
        elif shell == "zsh":
            yield f"{word.replace(':', chr(92) + ':')}:{text}"
        else:
            yield f"{word}\t{text}"


def _joined(typed_words: Sequence[str]) -> tuple[list[str], str]:
    """Return the words without bash's cuts at each =, and what stands before the cut at the cursor."""
    words: list[str] = []
    cut = ""
    for word in typed_words:
        if word == "=" and words and words[-1].startswith("-"):
            words[-1] += "="
            cut = words[-1]
        elif words and words[-1].endswith("=") and words[-1] == cut:
            words[-1] += word
        else:
            words.append(word)
            cut = ""
    return words, cut


def candidates(earlier_words: Sequence[str], word: str) -> list[Candidate]:
    """Return what may stand in the place of `word`, behind `before`; nothing where a file's name may, or any word."""
    if not earlier_words:
        verbs = [Candidate(verb_row.name, verb_row.help) for verb_row in VERBS]
        return _beginning(word, [*verbs, Candidate("--help", "show all verbs"), Candidate("--version")])
    verb = next((verb_row for verb_row in VERBS if verb_row.name == earlier_words[0]), None)
    if verb is None:
        return []
    command, rest = command_of(verb), earlier_words[1:]
    while command.verbs:
        by_name = {subcommand.name.rpartition(" ")[2]: subcommand for subcommand in command.verbs}
        if not rest:
            pages = [Candidate(name, subverb.summary.strip().partition("\n")[0]) for name, subverb in by_name.items()]
            return _beginning(word, [*pages, Candidate("--help", "show these verbs")])
        if rest[0] not in by_name:
            return []
        command, rest = by_name[rest[0]], rest[1:]
    return _beginning(word, _of_command(command, rest, word))


def _beginning(word: str, matches: Iterable[Candidate]) -> list[Candidate]:
    return [candidate for candidate in matches if candidate.word.startswith(word)]


def _of_command(command: CommandLine, earlier_words: Sequence[str], word: str) -> Iterable[Candidate]:
    options = {**command.launch_options, **command.own}
    by_flag = {flag: option for option in options.values() for flag in option.flags if option.group != "hidden"}
    operands, waiting, typed_flags = _walk(earlier_words, by_flag)
    if waiting is not None:
        return _values(waiting)
    if "--" in typed_flags or (command.runs and operands):
        return ()
    flag, equals, _ = word.partition("=")
    if equals and flag in by_flag:
        return [Candidate(f"{flag}={value}", text) for value, text in _values(by_flag[flag])]
    if word.startswith("-") or (not word and not command.operands):
        return _flags(by_flag, typed_flags)
    return () if command.runs else _operands(command, operands)


def _walk(earlier_words: Sequence[str], by_flag: Mapping[str, Option]) -> tuple[list[str], Option | None, set[str]]:
    """Return the operands, the option that still waits for its value, and the flags that were typed."""
    operands: list[str] = []
    typed_flags: set[str] = set()
    waiting: Option | None = None
    for earlier_word in earlier_words:
        if waiting is not None:
            waiting = None
        elif earlier_word.startswith("-") and earlier_word != "-":
            flag, equals, _ = earlier_word.partition("=")
            typed_flags.add(flag)
            option = by_flag.get(flag)
            waiting = option if option is not None and not option.is_switch and not equals else None
        else:
            operands.append(earlier_word)
    return operands, waiting, typed_flags


def _flags(by_flag: Mapping[str, Option], typed_flags: set[str]) -> list[Candidate]:
    """Return the long spelling of every option that may still be given."""
    options_left = {
        option.flags: option for option in by_flag.values() if option.repeated or not typed_flags & set(option.flags)
    }
    longs = [(next(flag for flag in option.flags if flag.startswith("--")), option) for option in options_left.values()]
    return [Candidate(flag, option.help) for flag, option in longs]


def _operands(command: CommandLine, earlier_words: Sequence[str]) -> Iterable[Candidate]:
    if command.choices is not None and not earlier_words:
        return [Candidate(choice) for choice in command.choices]
    if command.most is not None and len(earlier_words) >= command.most:
        return ()
    kind = command.operands.strip("[]…")
    if earlier_words and kind == "SHELL":  # what stands behind the shell is for the shell's own question
        return ()
    return _KINDS[kind]() if kind in _KINDS else ()


def _values(option: Option) -> Iterable[Candidate]:
    if option.choices is not None:
        return [Candidate(choice) for choice in option.choices]
    return _KINDS[option.metavar]() if option.metavar and option.metavar in _KINDS else ()


def _sites() -> Iterator[Candidate]:
    from muster.look.probe import look
    from muster.sites.heads import SearchPath, heads

    for head in heads(SearchPath.of(look())):
        yield Candidate(head.name, head.title)


def _jobs() -> Iterator[Candidate]:
    """Yield the user's jobs that Slurm knows; a controller that does not answer at once is not waited for."""
    from muster.cli.asked_jobs import scheduler

    for job in replace(scheduler(), timeout_s=_PATIENCE_S).mine().jobs:
        yield Candidate(job.shown_id, f"{job.name}, {job.state.name}")


def _labs() -> Iterator[Candidate]:
    for name in service("labs")(os.environ):
        yield Candidate(name, "a lab that is up")


def _pages() -> Iterator[Candidate]:
    from muster.cli.docs import documents_folder, find_pages

    for page in find_pages(documents_folder()):
        yield Candidate(page.name, page.title)


_PATIENCE_S = 2.0
_KINDS: Mapping[str, Callable[[], Iterable[Candidate]]] = {
    "SITE": _sites,
    "JOB": _jobs,
    "LAB": _labs,
    "PAGE": _pages,
    "SHELL": lambda: (Candidate(script) for script in _SCRIPTS),
}

COMMAND = CommandLine(
    name="completion",
    start=main,
    summary="""\
Print what your shell reads so that TAB knows the verbs, their options and values: sites, launchers, job ids.

  bash, in ~/.bashrc:  source <(muster completion bash)
  zsh, in ~/.zshrc:    source <(muster completion zsh)
  fish:                muster completion fish > ~/.config/fish/completions/muster.fish""",
    operands="SHELL",
    most=None,
    options=(option("--for SHELL", "the words at the cursor", choices=tuple(_SCRIPTS), group="hidden"),),
)
