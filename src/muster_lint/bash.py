"""Bash text → the commands and assignments in it, with their places. tree-sitter reads; nothing is run or expanded.

What a shell would expand is kept and named: a rule asks which variables a word holds, and where they are expanded.
Long: the values that one walk through the tree makes, and the walk.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING

import msgspec

from muster.errors import MusterError
from muster.words.chain import looked_up
from muster_lint.values import TextSpan

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

    from muster.runner import ProgramResult

_WORDS = frozenset({"word", "string", "raw_string", "ansi_c_string", "concatenation", "simple_expansion", "expansion"})
_MORE_WORDS = frozenset(
    {"number", "command_substitution", "process_substitution", "arithmetic_expansion", "translated_string"}
    | {"brace_expression"}
)
_CONDITIONS = frozenset({"if_statement", "case_statement", "elif_clause", "else_clause"})
_CLAUSES = frozenset({"elif_clause", "else_clause"})
_LOOPS = frozenset({"for_statement", "while_statement", "c_style_for_statement"})


class Word(msgspec.Struct, frozen=True, dict=True):
    """One word of a command."""

    text: str
    """As it is written, with its quotes."""

    value: str
    """Without quotes; what the shell expands stands in it as it is written."""

    names: tuple[str, ...]
    """The variables that are expanded in it."""

    substitutions: tuple[str, ...]
    """The commands whose output stands in it."""

    place: TextSpan
    quoted: str = ""
    """The quotes around the whole word: ' or ", or nothing."""

    from_variable: bool = False
    """The word stands in the value of a variable; its place is that of the variable's use."""

    parts: tuple[tuple[str, str], ...] = ()
    """The parts of a word that quotes divide, each behind its quote: ' where nothing expands."""

    @property
    def is_literal(self) -> bool:
        """Tell whether the shell expands nothing in it."""
        return not self.names and not self.substitutions

    @cached_property
    def program(self) -> str:
        """Return the name of the program that it is, without its folder; empty where that is not known."""
        value = looked_up(self.value)
        return value.rpartition("/")[2] if self.is_literal or value != self.value else ""

    @property
    def lone_name(self) -> str | None:
        """Return the variable that is the whole word: $NAME, ${NAME}, "$NAME"."""
        if len(self.names) == 1 and self.value in _spellings(self.names[0]):
            return self.names[0]
        return None

    def place_of(self, name: str) -> TextSpan:
        """Return where a variable is expanded first in a word of several lines; for another word its place."""
        found = re.search(rf"(?<!\\)\$\{{?{re.escape(name)}(?!\w)\}}?", self.text)
        if found is None or self.place.line == self.place.end_line:
            return self.place
        line_start = self.text.rfind("\n", 0, found.start()) + 1
        line = self.place.line + self.text.count("\n", 0, found.start())
        column = found.start() - line_start + (1 if line_start else self.place.column)
        return TextSpan(line, column, line, column + len(found[0]))

    @property
    def may_be_several(self) -> bool:
        """Tell whether the shell may make several words, or none, of it: an expansion without quotes, or an array."""
        name = self.lone_name or ("@" if self.value in {"$@", "${@}", "$*"} else None)
        return name is not None and (not self.quoted or self.value.endswith(("[@]}", "$@", "{@}")))


class Assignment(msgspec.Struct, frozen=True):
    """NAME=VALUE, of the script or of one command."""

    name: str
    value: Word | None
    place: TextSpan
    order: int
    exported: bool
    of_command: bool = False
    elements: tuple[Word, ...] | None = None
    """The words of NAME=(…); None where the value is not an array."""

    appends: bool = False
    """It is NAME+=…."""

    may_not_run: bool = False
    """It stands in a branch, a loop or a function, or its value is read from somewhere."""


def _spellings(name: str) -> tuple[str, ...]:
    return (f"${name}", f"${{{name}}}", f"${{{name}[@]}}", f"${{{name}[*]}}")


class SimpleCommand(msgspec.Struct, frozen=True, dict=True):
    """One simple command."""

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...]
    place: TextSpan
    order: int
    in_background: bool = False
    pipes_on: bool = False
    """Its output goes into another command."""

    pipe: int = 0
    """Where the pipeline begins that its output goes into: the same for all commands of a group."""

    function: str | None = None
    in_loop: bool = False
    is_conditional: bool = False
    """It stands in an if, after && or ||, or its status is tested."""

    is_tested: bool = False
    """Its status decides what runs next: it is a condition, or stands before && or ||."""

    is_guarded: bool = False
    """It runs or not by the status of the command before && or ||."""

    in_substitution: bool = False
    writes: tuple[str, ...] = ()
    """The files that its output goes to, as they are written; /dev/null and the like are none."""

    reads: bool = False
    """Its standard input is a file or a text of the script."""

    @cached_property
    def program(self) -> str:
        """Return the name of the program, without its folder; empty where the shell expands it to what is not known."""
        return self.words[0].program if self.words else ""

    def option(self, *names: str) -> Word | None:
        """Return the word after one of these options, or of --name=value; None where none stands."""
        for index, word in enumerate(self.words):
            for name in names:
                if word.value == name and index + 1 < len(self.words):
                    return self.words[index + 1]
                if word.value.startswith(f"{name}="):
                    return word
        return None


