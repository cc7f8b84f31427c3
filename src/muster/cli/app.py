"""The command `muster`: finds the verb, and turns whatever goes wrong into words and an exit status."""

from __future__ import annotations

import atexit
import codecs
import errno
import gc
import io
import os
import sys
from types import ModuleType

from muster import __version__

EXIT_BUG = 70
EXIT_INTERRUPTED = 130
EXIT_UNREAD = 141

_TOP = """\
usage: muster VERB [OPTION…] [COMMAND…]

{summary}

verbs:
{verbs}

options:
{options}

{ending}
"""
_SENTENCES = (
    "One unchanged PyTorch script, distributed, on any Slurm cluster.",
    "`muster VERB --help` shows what a verb takes, and an example.",
)


def main(arguments: list[str] | None = None) -> int:
    """Run one verb; returns the exit status of the documented table (docs/reference/exit-status.md)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_closed_streams()
    gc.set_threshold(100_000)  # what a start loads is never garbage: looking for some costs 3 ms of 60
    atexit.register(gc.freeze)  # nor is what an end leaves: Python would look through all of it, 9 ms of 75
    _let_streams_take_any_text()
    try:
        return _flushed(_dispatch(words))
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            print("muster: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has left (muster jobs | head): not our user's mistake, nor ours.
        _drop_what_nobody_reads()
        return EXIT_UNREAD
    except Exception as error:  # noqa: BLE001  # the one place that turns exceptions into words
        try:
            return _explain(error)
        except BrokenPipeError:
            _drop_what_nobody_reads()
            return EXIT_UNREAD


# What our sentences use, in letters that every terminal has.
_IN_ASCII = {"…": "...", "×": "x", "→": "->", "←": "<-", "–": "-", "—": "-", "µ": "u", "≤": "<=", "≥": ">=", "’": "'"}


def _let_streams_take_any_text() -> None:
    """Make stdout and stderr spell what their encoding lacks, also a file's name that is not text."""
    codecs.register_error("muster-spell", _spell)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="muster-spell")


def _spell(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(
        _IN_ASCII.get(letter) or letter.encode("ascii", "backslashreplace").decode() for letter in letters
    ), error.end


_STREAMS = (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))


def _open_closed_streams() -> None:
    """Open the null device where the caller closed a standard stream: its number must not become another file's.

    What is then read is empty, and what is written is refused, in words.
    """
    for number, (name, mode, access) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, access)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _dispatch(words: list[str]) -> int:
    if words and words[0] in {"--help", "-h", "help"} and words[1:2] and not words[1].startswith("-"):
        words = [*words[1:], "--help"]  # muster help run
    if not words:
        _load_msgspec()
        from muster.cli.help_page import screen_width
        from muster.cli.next_steps import steps_page

        print(steps_page(screen_width()), end="")
        return 0
    if words[0] in {"-h", "--help", "help"}:
        from muster.cli.help_page import screen_width

        print(help_text(screen_width()), end="")
        return 0
    if words[0] in {"--version", "-V", "version"}:
        print(f"muster {__version__}")
        return 0
    from muster.cli.verbs import find_verb, start_verb

    verb = find_verb(words[0])
    if verb is not None:
        _load_msgspec()
        return start_verb(verb, words[1:])
    program = _program_of_verb(words[0])
    if program is not None:
        from muster.runner import become

        become([program, *words[1:]], dict(os.environ))
    raise _unknown_verb(words[0])


def _program_of_verb(word: str) -> str | None:
    """Return the path of the program `muster-WORD`, which is a verb too; None where PATH has none."""
    from muster.look.programs import on_path

    return on_path(f"muster-{word}", os.environ) if word.replace("-", "").isalnum() else None


# What people take for a verb, and where it is.
_ELSEWHERE = {
    "rehearse": "muster run --rehearse -- COMMAND",
    "sbatch": "muster submit -- COMMAND",
    "srun": "muster run -- COMMAND",
    "salloc": "muster shell",
    "squeue": "muster jobs",
    "scancel": "muster cancel JOB",
    "sinfo": "muster queues",
    "torchrun": "muster run --launcher torchrun -- python train.py",
    "ls": "muster jobs",
    "ps": "muster jobs",
    "start": "muster run -- COMMAND",
    "launch": "muster run -- COMMAND",
    "kill": "muster cancel JOB",
    "stop": "muster cancel JOB",
    "log": "muster logs JOB",
    "resume": "type its muster submit line again; how a job goes on by itself: muster docs weeks",
    "sites": "muster site list",
    "fault": "muster lab fault FAULT [H…]",
    "python": "muster run -- python …",
}


