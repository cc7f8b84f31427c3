"""Two records of one job, before and after: where they differ, and whether the table speaks of just that."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple

import msgspec

from muster_lint.bash import Word, read_shell
from muster_lint.job import BatchScript
from muster_lint.port.expand import WIRED, values_of
from muster_lint.port.values import Draft, Fate, PortRow, is_open

from .box import Outcome, Rank, started_runs
from .jobs import sizes_of

__all__ = ["Difference", "differences", "steady"]

# What Muster or the site decides for the ranks; the table has a row for each that the script sets.
_OF_THE_SITE = re.compile(
    r"(NCCL|RCCL|FI|UCX|PSM2?|SHARP|SRUN|GLOO|MPICH|MIOPEN|I_MPI|OMPI|PMIX?|TORCH_NCCL|TP|CXI|HSA|HIP|ROCR)_\w+|(OMP|MKL)_NUM_THREADS"
    r"|(APPTAINER|SINGULARITY|ENROOT|PODMAN)\w*|\w+_proxy|\w+_PROXY"
    r"|(PATH|LD_LIBRARY_PATH|PYTHONPATH|CUDA_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES|GROUP_RANK)"
)
_OF_THE_BOX = re.compile(r"(TORCHELASTIC|STUB|SLURM|BASH_FUNC|OMPI|MUSTER)_.*|PWD|OLDPWD|SHLVL|_|BASH_ENV|PS[0-4]")
_SIZES = frozenset({"nodes", "ntasks_per_node", "gpus_per_node", "gres", "launcher", "started"})
_FOLDER = re.compile(r"(?:#SBATCH )?(?:cd|pushd|popd|-D|--chdir|--workdir)\b|.* (?:-D|--chdir|--pwd|--workdir|-w)\b")
_EXPANSION = re.compile(
    r"\$\{(?:[^{}]|\{[^{}]*\})*\}|\$\w+|\$[@*#?!$]|\$\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|`[^`]*`"
)
_GAP = r"[\s\S]*"
_MOST_RANKS = 24
"""How many ranks of one command the stubs start at most for a script, the first and the last."""


class Difference(NamedTuple):
    """One thing that is not the same, and what the table says of it."""

    kind: str
    text: str
    said: str
    """asked: an open row speaks of it; told: a row says that it was left out or changed; nothing: silence."""


def differences(old: Outcome, new: Outcome, draft: Draft, job: BatchScript) -> list[Difference]:
    """Return where the ranks and the files of a job differ from those of the script that it was made of."""
    found = {(each.kind, each.said, each.text if each.kind in _EACH else ""): each
             for each in reversed([*_differences(old, new, _Table(draft, job))])}  # fmt: skip
    return [*reversed(found.values())]


def steady(old: Outcome, again: Outcome, new: Outcome) -> Outcome:
    """Return what a script did without what another run of it did otherwise: names by a clock, chance, a process.

    A word that the second run has otherwise is that of the job, so that it differs from nothing. Where the second run
    starts other ranks, the machine had no time or memory for one of the two: the second one counts.
    """
    if [one["line"] for one in old.ranks] != [one["line"] for one in again.ranks]:
        return again
    words_of = {rank["rank"]: rank["words"] for rank in reversed(new.ranks)}
    ranks = [
        {
            **one,
            "words": _steady_words(one["words"], other["words"], words_of.get(one["rank"], [])),
            "environment": _alike(one["environment"], other["environment"]),
            "files": _alike(one["files"], other["files"]),
        }
        for one, other in zip(old.ranks, again.ranks)
    ]
    return old._replace(ranks=ranks, files=_alike(old.files, again.files))


def _alike(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in one.items() if other.get(name) == value}


def _steady_words(old: list[str], again: list[str], new: list[str]) -> list[str]:
    if not len(old) == len(again) == len(new):
        return old
    return [word if word == other else now for word, other, now in zip(old, again, new)]


_EACH = frozenset({"launch", "variable", "module", "file"})
"""What is told of each: of ranks, words and folders the first is enough."""


def _differences(old: Outcome, new: Outcome, table: _Table) -> Iterator[Difference]:
    runs, new_runs = started_runs(old.ranks), started_runs(new.ranks)
    launched = [run for run in runs if table.launch & table.lines_of(run)]
    alike = [run for run in launched if new_runs and _is_same_program(run[0], new_runs[0][0])]
    launched = alike or launched
    for run in runs:
        if run not in launched:
            shown = f"line {run[0]['line']}: {run[0]['program']} {' '.join(run[0]['words'][:3])}"
            yield Difference("launch", shown, table.says_of_lines(table.lines_of(run)))
    if not launched:
        said = "asked" if table.has_no_command else table.says_of_lines(table.launch)
        yield Difference("launch", "the script did not start what the job starts", said)
    if len(launched) > 1:
        shown = f"{len(launched)} times before"
        yield Difference("repeats", shown, table.says_of_repeats(table.lines_of(launched[0])))
    if len(new_runs) != 1:
        yield Difference("launch", f"{len(new_runs)} launches after", "")
    if launched and table.has_no_command:
        yield Difference("words", "the command is to be written", "asked")
    for run in launched if not table.has_no_command else ():
        yield from _of_ranks(run, new_runs[0], old.given, table)
    yield from _of_files(old.files, new.files, table)


def _of_ranks(old: list[Rank], new: list[Rank], given: Mapping[str, str], table: _Table) -> Iterator[Difference]:
    if len(old) != len(new) and len(old) < _MOST_RANKS:
        yield Difference("ranks", f"{len(old)} ranks before, {len(new)} after", table.says_of_ranks())
    others: dict[str, list[Rank]] = {}
    for rank in new:
        others.setdefault(rank["rank"], []).append(rank)
    for one in old:
        one = _by_python(one, new[0])  # noqa: PLW2901  # as the job starts it
        of_rank = others.get(one["rank"], new[:1])
        other = of_rank.pop(0) if len(of_rank) > 1 else of_rank[0]
        if (one["rank"], one["world"]) != (other["rank"], other["world"]):
            shown = f"rank {one['rank']} of {one['world']} before, {other['rank']} of {other['world']} after"
            yield Difference("ranks", shown, table.says_of_ranks())
        if one["words"] != other["words"] or one["program"] != other["program"]:
            shown = _shown_words([one["program"], *one["words"]], [other["program"], *other["words"]])
            yield Difference("words", shown, table.says_of_words(one, other))
        if one["folder"] != other["folder"]:
            shown = f"{one['folder']} before, {other['folder']} after"
            yield Difference("folder", shown, table.says_of_folder())
        yield from _of_variables(one["environment"], other["environment"], given, table)
        yield from _of_files(one["files"], other["files"], table)


def _by_python(rank: Rank, now: Rank) -> Rank:
    """Return a rank of ./train.py as one of python ./train.py, where the job starts the file so."""
    program, words = now["program"], now["words"][:1]
    if program not in {"python", "python3"} or not words or words[0].rpartition("/")[2] != rank["program"]:
        return rank
    return {**rank, "program": program, "words": [*words, *rank["words"]]}


def _is_same_program(old: Rank, new: Rank) -> bool:
    """Tell whether two ranks run one program, of several on a line."""
    return _is_program(new["program"], old["program"]) and old["words"][:1] == new["words"][:1]


def _shown_words(old: list[str], new: list[str]) -> str:
    """Return the words that differ, with the word before them."""
    changes = [each for each in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if each[0] != "equal"]
    return "; ".join(
        f"{' '.join(old[a1 - 1 : a1])} {old[a1:a2]} before, {new[b1:b2]} after" for _, a1, a2, b1, b2 in changes
    )


def _of_variables(
    one: Mapping[str, str], other: Mapping[str, str], given: Mapping[str, str], table: _Table
) -> Iterator[Difference]:
    """Yield the variables that the script sets or removes and the job does not, or that the line sets otherwise."""
    names = {name for name in {*one, *given} if one.get(name) != given.get(name)} | table.set_names
    for name in sorted(names):
        value, new = one.get(name), other.get(name)
        if name == "VIRTUAL_ENV" and (value or "").rstrip("/") == new:
            continue
        if value == new or _OF_THE_BOX.fullmatch(name) or (name in WIRED and not table.names(name)):
            continue
        said = table.says_of_venv() if name == "VIRTUAL_ENV" else table.says_of_name(name)
        if value is None and name in given and table.hands_nothing_on:
            said = "asked"
        if not (said and (name in WIRED or _OF_THE_SITE.fullmatch(name))) and not table.is_wired(name):
            yield Difference("variable", f"{name}={value} before, {new} after", said)
    for module in dict.fromkeys(one["STUB_MODULES"].split()):
        if module not in other["STUB_MODULES"].split() and not table.says_of_name(module):
            yield Difference("module", module, "")


def _of_files(old: Mapping[str, str], new: Mapping[str, str], table: _Table) -> Iterator[Difference]:
    for path, text in old.items():
        if new.get(path) != text and not any(each.startswith(path) for each in new if path.endswith("/")):
            shown = f"{path} holds {new[path][:40]!r}" if path in new else f"{path} is missing"
            yield Difference("file", shown, table.says_of_file(path))


class _Table:
    """The rows of a port, asked for what they speak of."""

    def __init__(self, draft: Draft, job: BatchScript) -> None:
        self.draft, self.job = draft, job
        self.values = values_of(job.shell)
        spans = [*(each.place for each in job.shell.commands), *(each.place for each in job.shell.assignments)]
        places = sorted(spans, key=lambda place: place.line - place.end_line)
        self._begins = {line: place.line for place in places for line in range(place.line, place.end_line + 1)}
        self.open_rows = [row for row in draft.rows if is_open(row)]
        self.has_no_command = any(row.now == "COMMAND" for row in self.open_rows)
        self.hands_nothing_on = any(row.what.endswith("(not ALL)") for row in self.open_rows)
        self.other_rows = [row for row in draft.rows if row.verdict in {Fate.CHANGED, Fate.DROPPED}]
        self.launch = frozenset(row.line for row in draft.rows if row.field == "command")
        settings = draft.values.get("env", ())
        self.set_names = {each.partition("=")[0] for each in settings if "=" in each}

    def lines_of(self, run: list[Rank]) -> frozenset[int]:
        """Return the lines that started a run, as the table has them: bash may name any line of a long command."""
        return frozenset(self._begins.get(int(line), int(line)) for line in str(run[0]["line"]).split())

    def _says(self, is_about: Iterable[tuple[PortRow, bool]]) -> str:
        """Return how the rows say it that are about a thing."""
        found = [is_open(row) for row, is_true in is_about if is_true]
        return "asked" if any(found) else "told" if found else ""

    def _says_with_functions(self, is_about: Iterable[tuple[PortRow, bool]]) -> str:
        """Return how the rows say it; a line of a function is asked about where the call of a function is."""
        is_called = any(row.why.startswith("a function of the script") for row in self.open_rows)
        found = [is_open(row) or (is_called and "of the function" in row.why) for row, is_true in is_about if is_true]
        return "asked" if any(found) else "told" if found else ""

    def _whole(self, row: PortRow) -> str:
        """Return what a row speaks of in full: a long command is cut, and of another launch where its output goes."""
        if not row.what.endswith("…") and "a job of its own" not in row.why:
            return row.what
        places = [each.place for each in self.job.shell.commands if each.place.line == row.line]
        return " ".join([row.what, *("\n".join(self.job.lines[at.line - 1 : at.end_line]) for at in places)])

    def _rows(self) -> list[PortRow]:
        return [*self.open_rows, *self.other_rows]

    def names(self, name: str) -> bool:
        """Tell whether a row names a variable."""
        return any(re.search(rf"\b{re.escape(name)}=", row.what) for row in self.draft.rows)

    def says_of_name(self, name: str) -> str:
        """Return how the table says that a variable, or a module, is another one or none."""
        word = re.compile(rf"(?<![\w/.-]){re.escape(name)}(?![\w/-])")
        return self._says_with_functions(
            (row, bool(word.search(self._filled(f"{self._whole(row)} {row.now}")))) for row in self._rows()
        )

    def says_of_lines(self, lines: frozenset[int]) -> str:
        """Return how the table says that the job does not start what one of these lines starts."""
        return self._says((row, row.line in lines) for row in self._rows())

    def says_of_repeats(self, lines: frozenset[int]) -> str:
        """Return whether the table asks about a launch that runs several times, in a loop or a function."""
        return self._says(
            (row, row.line in lines and _IN_A_BLOCK.search(row.why) is not None) for row in self.open_rows
        )

    def says_of_ranks(self) -> str:
        """Return whether the table asks about a number of nodes or ranks."""
        return self._says(
            (row, row.field in _SIZES or row.field.startswith("size ") or row.what.startswith("("))
            for row in self.open_rows
        )

    def says_of_folder(self) -> str:
        """Return whether the table asks about the working directory."""
        return self._says_with_functions(
            (row, row.field == "chdir" or _FOLDER.match(row.what) is not None)
            for row in [*self.open_rows, *(row for row in self.other_rows if "of the function" in row.why)]
        )

    def is_wired(self, name: str) -> bool:
        """Tell whether what Muster decides for the ranks, their port or their host, stands in a variable."""
        rows = [self._whole(row) for row in self.draft.rows if re.match(rf"(export )?{re.escape(name)}=", row.what)]
        lines = "\n".join(self.job.lines)
        texts = [match[0] for match in re.finditer(rf'\b{re.escape(name)}="[^"]*"', lines)] if rows else []
        return any(re.search(rf"\$\{{?{wired}\b", text) for text in [*rows, *texts] for wired in WIRED)

    def says_of_venv(self) -> str:
        """Return whether the table asks about the virtual environment."""
        return self._says_with_functions((row, row.field == "venv" or "activate" in row.what) for row in self._rows())

    def says_of_file(self, path: str) -> str:
        """Return how the table says that a file is not written: a row names it, or a folder that it is in."""
        parts = [part for part in path.split("/")[1:] if part not in {"srv", ""}]
        makes_it = path.endswith("/")  # mkdir "$OUT": the folder has no name in the script
        return self._says_with_functions(
            (row, self._names_file(row, parts) or (makes_it and re.match(r"mkdir\b.* [\"']?\$", row.what) is not None))
            for row in self._rows()
        )

    def _filled(self, text: str) -> str:
        """Return a text with the values of the script's variables and arguments; each argument is its own number."""
        text = self.values.of(text)
        known = {**sizes_of(self.job.text), "USER": "ada", "HOME": "/home/ada", "SLURM_JOB_ID": "4711", r"(\d)": r"\1"}
        for name, value in known.items():
            text = re.sub(rf"\$\{{?{name}\b\}}?", value, text)
        return text

    def says_of_words(self, old: Rank, new: Rank) -> str:
        """Return whether the rank's words before are those of the command, but for what the table asks about."""
        text = " ".join(f"{row.what} {row.why}" for row in self.open_rows)
        words = [word for word in old["words"] if "--local_rank" not in text or not word.startswith("--local_rank=")]
        if self.has_no_command or "are those of the command right?" in text or "cannot read the bash" in text:
            return "asked"
        if old["program"] != new["program"] and old["program"].rpartition("/")[2] not in text:
            return ""
        pattern = _pattern_of(self.draft.command, old["program"], new, text)
        if pattern is None:
            return "asked" if any(row.field == "command" for row in self.open_rows) else ""
        return "asked" if re.fullmatch(pattern, "".join(f"\0{word}" for word in words)) else ""

    def _names_file(self, row: PortRow, parts: list[str]) -> bool:
        """Tell whether a row names a file, or makes a folder of its path; what the shell fills in may be anything."""
        if re.match(r"(export )?\w+=", row.what):
            return False
        makes_folders = _WITH_FOLDERS.match(row.what) is not None
        parts = parts if makes_folders else parts[-1:]
        text = self._filled(f"{self._whole(row)} {row.why}")
        for word in re.split(r"[\s\"'=,;>()]+", f"{_EXPANSION.sub('$_', text)} {text}"):
            names = [name for name in word.strip("/").split("/") if name]
            for name in names if makes_folders else names[-2:]:
                pattern = ".*".join(map(re.escape, _EXPANSION.split(name)))
                if (pattern != ".*" or "it writes" in row.why) and any(re.fullmatch(pattern, part) for part in parts):
                    return True
        return False


