"""The verbs: name, help, the module that is loaded only when the verb is used; and the start of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from muster.cli.command_line import CommandLine


class Verb:
    """One line of `muster --help`."""

    def __init__(self, name: str, module: str, sentence: str) -> None:
        self.name = name
        self.module = module
        self.help = sentence


def command_of(verb: Verb) -> CommandLine:
    """Return the command line that the verb's file describes."""
    from muster.parts import VERBS as GROUP
    from muster.parts import broken_verb, load_place, refuse_two

    place = f"{verb.module}:COMMAND"
    command: CommandLine
    if verb in VERBS:
        command = load_place(place)
        return command
    refuse_two(GROUP, verb.name)
    try:
        command = load_place(place)
    except Exception as error:  # noqa: BLE001  # whatever a package of others does as it is loaded
        raise broken_verb(verb.name, error) from None
    return command


def find_verb(name: str) -> Verb | None:
    """Return the verb of this name: ours, else that of another package's entry point; None where there is none."""
    ours = next((verb for verb in VERBS if verb.name == name), None)
    return ours or next((verb for verb in verbs_of_others() if verb.name == name), None)


def verbs_of_others() -> Iterator[Verb]:
    """Yield the verbs that other packages bring; an entry point names the module that holds COMMAND."""
    from muster.parts import VERBS as GROUP
    from muster.parts import package_of, parts_of_others

    for name, point in sorted(parts_of_others(GROUP).items()):
        yield Verb(name, point.value, f"of the package {package_of(point)}")


def start_verb(verb: Verb, words: Sequence[str]) -> int:
    """Start a verb with these words, or print its page; returns the exit status."""
    return _start(command_of(verb), words)


def _start(command: CommandLine, words: Sequence[str]) -> int:
    from muster.cli.command_line import read_typed, words_of
    from muster.errors import RequestError

    if command.verbs:
        return _start_verb_of(command, words)
    typed_words = None
    try:
        typed_words = read_typed(command, words)
    except RequestError:
        if not _asks_for_help(words):
            raise
    if typed_words is None or "help" in typed_words.values:
        from muster.cli.help_page import print_page

        print_page(command, with_all=_asks_for_everything(words))
        return 0
    if command.start is None:
        raise AssertionError(f"muster {command.name} starts nothing")
    return command.start(words_of(command, typed_words))


def _start_verb_of(command: CommandLine, words: Sequence[str]) -> int:
    from muster.errors import UnknownName

    by_name = {verb.name.rpartition(" ")[2]: verb for verb in command.verbs}
    if words and words[0] in by_name:
        return _start(by_name[words[0]], words[1:])
    if words and not (words[0].startswith("-") and _asks_for_help(words)):
        raise UnknownName(f"verb of muster {command.name}", words[0], by_name)
    from muster.cli.help_page import print_page

    print_page(command)
    return 0 if words else 2


def _asks_for_help(words: Sequence[str]) -> bool:
    own_words = words[: list(words).index("--")] if "--" in words else words
    return "-h" in own_words or "--help" in own_words


def _asks_for_everything(words: Sequence[str]) -> bool:
    from muster.older import pairwise

    return any(word in {"-h", "--help"} and next_word == "all" for word, next_word in pairwise(words))


VERBS = (
    Verb("run", "muster.cli.run", "run a command as ranks, now: in this allocation, a new one, or here"),
    Verb("submit", "muster.cli.submit", "queue the same command; prints the job id"),
    Verb("plan", "muster.cli.plan", "show what would happen, as script, JSON or reasons; runs nothing"),
    Verb("shell", "muster.cli.shell", "open a shell on the first node of a job, or beside a rank of one that runs"),
    Verb("jobs", "muster.cli.jobs", "list all of your jobs, and mark those of Muster"),
    Verb("status", "muster.cli.status", "say where a job is in its life"),
    Verb("logs", "muster.cli.logs", "show the output of a job's ranks: of all or of one, once or while it grows"),
    Verb("url", "muster.cli.url", "print the address of a role of a job, for jobs of several programs"),
    Verb("why", "muster.cli.why", "say why a job waits and what would start it sooner, or how it ended"),
    Verb("report", "muster.cli.report", "pack what a site's support needs to know of a job, without secrets"),
    Verb(
        "stacks",
        "muster_check.verbs.stacks",
        "show where every rank of a running job stands, and which rank keeps the others waiting",
    ),
    Verb(
        "top",
        "muster_check.verbs.top",
        "show a running job on one screen: its ranks by host, what each does, which is late",
    ),
    Verb("cancel", "muster.cli.cancel", "end jobs"),
    Verb(
        "nodes", "muster.cli.nodes", "list the nodes that failed under your jobs, which submit excludes; or forget them"
    ),
    Verb("clean", "muster.cli.clean", "remove files that earlier jobs have left, by age; asks first"),
    Verb("queues", "muster.cli.queues", "list the partitions: limits, what is free, how many jobs wait"),
    Verb("site", "muster.cli.site", "show what is known of the clusters, with sources, and which cluster this is"),
    Verb(
        "check",
        "muster_check.verbs.check",
        "check this node, or the nodes of a job; or find what went wrong in a log",
    ),
    Verb("bench", "muster_bench.verbs.bench", "measure the bandwidth of the fabric, judge it and draw it"),
    Verb(
        "lint",
        "muster_lint.verbs.lint",
        "find faults in batch and training scripts: what breaks, hangs or is slow; runs nothing",
    ),
    Verb(
        "port",
        "muster_lint.verbs.port",
        "turn a batch script of any site into one line of Muster, and into a job of another site",
    ),
    Verb("stage", "muster.cli.stage", "copy data or an environment to the nodes' own disks"),
    Verb("build", "muster_build.verbs.build", "make an environment: image, virtual environment, lock"),
    Verb("lab", "muster_lab.verbs.lab", "run a private, real Slurm cluster of virtual hosts on this machine"),
    Verb("docs", "muster.cli.docs", "show the documents in the terminal: tutorial, how-tos, reference, sites"),
    Verb(
        "completion",
        "muster.cli.completion",
        "print code for your shell, so that TAB completes verbs, options and values",
    ),
)