def _unknown_verb(word: str) -> Exception:
    from muster.cli.verbs import VERBS
    from muster.errors import RequestError, UnknownName

    if word in _ELSEWHERE:
        return RequestError(f"there is no verb named {word!r}", hint=_ELSEWHERE[word])
    return UnknownName("verb", word, [verb.name for verb in VERBS])


def _load_msgspec() -> None:
    """Load msgspec without what no launch uses of it: 9 ms of 51, on two cores. Whoever uses that loads it then.

    It prefers typing_extensions where that is installed (torch brings it), and does with `typing` too; `uuid` asks
    `platform` for a name; `textwrap` and `msgspec.inspect` are for JSON schemas.
    """
    from importlib import import_module

    if "msgspec" in sys.modules:
        return
    omitted = {name: _loaded_later(name) for name in ("platform", "textwrap", "msgspec.inspect")}
    omitted["platform"].system = lambda: os.uname().sysname  # type: ignore[attr-defined]
    stand_ins = {name: module for name, module in omitted.items() if name not in sys.modules}
    sys.modules.update(stand_ins)
    if "typing_extensions" not in sys.modules:
        stand_ins["typing_extensions"] = sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import_module("msgspec")
    finally:
        for name, module in stand_ins.items():
            if sys.modules.get(name, module) is module:
                del sys.modules[name]


def _loaded_later(name: str) -> ModuleType:
    """Return what stands in the place of a module until somebody asks it for a name."""
    stand_in = ModuleType(name)

    def load(word: str) -> object:
        from importlib import import_module

        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
        return getattr(import_module(name), word)

    stand_in.__getattr__ = load  # type: ignore[method-assign]
    return stand_in


def _drop_what_nobody_reads() -> None:
    """Lead each stream whose reader has left to the null device: Python writes out what is left as it ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(null, stream.fileno())


def _flushed(status: int) -> int:
    """Write the answer out while we can still say in words that its reader has left, or the disk is full."""
    sys.stdout.flush()
    return status


def help_text(width: int = 80) -> str:
    """Return the page that `muster --help` prints, at the width of the terminal."""
    from textwrap import wrap

    from muster.cli.help_page import in_two_columns
    from muster.cli.verbs import VERBS, verbs_of_others

    rows = [(verb.name, verb.help) for verb in (*VERBS, *verbs_of_others())]
    options = [("-h, --help", "show this page"), ("--version", "show the version")]
    summary, ending = ("\n".join(wrap(text, width)) for text in _SENTENCES)
    return _TOP.format(
        summary=summary, verbs=in_two_columns(rows, width), options=in_two_columns(options, width), ending=ending
    )


def _explain(error: Exception) -> int:
    from muster.errors import MusterError, SiteError

    if isinstance(error, MusterError):
        print_error(error.message, error.hint)
        return 3 if isinstance(error, SiteError) else 2
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        print_error(
            f"no space is left to write {error.filename or 'the output'}", "make room there, or write elsewhere"
        )
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still to be written has no place
        return 2
    if isinstance(error, OSError) and error.errno == errno.EBADF and error.filename is None:
        print_error("the standard output is closed", "open it, or send it to /dev/null")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    if isinstance(error, FileNotFoundError) and not _has_working_directory():
        print_error("the working directory is not there any more", "cd to a directory that is there")
        return 2
    if isinstance(error, OSError) and error.filename and not os.environ.get("MUSTER_TRACEBACK"):
        print_error(
            f"{str(error.filename)[:200]}: {error.strerror}",
            "check the name, its permissions and its file system; MUSTER_TRACEBACK=1 shows where Muster used it",
        )
        return 2
    import traceback

    position = traceback.extract_tb(error.__traceback__)[-1]
    print_error(
        f"a bug in Muster: {type(error).__name__}: {error} ({position.filename.rpartition('/')[2]}:{position.lineno})",
        "please report it; MUSTER_TRACEBACK=1 shows where it came from",
    )
    if os.environ.get("MUSTER_TRACEBACK"):
        traceback.print_exception(type(error), error, error.__traceback__)
    return EXIT_BUG


def _has_working_directory() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def print_error(message: str, hint: str | None = None) -> None:
    """Print a sentence on stderr, then, after an empty line, what to do about it."""
    from muster.cli.output import at_words

    text = f"muster: error: {message}" + (f"\n\nhint: {hint}" if hint else "")
    print(at_words(text, sys.stderr), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