_WITH_FOLDERS = re.compile(r"(?:sudo )?(?:mkdir|cp|rsync|scp|mv|tar|unzip|ln|git|install|unsquashfs|aws|gsutil|wget)\b")
_IN_A_BLOCK = re.compile(r"stands in the|no branches, loops or functions|a function of the script|several|each time")


def _pattern_of(command: tuple[str, ...], program: str, new: Rank, asked: str) -> str | None:
    """Return the pattern of the words that a rank may have had: what is asked about is a gap, all else is as it is now.

    None: the command is a text of the shell that does not end with this program.
    """
    words = _template(command)
    if words is None:
        return None
    named = [index for index, word in enumerate(words) if _is_program(word.value, program)]
    if not named:
        return None
    words = words[named[0] + 1 :]
    values = new["words"] if len(new["words"]) == len(words) else [None] * len(words)
    return "".join(
        _piece(word, value, new["environment"], asked) for word, value in zip_longest(words, values[: len(words)])
    )


def _is_program(word: str, program: str) -> bool:
    name, called = word.rpartition("/")[2], program.rpartition("/")[2]
    return name == called or (name.startswith("python") and called.startswith("python")) or name == word == program


def _template(command: tuple[str, ...]) -> list[Word] | None:
    """Return the words of the command; of a shell's text, those of its last command as the shell reads them."""
    text = command[2] if len(command) == 3 and command[1] == "-c" and command[0] in {"bash", "sh"} else ""
    if not text:
        literal = read_shell(": x").commands[0].words[1]
        return [msgspec.structs.replace(literal, text=word, value=word, quoted="'") for word in command]
    shell = read_shell(text)
    outer = [each for each in shell.commands if not each.in_substitution and each.program != "export"]
    if shell.error is not None or not outer:
        return None
    words = list(outer[-1].words)
    return words[1:] if words[0].value == "exec" else words


