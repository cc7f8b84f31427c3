"""Ask this host, once, and return facts. The one place outside the command line that reads the environment.

`look` starts no process: it reads variables and files, so `plan` may use it.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
import sys
import zlib
from collections.abc import Mapping
from os import path as paths

from muster.errors import RequestError
from muster.facts import Facts, data_home
from muster.job.settings import system_file
from muster.look.programs import on_path
from muster.model.plan import Note
from muster.ownership import SAFE, AnyPath, Trust, names_in, nearest, text_of
from muster.parts import is_there
from muster.runner import unpacked_folder
from muster.sites.heads import SearchPath

_PACKAGE = paths.dirname(paths.dirname(paths.realpath(__file__)))


def look(environment: Mapping[str, str] | None = None) -> Facts:
    """Return what this process can see by itself."""
    variables = dict(os.environ if environment is None else environment)
    user, own_home = _account(os.getuid())
    home = variables.get("HOME") or own_home
    python = _active_python(variables)
    return Facts(
        environment=variables,
        working_directory=_working_directory(variables),
        home=home,
        user=user,
        python=python,
        gpus=_count_gpus("/dev", "/sys/class/kfd/kfd/topology/nodes", "/sys/class/drm"),
        hostname=os.uname().nodename,
        own_python=(sys.executable or None) if is_there("hang-watch") else None,
        own_folder=unpacked_folder(),
        package=_PACKAGE,
        ready_folder=f"{_PACKAGE}/rank/ready",
        rank_library=None if _is_own(python) else _rank_library(variables, home),
    )


def _account(uid: int) -> tuple[str, str]:
    """Return a user's name and home; the number and / where nobody lists the user, as in many containers."""
    try:
        account = pwd.getpwuid(uid)
    except KeyError:
        return str(uid), "/"
    return account.pw_name, account.pw_dir


def _is_own(python: str | None) -> bool:
    """Return whether the ranks' interpreter is of the environment that Muster itself stands in."""
    return python is not None and paths.dirname(paths.dirname(python)) == sys.prefix


def _rank_library(variables: Mapping[str, str], home: str) -> str:
    """Return the folder that `act/rank_library.py` makes: its name changes with the place of the package."""
    package = os.fsencode(_PACKAGE)
    return f"{data_home(variables, home)}/muster/rank-library/{zlib.crc32(package):08x}"


def _working_directory(variables: Mapping[str, str]) -> str:
    """Return the directory as the user reached it: /scratch, not the /pfs behind it, which other hosts may not have."""
    physical = os.getcwd()
    logical = variables.get("PWD", "")
    try:
        is_same_folder = logical.startswith("/") and paths.samefile(logical, physical)
    except OSError:
        is_same_folder = False
    return logical if is_same_folder else physical


def _active_python(variables: Mapping[str, str]) -> str | None:
    """Return the python that the user's own shell would start."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        candidate = f"{variables.get(name)}/bin/python"
        if variables.get(name) and paths.exists(candidate):
            return candidate
    return on_path("python", variables) or on_path("python3", variables)


def _count_gpus(devices: AnyPath, kfd_nodes: AnyPath, drm: AnyPath) -> int:
    """Return the logical GPUs of this host.

    NVIDIA's device files, Intel's cards, or ROCm's nodes with compute units.
    """
    nvidia = [name for name in names_in(devices) if name.startswith("nvidia") and name[6:].isdecimal()]
    if nvidia:
        return len(nvidia)
    cards = _intel_cards(drm)
    if cards:
        return cards
    gpu_count = 0
    for node in names_in(kfd_nodes):
        properties = text_of(paths.join(kfd_nodes, node, "properties"))
        gpu_count += bool(re.search(r"^simd_count [1-9]", properties, re.MULTILINE))
    return gpu_count


def _intel_cards(drm: AnyPath) -> int:
    """Return how many cards Intel's driver has, without the processor's own graphics, which is on bus 00."""
    nodes = [name for name in names_in(drm) if name.startswith("renderD")]
    devices = [paths.realpath(paths.join(drm, node, "device")) for node in nodes]
    cards = [device for device in devices if text_of(f"{device}/vendor").strip() == "0x8086"]
    return sum(not paths.basename(card)[5:].startswith("00:") for card in cards)


def settings_files(facts: Facts) -> list[tuple[str, str]]:
    """Return path and text of the settings files that are there and nobody else could write, weakest first."""
    trust = Trust.of(facts.environment)
    files = []
    for path in _candidates(facts):
        if trust.refusal(path):
            continue
        try:
            if stat.S_ISFIFO(os.stat(path).st_mode):  # it would be waited for, for ever
                raise RequestError(f"{path} is a pipe, not a file", hint="correct the file or its permissions")
            with open(path, encoding="utf-8-sig") as stream:
                files.append((path, stream.read()))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise RequestError(f"{path} cannot be read: {error}", hint="correct the file or its permissions") from None
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise RequestError(f"{path}:{line}: is not UTF-8 text", hint="save it as UTF-8") from None
    return files


def _candidates(facts: Facts) -> list[str]:
    project = nearest("muster.toml", facts.working_directory, facts.home)
    return [
        system_file(facts.environment),
        f"{facts.environment.get('XDG_CONFIG_HOME') or f'{facts.home}/.config'}/muster/config.toml",
        *([project] if project else []),
    ]


def settings_notes(facts: Facts) -> list[Note]:
    """Return what to know of the settings: those that somebody else could have written, and those from further up."""
    search = SearchPath.of(facts)
    notes = []
    for path in [*_candidates(facts), *search.files()]:
        refusal = search.trust.refusal(path)
        if refusal:
            hint = _SAFER.format(folder=paths.dirname(path))
            notes.append(Note(f"{path} is not used: {refusal}\n\nhint: {hint}", warning=True))
        elif facts.working_directory.startswith(paths.join(paths.dirname(path), "")) and paths.isfile(path):
            notes.append(Note(f"settings of {path} are used"))
    return notes


_SAFER = f"what it names would run as you; chmod go-w, a copy of your own, or: export {SAFE}={{folder}}"
