"""The words of a command as the shell would make them, as far as the script itself says their values. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from muster_lint.bash import Assignment, ShellText, SimpleCommand, Word, read_shell
from muster_lint.port.values import holds_secret

_EXPANSION = re.compile(r"(?<!\\)\$(?:(\w+)|\{(\w+)(\[[@*]\])?(?::?-([^{}]*))?\})")
_ALL_OF = re.compile(r"\$\{(\w+)\[@\]\}")
_OPEN = re.compile(r"(?<!\\)\$(?:(\w+|[@*#?!$])|\{[!#]?(\w+|[@*]))")
_BACKQUOTED = re.compile(r"(?<!\\)`([^`\\]*)`")
_ESCAPED = re.compile(r"\\([\"\\])")
_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|\$\{[^}]*\}|\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`|\$[*?@#!$-]""")
_MADE_BY_SHELL = re.compile(r"[*?]|\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}|\$'|\$\[|[<>]\(")
_NESTED = r"[^()]"
for _ in range(5):  # how deep parentheses stand in each other in $(…)
    _NESTED = rf"(?:[^()]|\({_NESTED}*\))"
_PIECE = re.compile(rf"(?:\$\({_NESTED}*\)|`[^`]*`|\S)+")
_DEEPEST = 8

WIRED = frozenset(
    """
    MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK GROUP_WORLD_SIZE
    OMP_NUM_THREADS RDZV_ENDPOINT RDZV_HOST RDZV_PORT RDZV_ID JAX_COORDINATOR_ADDRESS
    """.split()  # noqa: SIM905  # a page of names, not of quotes
)
"""What every rank of Muster's finds in its environment, or what the plan works out: the script's own value is void."""

OF_ARRAY = "it is a number of the array, and in the job one of the ranks: have the program read SLURM_ARRAY_TASK_ID"
"""What is asked of a variable of the ranks that a script gives the number of an array's task."""

TASKS = (
    frozenset(
        "USER HOME HOSTNAME PWD PATH LD_LIBRARY_PATH PYTHONPATH TMPDIR LOGNAME SHELL UID CPATH LIBRARY_PATH".split()  # noqa: SIM905
    )
    | WIRED
)
"""What every task knows, wherever it runs."""


class ShellSource(str):
    """A word as it stands in a script: the shell of the task makes something of it, a file name or several words."""

    __slots__ = ()


class Values(msgspec.Struct, frozen=True):
    """What the variables of a script hold, where it is certain."""

    texts: Mapping[str, str]
    used: set[str]
    """The variables whose values were put in the place of their names."""

    assigned: frozenset[str] = frozenset()
    """The variables that the script gives a value of any kind."""

    arrays: Mapping[str, tuple[Word, ...]] = {}
    """The words of each array that is given once."""

    defaults: dict[str, str] = {}
    """The variables that nothing in the script sets, and the defaults that were put in their places."""

    wrappers: Mapping[str, bool] = {}
    """The functions that run the command which they are given; True: as `eval` does."""

    def of(self, text: str, depth: int = 0) -> str:
        """Return a text with the known variables' values in their places."""
        if depth > _DEEPEST:
            return text
        return _EXPANSION.sub(lambda match: _ended(self._value(match, depth), text[match.end() :][:1]), text)

    def _value(self, match: re.Match[str], depth: int) -> str:
        name = match[1] or match[2]
        if name in self.texts:
            self.used.add(name)
            elements = self.arrays.get(name, ())
            is_first = bool(elements) and match[3] is None  # $A of an array is its first element
            return self.of(_text_of(elements[0]) if is_first else self.texts[name], depth + 1)
        default = match[4]
        if default is None or name.startswith("SLURM_") or name.isdigit() or name in self.assigned or "'" in default:
            return match[0]
        default = default.replace('"', "")
        if name not in WIRED:
            self.defaults[name] = default
        return self.of(default, depth + 1)


def _ended(text: str, following: str) -> str:
    """Return a text that another one follows: a name at its end gets braces where a letter follows."""
    return re.sub(r"(?<!\\)\$(\w+)$", r"${\1}", text) if re.match(r"\w", following) else text


def values_of(shell: ShellText) -> Values:
    """Return the variables that a script gives one value, and no other place does."""
    texts: dict[str, str] = {}
    arrays: dict[str, tuple[Word, ...]] = {}
    unsure = {*WIRED, *_changed_elsewhere(shell)}
    for assignment in shell.assignments:
        word = shell.value_of(assignment.name)
        if word is None or assignment.name in unsure or "$'" in word.text or _may_be_older(assignment, word, shell):
            continue
        if not holds_secret(assignment.name, word.value):
            texts[assignment.name] = _text_of(word)
            if word.text.startswith("("):
                arrays[assignment.name] = _elements_of(word)
    values = Values(texts, set(), frozenset(each.name for each in shell.assignments), arrays, {}, shell.wrappers)
    for match in _MADE_NAMES.finditer(shell.text):
        written = () if match[1] == "eval" else _SET.findall(match[2])
        for name in {*_SET.findall(values.of(match[2]).replace('"', " ").replace("'", " "))} - {*written}:
            texts.pop(name, None)
    return values