def _piece(word: Word, value: str | None, environment: Mapping[str, str], asked: str) -> str:
    """Return the pattern of one word."""
    if word.quoted == "'" or not _EXPANSION.search(word.value):
        return "\0" + re.escape(word.value if value is None else value)
    opened = [_is_asked(match[0], asked) for match in _EXPANSION.finditer(word.value)]
    if not any(opened) and value is not None:
        return "\0" + re.escape(value)
    if _EXPANSION.fullmatch(word.value):
        return rf"(?:\0{_GAP})?"
    pieces = [re.escape(re.sub(r'\\(["\\])', r"\1", part)) for part in _EXPANSION.split(word.value)]
    filled = [_GAP if is_asked else _value(match[0], environment)
              for match, is_asked in zip(_EXPANSION.finditer(word.value), opened)]  # fmt: skip
    return "\0" + "".join(part for pair in zip_longest(pieces, filled, fillvalue="") for part in pair)


def _is_asked(expansion: str, asked: str) -> bool:
    """Tell whether the table asks about what the shell puts here, or Muster decides it."""
    if expansion.startswith(("$(", "`")):
        return "a command stands in the words" in asked
    name = re.sub(r"^\$\{?[#!]?(\w+|[@*#?!$]).*", r"\1", expansion, flags=re.DOTALL)
    if name in WIRED:
        return True
    return re.search(rf"\b{name}\b" if name.isidentifier() else rf"\${re.escape(name)} ", asked) is not None


def _value(expansion: str, environment: Mapping[str, str]) -> str:
    name = re.fullmatch(r"\$\{?(\w+)\}?", expansion)
    return re.escape(environment.get(name[1], "")) if name else _GAP