def with_its_end(value: str, match: re.Match[str]) -> str:
    """Return a value that stands in the place of a match: the name of a variable at its end goes no further."""
    goes_on = re.match(r"\w", match.string[match.end() : match.end() + 1]) is not None
    return re.sub(r"\$(\w+)$", r"${\1}", value) if goes_on else value


class Branch(msgspec.Struct, frozen=True):
    """Commands that run under conditions: the body of an if, a case, a while, or what stands behind a test and &&."""

    place: TextSpan
    conditions: tuple[tuple[str, bool], ...]
    """Each condition as it is written, and how it has to end; an empty one is one that is not known here."""


class AskingLoop(msgspec.Struct, frozen=True):
    """A `while` or an `until`."""

    place: TextSpan
    body: TextSpan
    condition: str
    """As it is written."""

    is_until: bool


class ShellText(msgspec.Struct, frozen=True, dict=True):
    """A script, or the text of `sh -c`."""

    text: str
    commands: tuple[SimpleCommand, ...]
    assignments: tuple[Assignment, ...]
    comments: tuple[tuple[TextSpan, str], ...]
    heredocs: tuple[tuple[TextSpan, str], ...]
    spaced: tuple[tuple[TextSpan, str, str], ...]
    """Declarations with a blank before =: where, the keyword, the name."""

    errors: tuple[TextSpan, ...]
    """The places that the grammar does not take for bash."""

    first_command_line: int | None
    long_texts: tuple[TextSpan, ...] = ()
    """The quoted texts that go over several lines: what looks like a script in them is not this one's."""

    blocks: tuple[tuple[TextSpan, str], ...] = ()
    """The loops and branches that stand in no other, each with its first word."""

    branches: tuple[Branch, ...] = ()
    loops: tuple[AskingLoop, ...] = ()
    """Each while and until."""

    bodies: tuple[tuple[TextSpan, str], ...] = ()
    """The functions, each with its name."""

    subshells: tuple[TextSpan, ...] = ()
    """The commands in ( … ): what they set and where they go ends with them."""

    @property
    def error(self) -> TextSpan | None:
        """The first place that is not bash."""
        return self.errors[0] if self.errors else None

    def runs_at(self, place: TextSpan) -> bool | None:
        """Tell whether what stands at a place runs when the script does; None where a condition or a caller decides."""
        if self.error is not None and self.error <= place:
            return None
        around = [self._holds(each) for each in self.branches if place.is_within(each.place)]
        callers = [self._is_called(name, body) for body, name in self.bodies if place.is_within(body)]
        return False if False in around else None if None in around or None in callers else True

    def _is_called(self, name: str, body: TextSpan) -> bool | None:
        """Tell whether a command that surely runs is a call of this function; None where none is."""
        calls = [each.place for each in self.commands if each.program == name and not each.place.is_within(body)]
        return True if any(self.runs_at(place) for place in calls if place > body) else None

    def _holds(self, branch: Branch) -> bool | None:
        ends = [
            None if (end := self._end_of(text, branch)) is None else end is wanted for text, wanted in branch.conditions
        ]
        return False if False in ends else None if None in ends else True

    def _end_of(self, condition: str, branch: Branch) -> bool | None:
        """Tell how a condition of literal words ends; None where it is another one."""
        text = re.sub(r"\$\{?(\w+)\}?", lambda found: self._literal(found[1], branch) or found[0], condition)
        found = re.fullmatch(r"\[\[?\s+([\"']?)([\w./-]+)\1\s+(==?|!=)\s+([\"']?)([\w./-]+)\4\s+\]\]?", text)
        if found is None:
            return {"true": True, ":": True, "false": False}.get(text)
        return (found[2] == found[5]) is (found[3] != "!=")

    def _literal(self, name: str, branch: Branch) -> str | None:
        """Return the value of a variable that is set once, before a branch, whatever happens."""
        values = [each for each in self.assigned(name) if not each.of_command]
        is_sure = len(values) == 1 and not values[0].may_not_run and values[0].place < branch.place
        return values[0].value.value if is_sure and values[0].value is not None and values[0].value.is_literal else None

    def value_of(self, name: str) -> Word | None:
        """Return the value of a variable that the script assigns exactly once, or each time the same one."""
        values = [each.value for each in self._by_name.get(name, ()) if not each.of_command]
        texts = {each.value if each is not None and each.is_literal else None for each in values}
        return values[0] if len(values) == 1 or (len(texts) == 1 and None not in texts) else None

    def filled(self, text: str) -> str:
        """Return a text with the values of the variables that the script sets once."""

        def value_of(match: re.Match[str]) -> str:
            word = self.value_of(match[1] or match[2])
            return with_its_end(word.value, match) if word is not None and match[0] not in word.value else match[0]

        for _ in range(3):
            text = re.sub(r"\$(?:\{(\w+)\}|(\w+))", value_of, text)
        return text

    def words_of(self, name: str, order: int) -> tuple[Word, ...] | None:
        """Return the words that an unquoted $NAME, or "${NAME[@]}", becomes at this place of the script.

        None where that is not known: nothing assigns it before, or a branch, a loop or a function may do so.
        """
        found: tuple[Word, ...] | None = None
        for each in self._by_name.get(name, ()):
            if each.of_command or each.order > order:
                continue
            words = None if each.may_not_run else _words_of_value(each)
            if words is None or (each.appends and found is None):
                found = None
                if each.may_not_run:
                    return None
                continue
            found = (*(found or ()), *words) if each.appends else words
        return found

    @cached_property
    def _by_name(self) -> dict[str, list[Assignment]]:
        by_name: dict[str, list[Assignment]] = {}
        for each in self.assignments:
            by_name.setdefault(each.name, []).append(each)
        return by_name

    @cached_property
    def wrappers(self) -> Mapping[str, bool]:
        """The functions that run the command which they are given, "$@"; True: as `eval` does."""
        found: dict[str, bool] = {}
        for each in self.commands:
            values = [word.value for word in each.words]
            if each.function is not None and values[-1] in {"$@", "$*"} and values[:-1] in ([], ["eval"]):
                found[each.function] = len(values) == 2
        return found

    @cached_property
    def unnamed_bodies(self) -> tuple[TextSpan, ...]:
        """The functions whose names stand nowhere else: nothing in the script calls them."""
        return tuple(
            body
            for body, name in self.bodies
            if len(re.findall(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", self.text)) < 2
        )

    @cached_property
    def own_names(self) -> tuple[str, ...]:
        """The names that the script sets for itself: not exported, and not before one command alone."""
        return tuple(dict.fromkeys(each.name for each in self.assignments if not (each.exported or each.of_command)))

    def assigned(self, name: str) -> tuple[Assignment, ...]:
        """Return the assignments to a variable, in order."""
        return tuple(self._by_name.get(name, ()))


def _words_of_value(assignment: Assignment) -> tuple[Word, ...] | None:
    """Return the words of an array, or those that the shell splits a text into; None where that is not known."""
    if assignment.elements is not None:
        return assignment.elements
    if assignment.value is None:
        return ()
    body = assignment.value.value.replace("\\\n", " ").replace("\n", " ")
    if not body.strip():
        return ()
    if looked_up(body) != body:
        return (assignment.value,)
    # A quote or an operator in the value is a sign like others when the shell splits it; a person means it as written.
    commands = read_shell(f": {body}").commands
    return commands[0].words[1:] if len(commands) == 1 else None


def ask_bash(text: str, *options: str) -> ProgramResult | None:
    """Return what bash says of a script that it reads and does not run; None: it is not there, or does not answer.

    -p: what the caller's own shell brings, such as the file of BASH_ENV, is not read in front of the script.
    """
    from muster.runner import run

    encoded = text.encode(errors="surrogateescape")
    try:
        return run(["bash", "-p", *options, "-n"], stdin=os.fsdecode(encoded), timeout_s=10)
    except MusterError:
        return None


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


_QUOTED = {"string": '"', "raw_string": "'"}
_QUOTES = {**_QUOTED, "translated_string": '"', "ansi_c_string": "'", "word": "'", "number": "'"}
_NAME = re.compile(r"\$([A-Za-z_]\w*)")


def _ended_parts(parts: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the parts of a word that hold something; in $a'b' the name gets braces."""
    told = [(quote, piece) for quote, piece in parts if piece]
    following = [piece for _, piece in told[1:]] + [""]
    return tuple(
        (quote, _NAME.sub(r"${\1}", piece))
        if quote != "'" and _NAME.fullmatch(piece) and re.match(r"\w", after)
        else (quote, piece)
        for (quote, piece), after in zip(told, following)
    )


_LONE_HEREDOC = re.compile(rb"(?<!\\\n)^[ \t]*(?=<<-?[ \t]*[\\\"']?[A-Za-z_])", re.MULTILINE)
_NAMED = re.compile(rb"\$([A-Za-z_]\w*|\d)")


def _parsed(source: bytes) -> tuple[Node, list[int]]:
    """Return the tree of a text, and where bytes were added to it.

    In ${A}_$B.x the grammar ends the word behind the second dollar (tree-sitter-bash 0.25): the name gets braces. It
    reads no backslash at the end of a text, where bash does: the text gets an empty line. It takes ! (((…)) for shells.
    A here-document without a command, which puts lines to rest, gets one.
    """
    text = source + b"\n\n" if source.rstrip(b"\n").endswith(b"\\") else source
    text = re.sub(rb"!(?=[ \t]+\(\(\()", b" ", text)  # the status of arithmetic with parentheses: not in the grammar
    added = [match.end() + index for index, match in enumerate(_LONE_HEREDOC.finditer(text))]
    text = _LONE_HEREDOC.sub(rb"\g<0>:", text)
    root = _parser().parse(text).root_node
    for match in reversed([*_HEREDOC.finditer(text)]):
        if _is_swallowed(root, match.start("end")):
            text = text[: match.start()] + match[0].translate(_WITHOUT_SIGNS) + text[match.end() :]
            root = _parser().parse(text).root_node
    for _ in range(_MOST_BRACES):
        cut = [match for match in _NAMED.finditer(text) if _ends_a_word(root, match.start())]
        if not cut:
            break
        new = sorted(place for match in cut for place in (match.start() + 1, match.end()))
        kept = [place + bisect_right(new, place) for place in added]
        added = sorted([*kept, *(place + index for index, place in enumerate(new))])
        for match in reversed(cut):
            text = text[: match.start()] + b"${" + match[1] + b"}" + text[match.end() :]
        root = _parser().parse(text).root_node
    return root, added


_HEREDOC = re.compile(rb"<<-?[ \t]*\\?([\"']?)([A-Za-z_]\w*)\1[^\n]*\n.*?^\t*(?P<end>\2)$", re.DOTALL | re.MULTILINE)
_WITHOUT_SIGNS = bytes.maketrans(b"$`", b"__")


def _is_swallowed(root: Node, end: int) -> bool:
    """Tell whether the grammar misses the last word of a here-document: what stands behind it is lost then."""
    node = root.descendant_for_byte_range(end, end + 1)
    while node is not None and node.type != "heredoc_body":
        node = None if node.type == "heredoc_end" else node.parent
    return node is not None


_MOST_BRACES = 5
"""How often a text is read again: one that was cut may hide the next in the same word."""


def _ends_a_word(root: Node, dollar: int) -> bool:
    """Tell whether the grammar takes the dollar at this byte for the end of a word of several pieces."""
    node = root.descendant_for_byte_range(dollar, dollar + 1)
    parent = node.parent if node is not None and node.type == "$" else None
    return parent is not None and parent.type == "concatenation" and parent.end_byte == dollar + 1


def read_shell(text: str, *, line: int = 1, column: int = 1) -> ShellText:
    """Return the commands of a text that begins at this line and column of its file."""
    source = text.encode()
    root, added = _parsed(source)
    end = re.search(r"^exit\b[^\n]*\n", text, re.MULTILINE) if root.has_error else None
    if end is not None and not _parsed(read := text[: end.end()].encode())[0].has_error:
        source, (root, added) = read, _parsed(read)  # bash reads no further
    reader = _BashReader(source, line, column, added)
    reader.walk(root, _Inside())
    shell = ShellText(
        text=text,
        commands=tuple(reader.commands),
        assignments=tuple(reader.assignments),
        comments=tuple(reader.comments),
        heredocs=tuple(reader.heredocs),
        spaced=tuple(reader.spaced),
        errors=tuple(reader.errors(root)),
        first_command_line=min(
            (each.start_point[0] + line for each in root.children if each.type != "comment"), default=None
        ),
        blocks=tuple(reader.blocks),
        long_texts=tuple(reader.long_texts),
        loops=tuple(reader.loops),
        branches=(*reader.branches, *(() if root.has_error else reader.behind_exit(root))),
        bodies=tuple(reader.bodies),
        subshells=tuple(reader.subshells),
    )
    dead = [each.place for each in shell.branches if shell._holds(each) is False]  # noqa: SLF001
    if not dead or root.has_error:
        return shell

    def lives(each: Assignment | SimpleCommand) -> bool:
        return not any(each.place.is_within(place) for place in dead)

    commands, assignments = filter(lives, shell.commands), filter(lives, shell.assignments)
    return msgspec.structs.replace(shell, commands=tuple(commands), assignments=tuple(assignments))


class _Inside(msgspec.Struct, frozen=True):
    """What stands around a node."""

    function: str | None = None
    in_loop: bool = False
    is_conditional: bool = False
    is_guarded: bool = False
    is_tested: bool = False
    in_background: bool = False
    pipes_on: bool = False
    pipe: int = 0
    in_substitution: bool = False
    writes: tuple[str, ...] = ()
    reads: bool = False

    @property
    def may_not_run(self) -> bool:
        """Tell whether a command here may not run, or may run several times."""
        return self.in_loop or self.is_conditional or self.is_guarded or self.function is not None


class _BashReader:
    """Walks the tree once and collects."""

    def __init__(self, source: bytes, line: int, column: int, added: Sequence[int] = ()) -> None:
        self.source = source
        self._added = added
        self._lines = () if source.isascii() else tuple(source.split(b"\n"))  # once: a word may ask for its place
        self._line, self._column = line, column
        self.commands: list[SimpleCommand] = []
        self.assignments: list[Assignment] = []
        self.comments: list[tuple[TextSpan, str]] = []
        self.heredocs: list[tuple[TextSpan, str]] = []
        self.spaced: list[tuple[TextSpan, str, str]] = []
        self.blocks: list[tuple[TextSpan, str]] = []
        self.long_texts: list[TextSpan] = []
        self.branches: list[Branch] = []
        self.loops: list[AskingLoop] = []
        self.bodies: list[tuple[TextSpan, str]] = []
        self.subshells: list[TextSpan] = []
        self._order = 0

    def walk(self, node: Node, inside: _Inside) -> None:
        """Collect what is in a node, in the order of the text."""
        reader = _HANDLERS.get(node.type)
        if reader is not None:
            reader(self, node, inside)
            return
        if node.type == "list":
            self._walk_list(node, inside)
            return
        if node.type == "subshell":
            self.subshells.append(self._place(node))
        if node.children and node.children[0].type == "((":
            self._change([self._word(node)], _IN_ARITHMETIC)
        elif node.type == "c_style_for_statement":
            self._change([self._word(child) for child in node.named_children[:-1]], _IN_ARITHMETIC)
        if node.type in (_LOOPS | _CONDITIONS) and not (inside.in_loop or inside.is_conditional):
            self.blocks.append((self._place(node), self._text(node.children[0])))
        self._note_branches(node)
        self.walk_children(node, _within(node, inside))

    def behind_exit(self, root: Node) -> Iterator[Branch]:
        """Yield what stands behind an exit that no condition guards: it never runs."""
        for index, each in enumerate(root.children):
            is_last = [child.type for child in root.children[index + 1 : index + 2]] != ["&"]
            if each.type == "command" and is_last and re.match(r"exit\b", self._text(each)):
                start, end = self._place(each), self._place(root)
                place = TextSpan(start.end_line, start.end_column, end.end_line + 1, 1)
                yield Branch(place, (("false", True),))
                return

    def _note_branches(self, node: Node) -> None:
        """Note the bodies of an if, a case or a while, each with its conditions."""
        if node.type == "while_statement":
            condition, repeated = self._condition(node), self._place(node.children[-1])
            is_until = node.children[0].type == "until"
            self.branches.append(Branch(repeated, (("" if is_until else condition, True),)))
            self.loops.append(AskingLoop(self._place(node), repeated, condition, is_until))
        elif node.type == "case_statement":
            items = [child for child in node.children if child.type == "case_item"]
            self.branches += [Branch(self._place(item), (("", True),)) for item in items]
        elif node.type == "if_statement":
            before: list[tuple[str, bool]] = []
            for clause in (node, *(child for child in node.children if child.type in _CLAUSES)):
                condition = self._condition(clause)
                own = [] if clause.type == "else_clause" else [(condition, True)]
                body = clause.children[_last_condition(clause)]
                ends = (child for child in clause.children if child.type in _CLAUSES)
                start, end = self._place(body), self._place(next(ends, clause.children[-1]))
                span = (end.line, end.column) if clause is node else (end.end_line, end.end_column)
                self.branches.append(Branch(TextSpan(start.line, start.column, *span), (*before, *own)))
                before.append((condition, False))

    def _condition(self, clause: Node) -> str:
        """Return the condition of an if, an elif or a while as it is written."""
        parts = [self._text(child) for child in clause.children[1 : _last_condition(clause)] if child.type != ";"]
        return " ; ".join(part for part in parts if part.strip())

    def walk_children(self, node: Node, inside: _Inside) -> None:
        children = node.children
        last_condition = _last_condition(node)
        for index, child in enumerate(children):
            followed_by = children[index + 1].type if index + 1 < len(children) else ""
            if index < last_condition or node.type == "negated_command":
                self.walk(child, msgspec.structs.replace(inside, is_tested=True))
            elif followed_by == "&":
                self.walk(child, msgspec.structs.replace(inside, in_background=True))
            elif node.type == "pipeline" and followed_by in {"|", "|&"}:
                self.walk(child, msgspec.structs.replace(inside, pipes_on=True, pipe=node.start_byte + 1))
            else:
                self.walk(child, inside)

    def _walk_list(self, node: Node, inside: _Inside) -> None:
        """Walk `a && b || c`: the grammar nests it to the left, as deep as it is long."""
        parts: list[Node] = []
        tested = False
        while node.type == "list":
            children = node.children
            tested = tested or any(child.type == "||" for child in children)
            parts += reversed(children[1:])
            node = children[0]
        around = msgspec.structs.replace(inside, is_conditional=True) if tested else inside
        signs = [node, *reversed(parts)]
        for index, part in enumerate(signs):
            guarded = signs[index - 1].type in {"&&", "||"}  # the last one is none of these
            within = msgspec.structs.replace(around, is_guarded=True) if guarded else around
            if index + 1 < len(signs) and signs[index + 1].type in {"&&", "||"}:
                within = msgspec.structs.replace(within, is_tested=True)
            if guarded and (signs[index - 1].type == "||" or signs[index - 2].type == "test_command"):
                condition = self._text(signs[index - 2]) if signs[index - 1].type == "&&" else ""
                self.branches.append(Branch(self._place(part), ((condition, True),)))
            background = index + 1 < len(signs) and signs[index + 1].type == "&"
            self.walk(part, msgspec.structs.replace(within, in_background=True) if background else within)

    def read_for(self, node: Node, inside: _Inside) -> None:
        name, only = node.child_by_field_name("variable"), self._only_word(node)
        if name is not None:
            may_not_run = only is None or inside.may_not_run
            each = Assignment(self._text(name), only, self._place(name), self._next(), False, may_not_run=may_not_run)
            self.assignments.append(each)
        if not (inside.in_loop or inside.is_conditional):
            self.blocks.append((self._place(node), self._text(node.children[0])))
        self.walk_children(node, inside if only is not None else _within(node, inside))

    def _only_word(self, node: Node) -> Word | None:
        """Return the word of a `for` that runs once: a literal one, or the only one of an array."""
        words = tuple(map(self._word, node.children_by_field_name("value")))
        name = words[0].lone_name if len(words) == 1 else None
        if name is not None and words[0].value.endswith("[@]}"):
            arrays = [each for each in self.assignments if each.name == name]
            words = arrays[0].elements or () if len(arrays) == 1 and not arrays[0].may_not_run else ()
        is_one = len(words) == 1 and words[0].is_literal and not re.search(r"[*?[{]", words[0].text)
        return words[0] if is_one else None

    def read_command(self, node: Node, inside: _Inside) -> None:
        words: list[Word] = []
        assignments: list[Assignment] = []
        order = self._next()
        end = -1
        for child in node.named_children:
            if child.type == "variable_assignment":
                assignments += self._assignments(child, inside, exported=True, of_command=True)
            elif child.start_byte == end and assignments and not words:
                value = assignments[-1].value
                word = self._word(child.named_children[0] if child.type == "command_name" else child)
                assignments[-1] = msgspec.structs.replace(
                    assignments[-1], value=word if value is None else _joined(value, word)
                )
            elif child.type == "command_name":
                words.append(self._word(child.named_children[0] if child.named_children else child))
            elif child.type in _WORDS | _MORE_WORDS:
                word, gap = self._word(child), self._between(end, child.start_byte) if words else " "
                words[-1:] = [_joined(words[-1], word, gap)] if _BLANKS.fullmatch(gap) else [*words[-1:], word]
            end = child.end_byte
            self._walk_substitutions(child, inside)
            behind = _ESCAPED_BLANKS.match(self.source[self._written_at(end) :][:80])
            if behind is not None and words and child.type != "variable_assignment":
                nothing = msgspec.structs.replace(words[-1], text="", value="", names=(), substitutions=(), parts=())
                words[-1] = _joined(words[-1], nothing, behind[0].decode())
                end += len(behind[0])
        if not words:  # the rest of a value only looked like a command
            assignments = [msgspec.structs.replace(each, of_command=False, exported=False) for each in assignments]
        self.assignments += assignments
        command = SimpleCommand(
            tuple(words),
            tuple(assignments),
            self._place(node),
            order,
            in_background=inside.in_background,
            pipes_on=inside.pipes_on,
            pipe=inside.pipe,
            function=inside.function,
            in_loop=inside.in_loop,
            is_conditional=inside.is_conditional,
            is_tested=inside.is_tested,
            is_guarded=inside.is_guarded,
            in_substitution=inside.in_substitution,
            writes=inside.writes,
            reads=inside.reads or any(child.type == "herestring_redirect" for child in node.children),
        )
        if words:
            self.commands.append(command)
        if command.program in {"read", "mapfile", "readarray"}:
            self._change(words[1:], _WHOLE_NAME)
        elif command.program == "getopts" or [word.value for word in words[:2]] == ["printf", "-v"]:
            self._change(words[2:3], _WHOLE_NAME)
        elif command.program == "let":
            self._change(words[1:], _IN_ARITHMETIC)

    def _change(self, words: Sequence[Word], pattern: re.Pattern[str]) -> None:
        """Note the variables that get a value which no assignment says."""
        self.assignments += [
            Assignment(match[match.lastindex or 0], None, word.place, self._next(), exported=False, may_not_run=True)
            for word in words
            for match in pattern.finditer(word.value)
        ]

    def read_declaration(self, node: Node, inside: _Inside) -> None:
        keyword = node.children[0].type if node.children else ""
        exported = keyword == "export" or any(
            re.fullmatch("-[a-zA-Z]*x[a-zA-Z]*", self._text(child)) for child in node.children
        )
        end = -1
        for child in node.named_children:
            before = self.assignments[-1].value if child.start_byte == end and self.assignments else None
            if child.type == "variable_assignment":
                self.assignments += self._assignments(child, inside, exported=exported)
            elif before is not None:
                value = _joined(before, self._word(child))
                self.assignments[-1] = msgspec.structs.replace(self.assignments[-1], value=value)
            elif child.type == "variable_name" and exported:
                self._export(self._text(child))
            elif self._text(child) == "=":
                self.spaced.append((self._place(node), keyword, self._text(child.prev_sibling or child)))
            end = child.end_byte if before is not None or child.type == "variable_assignment" else -1
            self._walk_substitutions(child, inside)
        if keyword != "export" and any(_ATTRIBUTES.fullmatch(self._text(child)) for child in node.children):
            changed = [child for child in node.named_children if not re.search(r"=\d+$", self._text(child))]
            names = [each for child in changed for each in (child, *child.named_children)]
            self._change([self._word(each) for each in names], _WHOLE_NAME)

    def read_unset(self, node: Node, inside: _Inside) -> None:
        words = tuple(self._word(child) for child in node.children)
        self.commands.append(SimpleCommand(words, (), self._place(node), self._next(), function=inside.function))

    def read_assignment(self, node: Node, inside: _Inside) -> None:
        self.assignments += self._assignments(node, inside, exported=False)
        self._walk_substitutions(node, inside)

    def read_function(self, node: Node, inside: _Inside) -> None:
        name = node.child_by_field_name("name")
        self.bodies.append((self._place(node), self._text(name) if name else ""))
        self.walk_children(node, msgspec.structs.replace(inside, function=self._text(name) if name else None))

    def read_comment(self, node: Node, inside: _Inside) -> None:
        del inside
        self.comments.append((self._place(node), self._text(node)))

    def read_redirected(self, node: Node, inside: _Inside) -> None:
        redirects = [each for child in node.children for each in (child, *_behind_heredoc(child))]
        file_redirects = [each for each in redirects if each.type == "file_redirect"]
        targets = [self._text(each.children[-1]) for each in file_redirects if _operator(each) in _WRITE]
        targets += [text for each in file_redirects if (text := self._file_of_both(each))]
        around = msgspec.structs.replace(
            inside,
            writes=(*inside.writes, *(target for target in targets if target not in _NO_FILES)),
            reads=inside.reads or any(each.type == "heredoc_redirect" or _operator(each) == "<" for each in redirects),
            pipes_on=inside.pipes_on or any(each.type == "pipeline" for each in redirects),
        )
        body = node.child_by_field_name("body")
        for child in node.children:
            self.walk(child, around if child == body else inside)

    def _file_of_both(self, redirect: Node) -> str:
        """Return the file behind >&; nothing where a number, a minus sign or a variable stands there."""
        name = self._text(redirect.children[-1])
        return "" if _operator(redirect) != ">&" or re.match(r"[\d$-]", name) else name

    def read_heredoc(self, node: Node, inside: _Inside) -> None:
        for child in node.named_children:
            if child.type == "heredoc_body":
                self.heredocs.append((self._place(child), self._text(child)))
            elif getattr(child.prev_sibling, "type", "") in {"&&", "||"}:
                self.walk(child, msgspec.structs.replace(inside, is_guarded=True))
                continue
            elif child.type == "pipeline":  # what follows the word of the here-document in its line
                self.walk_children(child, inside)
                continue
            self._walk_substitutions(child, inside)

    def errors(self, node: Node) -> Iterator[TextSpan]:
        """Yield each place that the grammar does not take."""
        if node.type == "ERROR" or node.is_missing:
            yield self._place(node)
        for child in node.children:
            if child.has_error or child.is_missing:
                yield from self.errors(child)

    def _export(self, name: str) -> None:
        for index, each in enumerate(self.assignments):
            if each.name == name:
                self.assignments[index] = msgspec.structs.replace(each, exported=True)

    def _assignments(
        self, node: Node, inside: _Inside, *, exported: bool, of_command: bool = False
    ) -> Iterator[Assignment]:
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        if name is not None and name.type == "subscript":
            self._change([self._word(name)], _WHOLE_NAME)
        if name is None or name.type != "variable_name":
            return
        word = self._word(value) if value is not None else None
        is_array = value is not None and value.type == "array"
        parts = [child for child in value.named_children if child.type != "comment"] if value is not None else []
        elements = tuple(map(self._word, parts)) if is_array else None
        yield Assignment(
            self._text(name),
            word,
            self._place(node),
            self._next(),
            exported,
            of_command,
            elements,
            appends=any(child.type == "+=" for child in node.children),
            may_not_run=inside.may_not_run,
        )

    def _walk_substitutions(self, node: Node, inside: _Inside) -> None:
        if node.type in {"command_substitution", "process_substitution", "subshell"}:
            self.walk_children(node, msgspec.structs.replace(inside, in_substitution=True, in_background=False))
            return
        if node.type == "arithmetic_expansion":
            self._change([self._word(node)], _IN_ARITHMETIC)
        elif node.type == "expansion" and any(child.type in {"=", ":="} for child in node.children):
            self._change([self._word(child) for child in node.named_children[:1]], _WHOLE_NAME)
        for child in node.named_children:
            self._walk_substitutions(child, inside)

    def _word(self, node: Node) -> Word:
        names: list[str] = []
        substitutions: list[str] = []
        is_mixed = node.type == "concatenation"
        parts = _ended_parts(
            [
                (_QUOTES.get(child.type, ""), piece)
                for child in (node.children if is_mixed else [node])
                for piece in self._pieces(child, names, substitutions)
            ]
        )
        if node.start_point[0] != node.end_point[0]:
            self._note_long_texts(node)
        value, quoted = "".join(piece for _, piece in parts), "" if is_mixed else _QUOTED.get(node.type, "")
        return Word(
            self._text(node),
            value,
            tuple(names),
            tuple(substitutions),
            self._place(node),
            quoted,
            parts=parts if is_mixed else (),
        )

    def _note_long_texts(self, node: Node) -> None:
        for each in (node, *node.named_children):
            if each.type in {"string", "raw_string", "ansi_c_string"} and each.start_point[0] != each.end_point[0]:
                self.long_texts.append(self._place(each))

    def _pieces(self, node: Node, names: list[str], substitutions: list[str]) -> Iterator[str]:
        text = self._text(node)
        if node.type == "raw_string":
            yield text[1:-1]
        elif node.type in {"string", "translated_string"}:
            yield from self._string_pieces(node, names, substitutions)
        elif node.type == "command_substitution":
            substitutions.append(text)
            yield text
        elif node.type == "concatenation":
            for child in node.children:
                yield from self._pieces(child, names, substitutions)
        else:
            names += [self._text(child) for child in _descendants(node) if child.type in _NAMES]
            yield _without_backslashes(text) if node.type in {"word", "number"} else text

    def _string_pieces(self, node: Node, names: list[str], substitutions: list[str]) -> Iterator[str]:
        position = node.start_byte + 1
        for child in node.named_children:
            yield self._between(position, child.start_byte)
            if child.type == "string_content":
                yield self._text(child)
            else:
                yield from self._pieces(child, names, substitutions)
            position = child.end_byte
        yield self._between(position, node.end_byte - 1)

    def _text(self, node: Node) -> str:
        return self._between(node.start_byte, node.end_byte)

    def _between(self, start: int, end: int) -> str:
        return self.source[self._written_at(start) : self._written_at(end)].decode(errors="replace")

    def _written_at(self, place: int) -> int:
        """Return where a byte of the text that was read stands in the text that was given."""
        return place - bisect_left(self._added, place)

    def _column_of(self, place: int, column: int) -> int:
        return self._written_at(place) - self._written_at(place - column) if self._added else column

    def _place(self, node: Node) -> TextSpan:
        (row, column), (end_row, end_column) = node.start_point, node.end_point
        column, end_column = self._column_of(node.start_byte, column), self._column_of(node.end_byte, end_column)
        return TextSpan(
            row + self._line,
            self._characters(row, column) + (self._column if row == 0 else 1),
            end_row + self._line,
            self._characters(end_row, end_column) + (self._column if end_row == 0 else 1),
        )

    def _characters(self, row: int, column: int) -> int:
        """Return how many characters the first `column` bytes of a line are."""
        if column == 0 or not self._lines:
            return column
        return len(self._lines[row][:column].decode(errors="replace"))

    def _next(self) -> int:
        self._order += 1
        return self._order


def _last_condition(node: Node) -> int:
    """Return where the condition of an if, an elif or a loop ends among the children; 0 for another node."""
    ends = {"if_statement": "then", "elif_clause": "then", "while_statement": "do_group"}.get(node.type)
    return next((index for index, child in enumerate(node.children) if child.type == ends), 0) if ends else 0


_WHOLE_NAME = re.compile(r"^([A-Za-z_]\w*)(?:\[.*)?$")
_IN_ARITHMETIC = re.compile(
    r"(?<![\w$])([A-Za-z_]\w*)(?:\[[^]]*\])?\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))|(?:\+\+|--)([A-Za-z_]\w*)"
)
_ATTRIBUTES = re.compile(r"[-+]\w*[Ailnu]\w*")
"""Attributes that make another value of what is assigned, or give it to another variable."""

_ESCAPED_BLANKS = re.compile(rb"(?:\\[ \t])+(?=[\s;&|)<>]|$)")
_BLANKS = re.compile(r"(\\[ \t])*")
"""What the grammar finds between two words that are one: nothing, or blanks behind backslashes."""


def _joined(first: Word, second: Word, gap: str = "") -> Word:
    """Return the one word that two are which touch: in $A\\_x the grammar ends a word before the backslash."""
    blanks = gap.replace("\\", "")
    is_name_cut = re.match(r"\w", blanks + second.value)
    value = re.sub(r"(?<!\\)\$(\w+)$", r"${\1}", first.value) if is_name_cut else first.value
    return Word(
        first.text + gap + second.text,
        value + blanks + second.value,
        (*first.names, *second.names),
        (*first.substitutions, *second.substitutions),
        TextSpan(first.place.line, first.place.column, second.place.end_line, second.place.end_column),
        parts=_ended_parts([*_parts_of(first), ("'", blanks), *_parts_of(second)]),
    )


def _parts_of(word: Word) -> tuple[tuple[str, str], ...]:
    is_escaped = not word.quoted and "\\$" in word.text
    return word.parts or (("'" if is_escaped else word.quoted, word.value),)


_NAMES = frozenset({"variable_name", "special_variable_name"})
_HANDLERS = {
    "command": _BashReader.read_command,
    "declaration_command": _BashReader.read_declaration,
    "unset_command": _BashReader.read_unset,
    "variable_assignment": _BashReader.read_assignment,
    "function_definition": _BashReader.read_function,
    "for_statement": _BashReader.read_for,
    "comment": _BashReader.read_comment,
    "redirected_statement": _BashReader.read_redirected,
    "heredoc_redirect": _BashReader.read_heredoc,
}


_WRITE = frozenset({">", ">>", "&>", "&>>", ">|", "<>"})
_NO_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})


def _behind_heredoc(node: Node) -> list[Node]:
    return list(node.children) if node.type == "heredoc_redirect" else []


def _operator(redirect: Node) -> str:
    """Return the sign of a redirection, which a number may precede; nothing for another node."""
    if redirect.type != "file_redirect":
        return ""
    return next((child.type for child in redirect.children if child.type != "file_descriptor"), "")


def _within(node: Node, inside: _Inside) -> _Inside:
    changes: Mapping[str, bool] = {}
    if node.type in _LOOPS:
        changes = {"in_loop": True}
    elif node.type in _CONDITIONS:
        changes = {"is_conditional": True}
    elif node.type in {"command_substitution", "process_substitution"}:
        changes = {"in_substitution": True}
    return msgspec.structs.replace(inside, **changes) if changes else inside


def _descendants(node: Node) -> Iterator[Node]:
    for child in node.named_children:
        yield child
        yield from _descendants(child)


def _without_backslashes(text: str) -> str:
    return re.sub(r"\\(\n|(.)|$)", r"\2", text) if "\\" in text else text