def _changed_elsewhere(shell: ShellText) -> Iterator[str]:
    """Yield the variables that get another value, or none, than an assignment says."""
    yield from (each.name for each in shell.assignments if each.appends or (each.value and "([" in each.value.text))
    yield from (
        re.sub(r"\[.*", "", word.value)
        for command in shell.commands
        if command.program == "unset"
        for word in command.words[1:]
    )
    yield from (each.name for each in shell.assignments if any(map(each.place.is_within, shell.unnamed_bodies)))
    if shell.errors:  # an assignment may stand in what cannot be read
        written = Counter(name for line in shell.text.splitlines() for name in _BARE.findall(line.partition(" #")[0]))
        yield from (name for name, count in written.items() if count > len(shell.assigned(name)))


def _may_be_older(assignment: Assignment, value: Word, shell: ShellText) -> bool:
    """Tell whether the value of an assignment holds a variable that is set once more behind it."""
    return any(
        each.order >= assignment.order and not each.of_command
        for name in names_in(value.value)
        for each in shell.assigned(name)
    )


_SET = re.compile(r"(?:^|[\s;])(\w+)\+?=")
_BARE = re.compile(r"(?<![\w$/.{-])[A-Za-z_]\w*(?![\w/.-])")
_MADE_NAMES = re.compile(r"(?:^|[\s;&|({])(eval|declare|typeset|local|export|readonly)\s+(.*)")
"""Commands that may set a variable whose name another one holds."""


def _elements_of(word: Word) -> tuple[Word, ...]:
    """Return the words of NAME=(…)."""
    inner = re.sub(r"(^|\s)#[^\n]*", " ", word.text[1:-1]).replace("\\\n", " ").replace("\n", " ")
    commands = read_shell(f": {inner}").commands
    return commands[0].words[1:] if commands else ()


def _text_of(word: Word) -> str:
    """Return the value that an assignment gives a variable; of an array all its words, as "${A[*]}" has them."""
    if word.text.startswith("("):
        return " ".join(map(_text_of, _elements_of(word)))
    text = open_text(word)
    if word.quoted != "'":
        text = _BACKQUOTED.sub(r"$(\1)", text)
    return (text if word.quoted else with_home(text, between=":")).replace("\\\n", "").replace("\n", " ")


def open_text(word: Word) -> str:
    """Return the value of a word with a backslash before each sign that bash does not expand in it."""
    if word.parts:
        return "".join(_closed(part) if quote == "'" else part for quote, part in word.parts)
    if not word.quoted and "\\$" in word.text:
        return re.sub(r"\\([^$`])", r"\1", word.text)
    return _closed(word.value) if word.quoted == "'" else word.value


def _closed(text: str) -> str:
    return re.sub(r"([$`])", r"\\\1", text)


def with_home(text: str, between: str = "") -> str:
    """Return a text that no quotes protect with $HOME where its tilde stands for the home."""
    return re.sub(rf"(^{'|' + between if between else ''})~(?=/|$)", r"\1$HOME", text)


def expanded(command: SimpleCommand, values: Values) -> tuple[Word, ...]:
    """Return the words of a command with the known values in them, split where the shell would split."""
    return tuple(part for word in command.words for part in _parts(word, values))


def users_of(shell: ShellText, values: Values) -> dict[str, set[int]]:
    """Return the lines of the commands and exported assignments in whose words the value of each variable stands."""
    users: dict[str, set[int]] = {}
    texts = [(each.place.line, each.value.value) for each in shell.assignments if each.exported and each.value]
    for line, command in [(each.place.line, each) for each in shell.commands]:
        alone = msgspec.structs.replace(values, used=set(), defaults={})
        expanded(command, alone)
        texts += [(line, each.value.value) for each in command.assignments if each.value]
        for name in alone.used:
            users.setdefault(name, set()).add(line)
    for line, text in texts:
        alone = msgspec.structs.replace(values, used=set(), defaults={})
        alone.of(text)
        for name in alone.used:
            users.setdefault(name, set()).add(line)
    return users


