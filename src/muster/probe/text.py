"""What stands in the place of the command first: a few lines of POSIX sh that tell what a rank was given. Pure.

Every rank writes short lines that name it, so the launcher's own stream carries them, in any order, and nothing has to
be shared between hosts. (srun breaks lines beyond 1024 bytes, and mixes the pieces of its tasks.)
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from muster.model.plan import Plan

FAILED_WITH = 7
"""The status with which the failing probe's last rank ends: none that a shell or a launcher gives by itself."""

_MARK = "muster-rehearsal"
_BETWEEN = "\x1f"
_LINE_BREAK = "\x1e"

_TEXT = """\
muster_between=$(printf '\\037')
muster_break=$(printf '\\036')
muster_newline='
'
read -r muster_host </proc/sys/kernel/hostname
muster_tell() {{
    muster_value=$2
    while :; do
        case $muster_value in
        *"$muster_newline"*)
            muster_first=${{muster_value%%"$muster_newline"*}}
            muster_value=$muster_first$muster_break${{muster_value#*"$muster_newline"}}
            ;;
        *) break ;;
        esac
    done
    printf '%s\\n' "{mark}$muster_between$muster_host.$$.${{RANK-}}$muster_between$1=$muster_value$muster_between"
}}
muster_tell host "$muster_host"
for muster_name in {names}; do
    eval "muster_value=\\${{$muster_name-}}; muster_set=\\${{$muster_name+set}}"
    [ -z "$muster_set" ] || muster_tell "env:$muster_name" "$muster_value"
done
for muster_path in {files}; do
    [ -r "$muster_path" ] || muster_tell unreadable "$muster_path"
done
command -v "$1" >/dev/null 2>&1 || muster_tell missing "$1"
for muster_word; do muster_tell argv "$muster_word"; done
"""

_ALWAYS = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "SLURM_CPU_BIND_LIST",
)


class Seen(msgspec.Struct, frozen=True):
    """What one rank told of itself."""

    host: str
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    argv: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    missing: str | None = None
    """The command's program, where the host has none of this name."""

    @property
    def rank(self) -> int | None:
        text = self.environment.get("RANK", "")
        return int(text) if text.isdigit() else None


def probe(command: Sequence[str], *, names: Sequence[str], files: Sequence[str]) -> tuple[str, ...]:
    """Return the words that stand in the place of `command` and tell of it."""
    text = _TEXT.format(
        mark=_MARK,
        names=" ".join(dict.fromkeys((*_ALWAYS, *names))),
        files=" ".join(map(shlex.quote, files)) or "''",
    )
    return ("sh", "-c", text.replace("for muster_path in ''; do", "for muster_path in; do"), _MARK, *command)


def failing_probe(last_rank: int) -> tuple[str, ...]:
    """Return the words under which one rank fails while the others wait: the job has to end with that rank's status."""
    return ("sh", "-c", f'[ "$RANK" != {last_rank} ] || exit {FAILED_WITH}; sleep 600')


def parse(output: str) -> tuple[Seen, ...]:
    """Return what the ranks told, in the order of their ranks; other lines are not theirs."""
    items_by_rank: dict[str, list[str]] = {}
    for line in output.split("\n"):
        _, mark, rest = line.partition(_MARK + _BETWEEN)
        speaker, _, item = rest.partition(_BETWEEN)
        if mark:
            items_by_rank.setdefault(speaker, []).append(item.partition(_BETWEEN)[0])
    return tuple(
        sorted(map(_seen, items_by_rank.values()), key=lambda answer: -1 if answer.rank is None else answer.rank)
    )


def _seen(items: Sequence[str]) -> Seen:
    pairs = [item.replace(_LINE_BREAK, "\n").partition("=")[::2] for item in items]
    return Seen(
        host=next((value for name, value in pairs if name == "host"), ""),
        environment={name.removeprefix("env:"): value for name, value in pairs if name.startswith("env:")},
        argv=tuple(value for name, value in pairs if name == "argv"),
        unreadable=tuple(value for name, value in pairs if name == "unreadable"),
        missing=next((value for name, value in pairs if name == "missing"), None),
    )


def with_command(plan: Plan, command: Sequence[str]) -> Plan:
    """Return the same launch of another command, its lines without labels."""
    return replace(plan, command=tuple(command), label=False)
