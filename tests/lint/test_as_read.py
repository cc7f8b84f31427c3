"""What is read of a script: its commands, assignments and branches, the sizes of the job, and what it starts.

The scripts stand in the golden file itself: write another line that begins with `$` there, and let --update-golden fill
in what is read of it. `⏎` ends a line of the script. Places are line:column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from muster_lint.bash import Assignment, ShellText, SimpleCommand, Word
from muster_lint.gpus import signs_of_gpus, zero_of
from muster_lint.job import BatchScript, read_job
from muster_lint.launch import LaunchCommand, Stage, is_of_one_node
from muster_lint.sizes import cpus_of_node, has_whole_nodes, uses_of
from muster_lint.values import TextSpan
from muster_lint.works import copies, is_part, is_work, starts_ranks, switched_off, trains

_GOLDEN = Path(__file__).parent.parent / "golden/as-read.txt"


def _place(place: TextSpan) -> str:
    end = f"-{place.end_line}:{place.end_column}" if place.end_line != place.line else f"-{place.end_column}"
    return f"{place.line}:{place.column}{end}"


def _flags(**flags: object) -> str:
    told = [name if flag is True else f"{name}={flag}" for name, flag in flags.items() if flag]
    return f" ({', '.join(told)})" if told else ""


def _word(word: Word) -> str:
    several = "…" if word.may_be_several else ""
    parts = " + ".join(f"{quote}{part}{quote}" for quote, part in word.parts)
    about = _flags(names=",".join(word.names), runs=",".join(word.substitutions), parts=parts)
    return f"{word.quoted}{word.value}{word.quoted}{several}{about}".replace("\n", "⏎")


def _assignment(each: Assignment) -> str:
    value = "" if each.value is None else _word(each.value)
    elements = None if each.elements is None else [_word(word) for word in each.elements]
    about = _flags(
        exported=each.exported, once=each.of_command, appends=each.appends, maybe=each.may_not_run, elements=elements
    )
    return f"{_place(each.place)} {each.name}={value}{about}"


def _command(shell: ShellText, each: SimpleCommand) -> str:
    runs = {True: "", False: "never", None: "maybe"}[shell.runs_at(each.place)]
    about = _flags(
        runs=runs, background=each.in_background, pipes_on=each.pipes_on, pipe=each.pipe, function=each.function,
        loop=each.in_loop, conditional=each.is_conditional, tested=each.is_tested, guarded=each.is_guarded,
        inner=each.in_substitution, writes=each.writes, reads=each.reads, once=[one.name for one in each.assignments],
    )  # fmt: skip
    return f"{_place(each.place)} {' | '.join(map(_word, each.words))}{about}"


def _shell(shell: ShellText) -> Iterator[str]:
    yield from (_command(shell, each) for each in shell.commands)
    yield from (_assignment(each) for each in shell.assignments)
    for name in dict.fromkeys(each.name for each in shell.assignments):
        word, words = shell.value_of(name), shell.words_of(name, 10**6)
        yield f"{name} is {word and _word(word)} as {None if words is None else [each.value for each in words]}"
    spans = {
        "comment": shell.comments, "here": shell.heredocs, "block": shell.blocks, "body": shell.bodies,
        "branch": [(each.place, str(each.conditions)) for each in shell.branches],
        "loop": [(each.place, f"{each.condition} {each.is_until} {_place(each.body)}") for each in shell.loops],
        "long": [(place, "") for place in shell.long_texts], "subshell": [(place, "") for place in shell.subshells],
        "spaced": [(place, f"{word} {name}") for place, word, name in shell.spaced],
    }  # fmt: skip
    for noun, rows in spans.items():
        yield from (f"{noun} {_place(place)} {text}".replace("\n", "⏎").rstrip() for place, text in rows)
    about = _flags(error=shell.error and _place(shell.error), wrappers=dict(shell.wrappers), own=shell.own_names)
    yield f"first command {shell.first_command_line}{about}"


def _stage(stage: Stage) -> str:
    options = [f"{name} {word.value}" if word is not None else name for name, word in stage.options]
    words = [[word.value for word in words] for words in (stage.before, stage.words, stage.hidden)]
    return f"{stage.kind} {stage.name}{_flags(options=options, before=words[0], words=words[1], hidden=words[2])}"


def _launch(job: BatchScript, launch: LaunchCommand) -> str:
    agent = launch.stage("agent")
    about = _flags(
        work=is_work(job, launch), part=bool(launch.stages) and is_part(launch), trains=trains(launch),
        copies=copies(launch), ranks=starts_ranks(job, launch.command), unknown=launch.unknown,
        alone=agent is not None and is_of_one_node(agent), early=[word.value for word in launch.early],
        variable=[word.value for word in launch.command.words if word.from_variable],
    )  # fmt: skip
    inner = f" runs [{'; '.join(_shell(launch.inner))}]" if launch.inner is not None else ""
    return f"{_place(launch.command.place)} starts {' → '.join(map(_stage, launch.stages))}{about}{inner}"


def _as_read(text: str) -> str:
    job = read_job("job.sh", text.replace(" ⏎ ", "\n") + "\n")
    if job.is_slurm:
        zero = zero_of(job)
        sizes = _flags(
            nodes=job.nodes, tasks=job.tasks_per_node, gpus=job.gpus_per_node, cpus=cpus_of_node(job),
            one_task=job.has_one_task, one_gpu=job.has_one_gpu, asks=job.asks_for_gpus, whole=has_whole_nodes(job),
            zero=zero and zero.written, first=job.first_header,
        )  # fmt: skip
        options = [f"{each.name}={each.value} {_place(each.place)}" for each in job.directives]
        late = [f"late {each.name}={each.value} {_place(each.place)}" for each in job.late_directives]
        header = [f"header{sizes} {', '.join(options)}", *late]
    else:
        header = []
    uses = [
        f"use {use.program.name} {'in a step ' if use.step else ''}{use.tasks} × {use.ranks}" for use in uses_of(job)
    ]
    signs = [f"for GPUs {_place(place)} {sign}" for place, sign in signs_of_gpus(job)]
    about = _flags(stops=job.stops_at_errors, off=switched_off(job), declared=sorted(job.declared - {"n"}))
    launches = [_launch(job, each) for each in job.all_launches]
    return "; ".join([*header, *_shell(job.shell), *launches, *uses, *signs]) + about


def test_what_is_read_of_a_script(golden: Callable[[Path, str], None]) -> None:
    lines = []
    for line in _GOLDEN.read_text(encoding="utf-8").splitlines():
        text = line.partition("  # ")[0]
        lines.append(f"{text}  # {_as_read(text[2:])}" if line.startswith("$ ") else line)
    golden(_GOLDEN, "\n".join([*lines, ""]))
