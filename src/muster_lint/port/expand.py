"""The words of a command as the shell would make them, as far as the script itself says their values. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from muster_lint.bash import ShellText, SimpleCommand, Word
from muster_lint.port.values import holds_secret

_EXPANSION = re.compile(r"(?<!\\)\$(?:(\w+)|\{(\w+)(\[[@*]\])?(?::?-([^{}]*))?\})")
_OPEN = re.compile(r"(?<!\\)\$(?:(\w+|[@*#?!])|\{[!#]?(\w+|[@*])[^{}]*\})")
_BACKQUOTED = re.compile(r"(?<!\\)`([^`\\]*)`")
_ESCAPED = re.compile(r"\\([$\"`\\])")
_PIECE = re.compile(r"(?:\$\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|`[^`]*`|\S)+")
_DEEPEST = 8
_GIVEN = re.compile(r"(?:^|[\s;])(?:for +(\w+)|read(?: +-\w+)*((?: +\w+)+))")

WIRED = frozenset(
    """
    MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK GROUP_WORLD_SIZE
    OMP_NUM_THREADS RDZV_ENDPOINT RDZV_HOST RDZV_PORT RDZV_ID JAX_COORDINATOR_ADDRESS
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
"""What every rank of Muster's finds in its environment, or what the plan works out: the script's own value is void."""

TASKS = (
    frozenset(
        "USER HOME HOSTNAME PWD PATH LD_LIBRARY_PATH PYTHONPATH TMPDIR LOGNAME SHELL UID CPATH LIBRARY_PATH".split()  # noqa: SIM905
    )
    | WIRED
)
"""What every task knows, wherever it runs."""


class Values(msgspec.Struct, frozen=True):
    """What the variables of a script hold, where it is certain."""

    texts: Mapping[str, str]
    used: set[str]
    """The variables whose values were put in the place of their names."""

    assigned: frozenset[str] = frozenset()
    """The variables that the script gives a value of any kind."""

    def of(self, text: str, depth: int = 0) -> str:
        """Return a text with the known variables' values in their places."""
        if depth > _DEEPEST:
            return text
        return _EXPANSION.sub(lambda match: self._value(match, depth), text)

    def _value(self, match: re.Match[str], depth: int) -> str:
        name = match[1] or match[2]
        if name in self.texts:
            self.used.add(name)
            return self.of(self.texts[name], depth + 1)
        if match[4] is not None and not match[0].startswith("${SLURM_"):
            return self.of(match[4], depth + 1)
        return match[0]


def values_of(shell: ShellText) -> Values:
    """Return the variables that a script gives one value, and no other place does."""
    texts: dict[str, str] = {}
    for assignment in shell.assignments:
        word = shell.value_of(assignment.name)
        if word is None or assignment.of_command or assignment.name in {*WIRED, *names_in(word.value)}:
            continue
        if not holds_secret(assignment.name, word.value):
            texts[assignment.name] = _text_of(word)
    given = (name for match in _GIVEN.finditer(shell.text) for name in (match[1] or match[2]).split())
    return Values(texts, set(), frozenset({*(assignment.name for assignment in shell.assignments), *given}))


def _text_of(word: Word) -> str:
    text = word.value if word.quoted == "'" else _BACKQUOTED.sub(r"$(\1)", word.value)
    if word.text.startswith("("):  # an array: its words
        text = re.sub(r"(^|\s)#[^\n]*", " ", word.text[1:-1]).replace('"', "").replace("'", "")
    return re.sub(r"\\?\n", " ", text) if word.quoted != "'" else text


def expanded(command: SimpleCommand, values: Values) -> tuple[Word, ...]:
    """Return the words of a command with the known values in them, split where the shell would split."""
    return tuple(part for word in command.words for part in _parts(word, values))


def _parts(word: Word, values: Values) -> Iterator[Word]:
    if word.quoted == "'" or not (word.names or word.substitutions or "\\" in word.value):
        yield word
        return
    text = values.of(_BACKQUOTED.sub(r"$(\1)", word.value))
    whole = "[@]" in word.text and word.quoted == '"'
    splits = whole or not (word.quoted or '"' in word.text)
    for piece in _PIECE.findall(text) if splits else [text]:
        yield _word(_ESCAPED.sub(r"\1", piece.replace("\\\n", " ")) if '"' in word.text else piece, word)


def _word(text: str, word: Word) -> Word:
    names = names_in(text)
    substitutions = word.substitutions if "$(" in text or "`" in text else ()
    return msgspec.structs.replace(word, text=text, value=text, names=names, substitutions=substitutions, quoted="")


def names_in(text: str) -> tuple[str, ...]:
    """Return the variables that a shell would still expand in a text; an argument of the script by its number or @."""
    return tuple(match[1] or match[2] for match in _OPEN.finditer(text))
