"""A script of somebody else runs in a box, with stub programs; what its ranks and its end are like is written down."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .jobs import folder_of_header, sizes_of, write_tools

__all__ = ["Outcome", "Rank", "run_boxed", "started_runs"]

Rank = dict[str, Any]
_SECONDS = 240
_FEW = 20
_PROGRAMS = """
mpiexec.hydra mpiexecjl orterun ibrun horovodrun jsrun deepspeed podman podman-hpc docker shifter conda mamba
micromamba uv poetry pipenv pixi wandb julia Rscript numactl nsys ncu taskset record files
python3.6 python3.7 python3.8 python3.9 python3.10 python3.11 python3.12
""".split()  # noqa: SIM905  # a page of names, not of quotes
_QUIET = """
nvcc ray sleep sbatch squeue scancel sacct sinfo sbcast salloc sattach nvidia-cuda-mps-control git wget curl ssh
rsync enroot
""".split()  # noqa: SIM905  # a page of names, not of quotes

# Functions of the script's own shell. A folder or a file that a script of another machine goes to or reads is made, and
# noted, so that it does not end there; what a module or an environment brings is a word in a variable.
_FUNCTIONS = r"""
stub_make() { [ -e "$1" ] || { mkdir -p -- "$1" && printf '%s\n' "$1" >>/tmp/.made; }; }
cd() { builtin cd "$@" 2>/dev/null || { [ -n "${*: -1}" ] && stub_make "${@: -1}" && builtin cd "$@"; }; }
pushd() { stub_make "${@: -1}"; builtin pushd "$@"; }
stub_read() {
  case $1 in
  */bin/activate) stub_activate "${1%/bin/activate}" ;;
  *) [ -e "$1" ] || { stub_make "$(dirname "$1")"; : >"$1"; readlink -f "$1" >>/tmp/.made; } ;;
  esac
}
stub_activate() {
  [ -e "$1/bin/activate" ] || {
    stub_make "$1/bin"
    # With the name of an environment it is conda's.
    printf 'case ${1-} in "" | */activate) VIRTUAL_ENV="%s"; export VIRTUAL_ENV ;; esac\n' "$1" >"$1/bin/activate"
    cp /stub.d/python "$1/bin/python"
    readlink -f "$1/bin/activate" "$1/bin/python" >>/tmp/.made
  }
}
source() { stub_read "$1"; builtin source "$@"; }
.() { stub_read "$1"; builtin . "$@"; }
module() { [ "$1" != load ] && [ "$1" != add ] || export STUB_MODULES="$STUB_MODULES ${*:2}"; }
ml() { case $1 in load) module "$@" ;; -* | purge | list | '') ;; *) module load "$@" ;; esac; }
which() { command -v "${@: -1}" || echo "/opt/stubs/${*: -1}"; }
date() { command date ${STUB_LATER:+--date="$STUB_LATER"} "$@"; }
command_not_found_handle() { /stub.d/record "$@"; }
export -f cd pushd stub_make stub_read stub_activate source . module ml which date command_not_found_handle
"""
_TRACE = r"""
builtin source /stub.d/.functions
export BASH_ENV=/stub.d/.functions
sleep() { :; }
export -f sleep
set -T
trap 'export STUB_LINE="$LINENO ${BASH_LINENO[*]} / ${BASH_SOURCE[*]}"' DEBUG
"""


class Outcome(NamedTuple):
    """What a script did: its ranks, its exit status, the files at its end, and what it said last."""

    ranks: list[Rank]
    status: int
    files: dict[str, str]
    said: str
    given: dict[str, str]
    """The variables that it was started with."""


def run_boxed(
    script: str,
    *,
    given: Mapping[str, str] = {},
    traced: bool = False,
    programs: Iterable[str] = (),
    later: bool = False,
) -> Outcome:
    """Return what a script does in a box without network; `traced`: each rank knows the line that started it.

    The box has an empty root in memory, the programs of this machine to read, and one folder of this machine to write,
    /srv, which is removed afterwards. `programs` are made there: paths of programs that are not of this machine.
    `later`: at another time of another day, with other numbers of processes.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for each in ("work", "tools"):
            (folder / each).mkdir()
        _write_tools(folder / "tools")
        (folder / "work/job.sh").write_text(script)
        environment = _environment(script, given)
        start = f"BASH_ENV=/stub.d/.{'trace' if traced else 'functions'} bash job.sh {_arguments(script)}"
        if folder_name := folder_of_header(script):
            start = f". /stub.d/.functions; cd {shlex.quote(folder_name)}; {start.replace('job.sh', '/srv/job.sh')}"
        if later:
            environment["STUB_LATER"] = "1 day 1 hour 1 minute 1 second"
            start = f"for each in 1 2 3 4 5 6 7; do /bin/true; done; {start}"
        finish = "status=$?\ncd /srv; STUB_RECORD=/srv/.end /stub.d/files; exit $status"
        text = f": >/dev/fuse\n{_make(programs)}\n{start}\n{finish}"
        try:
            done = subprocess.run(
                [*_box(folder), "bash", "-c", text], env=environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            done = subprocess.CompletedProcess(error.cmd, 124, stderr=f"it did not end in {_SECONDS} s".encode())
        ranks, ends = _records(folder / "work/.ranks"), _records(folder / "work/.end")
    said = done.stderr.decode(errors="replace").strip().splitlines()
    last = next((line for line in said if "error" in line or "muster" in line), said[-1] if said else "")
    return Outcome(ranks, done.returncode, ends[0]["files"] if ends else {}, last, environment)


def started_runs(ranks: list[Rank]) -> list[list[Rank]]:
    """Return the ranks by the command of the script that started them, each in the order of its ranks."""
    runs: dict[str, list[Rank]] = {}
    for rank in ranks:
        runs.setdefault(rank["run"], []).append(rank)
    return [sorted(run, key=lambda rank: int(rank["rank"])) for run in runs.values()]


def _box(folder: Path) -> list[str]:
    box = ["bwrap", "--tmpfs", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "--die-with-parent"]
    box += ["--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc", "--tmpfs", "/usr/local"]
    for place in (sys.base_prefix, sys.prefix):
        box += ["--ro-bind", place, place]
    for place in ("bin", "lib", "lib64", "sbin"):
        box += ["--symlink", f"usr/{place}", f"/{place}"]
    for place in ("/tmp", "/var/tmp", "/home/ada"):
        box += ["--dir", place]
    libraries = Path("/usr/lib64")  # where images of one site look for files that no other machine has
    if libraries.is_dir() and len(own := [*libraries.iterdir()]) < _FEW:
        box += ["--tmpfs", str(libraries)]
        box += [word for path in own for word in ("--ro-bind", str(path.resolve()), str(path))]
    box += ["--ro-bind", "/dev/null", "/etc/profile", "--tmpfs", "/etc/profile.d"]
    return [
        *box,
        "--bind",
        str(folder / "work"),
        "/srv",
        "--ro-bind",
        str(folder / "tools"),
        "/stub.d",
        "--chdir",
        "/srv",
    ]


def _write_tools(tools: Path) -> None:
    write_tools(tools, _PROGRAMS)
    for name in ("module", "ml", "activate"):
        (tools / name).unlink()
    for name in _QUIET:
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    (tools / ".functions").write_text(_FUNCTIONS)
    (tools / ".trace").write_text(_TRACE)


def _environment(script: str, given: Mapping[str, str]) -> dict[str, str]:
    return {
        "PATH": "/stub.d:/usr/bin:/bin:/opt/stubs", "HOME": "/home/ada", "USER": "ada", "LANG": "C.UTF-8",
        "TERM": "xterm", "STUB_RECORD": "/srv/.ranks",
        "STUB_WHOLE": "1", "STUB_TOOLS": "/stub.d", "STUB_PYTHON": sys.executable,
        "STUB_SKIPS": f"{sys.prefix}:{sys.base_prefix}", "STUB_MODULES": "", "SLURM_SUBMIT_DIR": "/srv",
        "SLURM_JOB_ID": "4711", "SLURM_JOBID": "4711", **sizes_of(script), **given,
    }  # fmt: skip


def _arguments(script: str) -> str:
    """Return arguments for a script that reads some: each is its own number."""
    numbers = [int(number) for number in re.findall(r"\$\{?([1-9])\b", script)]
    several = 2 if re.search(r"\$\{?[@*]", script) else 0
    return " ".join(map(str, range(1, max([several, *numbers]) + 1)))


def _make(programs: Iterable[str]) -> str:
    """Return the commands that put a stub where a script names a program; a path with / behind it is a folder."""
    lines = []
    for path in dict.fromkeys(programs):
        if path.endswith("/"):
            lines.append(f'mkdir -p "{path}" && echo "{path}" >>/tmp/.made')
            continue
        path = path if "/" in path else f"/opt/stubs/{path}"  # noqa: PLW2901  # a name: found last on PATH
        made = f'f="{path}"; [ -e "$f" ] || {{ mkdir -p "$(dirname "$f")"; '
        if path.endswith(".sh"):
            made += """printf '#!/bin/bash\\nexec /stub.d/record "$0" "$@"\\n' >"$f"; """
        else:
            made += 'g="/stub.d/$(basename "$f")"; [ -e "$g" ] || g=/stub.d/record; cp "$g" "$f"; '
        lines.append(f'{{ {made} chmod 755 "$f"; readlink -f "$f" >>/tmp/.made; }}; }} 2>/dev/null')
    return "\n".join(lines)


def _records(path: Path) -> list[Rank]:
    return [ast.literal_eval(line) for line in path.read_text().splitlines()] if path.exists() else []