def _parts(word: Word, values: Values, depth: int = 0) -> Iterator[Word]:
    array = re.fullmatch(r"\$\{(\w+)\[[@*]\]\}", word.value)
    if array and array[1] in values.arrays and depth < _DEEPEST and word.quoted != "'":
        parts = [part for element in values.arrays[array[1]] for part in _parts(element, values, depth + 1)]
        yield from _elements(word, parts)
        if word.value.endswith("[@]}") or not _keeps_open(parts):
            values.used.add(array[1])
        return
    if is_made_by_shell(word):
        yield _source(values.of(word.text) if _takes_values(word, values) else word.text, word)
        return
    if word.text.startswith("~"):
        word = msgspec.structs.replace(word, value=with_home(word.value), names=("HOME", *word.names))
    if word.parts:
        yield from _mixed(word, values)
        return
    if not word.quoted:
        word = msgspec.structs.replace(word, value=open_text(word))
    if word.quoted == "'" or not (word.names or word.substitutions or "\\" in word.value):
        yield word
        return
    text = values.of(_BACKQUOTED.sub(r"$(\1)", word.value))
    splits = '"' not in word.text or any(name in values.arrays for name in _ALL_OF.findall(word.text))
    for piece in _PIECE.findall(text) if splits else [text]:
        if splits and re.fullmatch(r"[\w@%+=:,./*?-]*[*?][\w@%+=:,./*?-]*", piece):
            yield _source(piece, word)
        else:
            yield _word(_ESCAPED.sub(r"\1", piece.replace("\\\n", "")) if '"' in word.text else piece, word)


def _mixed(word: Word, values: Values) -> Iterator[Word]:
    """Yield the words that the shell makes of one with quotes inside: what stands in quotes is split nowhere."""
    parts = word.parts
    if word.text.startswith("~/"):
        parts = (("", "$HOME"), ("'", parts[0][1][1:]), *parts[1:])
    fields = [""]
    for quote, part in parts:
        text = _closed(part) if quote == "'" else values.of(_BACKQUOTED.sub(r"$(\1)", part))
        if quote == '"':
            text = _ESCAPED.sub(r"\1", text.replace("\\\n", ""))
        pieces = [text] if quote else _PIECE.findall(text)
        if not quote and text[:1].isspace():
            pieces.insert(0, "")
        if not quote and text[-1:].isspace():
            pieces.append("")
        first, *others = pieces or [""]
        fields[-1] = _ended(fields[-1], first) + first
        fields += others
    yield from (_word(field, word) for field in fields if field)


def _elements(word: Word, parts: list[Word]) -> Iterator[Word]:
    """Yield the words that the shell makes of ${A[@]} or ${A[*]}: split without quotes, one of all for "${A[*]}"."""
    if word.quoted and word.value.endswith("[@]}"):
        yield from parts
    elif _keeps_open(parts):  # one of all would not keep what single quotes keep
        yield from parts if word.value.endswith("[@]}") else [word]
    elif word.quoted:
        yield _word(" ".join(part.value for part in parts), word)
    else:
        yield from (_word(piece, word) for part in parts for piece in part.value.split())


def _keeps_open(parts: list[Word]) -> bool:
    """Tell whether the shell, or a task's, still makes something of one of these words."""
    return any(isinstance(part.value, ShellSource) or re.search(r"[$`]", part.value) for part in parts)


def is_made_by_shell(word: Word) -> bool:
    """Tell whether the shell makes other words of one: by the names of files, by braces, by $'…'."""
    if word.quoted or word.text.startswith("("):
        return False
    return _MADE_BY_SHELL.search(_QUOTED.sub("", re.sub(r"\$'", "*", word.text))) is not None


def _takes_values(word: Word, values: Values) -> bool:
    """Tell whether the shell makes the same of a word with the values in it: braces come before variables in bash."""
    has_braces = re.search(r"\{[^{}]*(,|\.\.)", text := _NAME.sub("$", word.text)) is not None
    plain = re.compile(r"[\w@%+=:./-]*" if has_braces else r"[\w@%+=:./,*? -]*")
    is_plain = all(plain.fullmatch(_NAME.sub("", values.of(f"${{{name}}}"))) for name in word.names)
    return bool(word.names) and is_plain and re.search(r"'|\{[^{}]*\$", text) is None


_NAME = re.compile(r"\$(?:\w+|\{\w+\})")


def _source(text: str, word: Word) -> Word:
    return msgspec.structs.replace(_word(text, word), value=ShellSource(text))


def _word(text: str, word: Word) -> Word:
    names = names_in(text)
    substitutions = word.substitutions if "$(" in text or "`" in text else ()
    return msgspec.structs.replace(
        word, text=text, value=text, names=names, substitutions=substitutions, quoted="", parts=()
    )


def names_in(text: str) -> tuple[str, ...]:
    """Return the variables that a shell would still expand in a text; an argument of the script by its number or @."""
    return tuple(match[1] or match[2] for match in _OPEN.finditer(text))
