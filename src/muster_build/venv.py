"""`muster build venv`: a virtual environment, under the modules it will run with, and what it was built with.

A virtual environment knows its own path, so it is built where it will stay; `muster.json` is written last, and a
directory without it is not finished.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from muster.errors import CommandFailed, RequestError
from muster.runner import Runner, checked, run
from muster_build.draft import digest_of_inputs, digest_of_path, is_up_to_date, remove
from muster_build.lock import look_at_pins, notes_on, refuse_conda
from muster_build.pip import offline_words, pip

Say = Callable[[str], None]
RECORD = "muster.json"
_BUILDING = "muster-is-building"

# What compilers use of a CPU where they are told to use what is there: by these, nodes of a cluster differ.
_FLAGS = ("avx", "avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "asimd", "sve", "sve2")
_ASK = f"""
import json, os, platform, sys
FLAGS = {_FLAGS}
"""
_ASK += """
found = {"cpu_flags": []}
try:
    with open("/proc/cpuinfo") as file:
        said = next((line for line in file if line.startswith(("flags", "Features"))), "").split()
    found["cpu_flags"] = [each for each in FLAGS if each in said]
except OSError:
    pass
found |= {"python": platform.python_version(), "arch": platform.machine(), "glibc": " ".join(platform.libc_ver())}
try:
    import torch
    found.update(torch=torch.__version__, cuda=torch.version.cuda, hip=torch.version.hip)
    found.update(xpu=getattr(torch.version, "xpu", None))
    found["nccl"] = ".".join(map(str, torch.cuda.nccl.version())) if torch.version.cuda else None
except ImportError:
    pass
print(json.dumps(found))
"""


class VenvOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be built, and where."""

    directory: Path
    python: str = "python3"
    requirements: tuple[Path, ...] = ()
    modules: tuple[str, ...] = ()
    module_use: tuple[str, ...] = ()
    wheelhouse: Path | None = None
    offline: bool = False
    replace: bool = False
    gpu_kind: str | None = None
    """Of the nodes that it is for: packages for others are refused."""


def build_venv(order: VenvOrder, environment: Mapping[str, str], say: Say, *, runner: Runner = run) -> bool:
    """Build it; False: what is there was built from the same."""
    if os.pathsep in str(order.directory.absolute()):
        message = f"{order.directory.absolute()} holds a colon, which PATH cannot have: no environment works there"
        raise RequestError(message, hint="name a folder without one")
    pip_options = offline_words(order.wheelhouse, offline=order.offline)
    module_environment = _with_modules(order, environment, runner)
    program = shutil.which(order.python, path=module_environment.get("PATH"))
    if program is None:
        raise RequestError(
            f"there is no Python {order.python}",
            hint="load the site's Python with --module, or give the path of a Python",
        )
    inputs = _inputs(order, program)
    for file in order.requirements:
        refuse_conda(file, f"conda env create --prefix DIR --file {file}, then --conda DIR")
        for note in notes_on(look_at_pins(file, order.gpu_kind)):
            say(f"{file}: {note}")
    record = order.directory / RECORD
    if (order.directory / _BUILDING).exists():
        say(f"{order.directory} was left half-built: it is built again")
        remove(order.directory)
    if is_up_to_date(order.directory, record, inputs, replace=order.replace):
        say(f"{order.directory} is up to date")
        return False
    with _in_place(order.directory):
        say(f"building {order.directory} with {program}")
        made = runner([program, "-m", "venv", str(order.directory)], env=module_environment, timeout_s=600)
        checked(made, hint=_hint_of_venv(order.directory))
        python = order.directory / "bin/python"
        for file in order.requirements:
            say(f"installing what {file} lists")
            pip(python, ["install", "--quiet", *pip_options, "--requirement", str(file)], module_environment, runner)
        facts = _look(python, module_environment, runner)
        order_facts = {
            "modules": order.modules,
            "requirements": [str(f) for f in order.requirements],
        }
        build_time = dt.datetime.now(tz=dt.timezone.utc).isoformat(timespec="seconds")
        record.write_text(
            json.dumps({"muster_build": 1, "built": build_time, "inputs": inputs, **facts, **order_facts}, indent=2)
        )
    return True


@contextmanager
def _in_place(directory: Path) -> Iterator[None]:
    """Keep the place free and marked while it is built; on any failure it is again as it was."""
    if not directory.parent.is_dir():
        raise RequestError(f"the directory {directory.parent} is not there", hint="make it, or give another place")
    old = directory.with_name(f".{directory.name}.old-{os.getpid()}")
    if directory.exists():
        directory.rename(old)
    try:
        directory.mkdir()
        (directory / _BUILDING).touch()
        yield
        (directory / _BUILDING).unlink()
    except BaseException:
        remove(directory)
        if old.exists():
            old.rename(directory)
        raise
    remove(old)


_LEAST_FREE_MIB = 64


def _hint_of_venv(directory: Path) -> str:
    """Return why the module venv may have failed: on a full disk it does not say so itself."""
    free_mib = shutil.disk_usage(directory).free // 2**20
    if free_mib < _LEAST_FREE_MIB:
        return f"only {free_mib} MiB are free in {directory.parent}: make room there, or name another place"
    return "its Python needs the module venv: on Debian, python3-venv"


def _first_of(name: str) -> str:
    """Return the shell text that loads a module, or the first of `A|B` that can be loaded."""
    return " || ".join(f"module load {shlex.quote(module)}" for module in name.split("|"))


def _with_modules(order: VenvOrder, environment: Mapping[str, str], runner: Runner) -> dict[str, str]:
    """Return the environment after `module purge` and the loads.

    Without modules, the user's own less what is active.
    """
    hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "__PYVENV_LAUNCHER__"}
    clean = {name: value for name, value in environment.items() if name not in hidden}
    if not order.modules and not order.module_use:
        return clean
    steps = ["module purge", *(f"module use {shlex.quote(folder)}" for folder in order.module_use)]
    loads = [f"{_first_of(name)} || exit 1" for name in order.modules]
    text = "; ".join([*steps, *loads, "exec env -0"])
    result = runner(["bash", "-lc", text], env=clean, timeout_s=120)
    if not result.ok or "\0" not in result.stdout:
        last = (result.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise CommandFailed(
            ["module"],
            result.status,
            "",
            f"the modules cannot be loaded: {last}",
            hint="module avail lists what there is; where only the compute nodes have modules: --job",
        )
    return dict(line.split("=", 1) for line in result.stdout.split("\0") if "=" in line)


def _inputs(order: VenvOrder, program: str) -> str:
    files = [digest_of_path(file) for file in order.requirements]
    return digest_of_inputs({"python": str(Path(program).resolve()), "files": files, "modules": order.modules})


def _look(python: Path, environment: Mapping[str, str], runner: Runner) -> dict[str, str | list[str] | None]:
    """Return what it turned out to be; a torch that cannot be loaded shows here."""
    result = checked(
        runner([str(python), "-c", _ASK], env=environment, timeout_s=300),
        hint="the installed packages cannot be loaded: nothing was put in place",
    )
    document: dict[str, str | list[str] | None] = json.loads(result.stdout.strip().splitlines()[-1])
    return document
