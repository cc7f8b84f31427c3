"""Ask this host, once, and return facts. The one place outside the command line that reads the environment.

`look` starts no process: it reads variables and files, so `plan` may use it.
"""

from __future__ import annotations

import os
import pwd
import re
import sys
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from muster.errors import RequestError
from muster.facts import Facts
from muster.job.settings import system_file
from muster.look.programs import on_path
from muster.model.plan import Note
from muster.ownership import SAFE, Trust, nearest
from muster.parts import is_there
from muster.runner import unpacked_folder
from muster.sites.heads import SearchPath

_PACKAGE = Path(__file__).resolve().parent.parent


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
        gpus=_count_gpus(Path("/dev"), Path("/sys/class/kfd/kfd/topology/nodes"), Path("/sys/class/drm")),
        hostname=os.uname().nodename,
        own_python=(sys.executable or None) if is_there("hang-watch") else None,
        own_folder=unpacked_folder(),
        package=str(_PACKAGE),
        ready_folder=str(_PACKAGE / "rank" / "ready"),
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
    return python is not None and Path(python).parent.parent == Path(sys.prefix)


def _rank_library(variables: Mapping[str, str], home: str) -> str:
    """Return the folder that `act/rank_library.py` makes: its name changes with the place of the package."""
    data = variables.get("XDG_DATA_HOME") or f"{home}/.local/share"
    package = os.fsencode(_PACKAGE)
    return f"{data}/muster/rank-library/{zlib.crc32(package):08x}"


def _working_directory(variables: Mapping[str, str]) -> str:
    """Return the directory as the user reached it: /scratch, not the /pfs behind it, which other hosts may not have."""
    physical = os.getcwd()  # noqa: PTH109  # a string is wanted
    logical = variables.get("PWD", "")
    try:
        is_same_folder = logical.startswith("/") and Path(logical).samefile(physical)
    except OSError:
        is_same_folder = False
    return logical if is_same_folder else physical


def _active_python(variables: Mapping[str, str]) -> str | None:
    """Return the python that the user's own shell would start."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        candidate = Path(variables.get(name, "/nowhere")) / "bin" / "python"
        if variables.get(name) and candidate.exists():
            return str(candidate)
    return on_path("python", variables) or on_path("python3", variables)


def _count_gpus(devices: Path, kfd_nodes: Path, drm: Path) -> int:
    """Return the logical GPUs of this host.

    NVIDIA's device files, Intel's cards, or ROCm's nodes with compute units.
    """
    nvidia = [device for device in devices.glob("nvidia*") if re.fullmatch(r"nvidia[0-9]+", device.name)]
    if nvidia:
        return len(nvidia)
    cards = _intel_cards(drm)
    if cards:
        return cards
    gpu_count = 0
    for properties in kfd_nodes.glob("*/properties"):
        text = properties.read_text(errors="replace")
        gpu_count += bool(re.search(r"^simd_count [1-9]", text, re.MULTILINE))
    return gpu_count


def _intel_cards(drm: Path) -> int:
    """Return how many cards Intel's driver has, without the processor's own graphics, which is on bus 00."""
    card_count = 0
    for node in drm.glob("renderD*"):
        device = (node / "device").resolve()
        with suppress(OSError):
            card_count += (device / "vendor").read_text().strip() == "0x8086" and not device.name[5:].startswith("00:")
    return card_count


def settings_files(facts: Facts) -> list[tuple[str, str]]:
    """Return path and text of the settings files that are there and nobody else could write, weakest first."""
    trust = Trust.of(facts.environment)
    files = []
    for path in _candidates(facts):
        if trust.refusal(path):
            continue
        try:
            files.append((str(path), path.read_text(encoding="utf-8")))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError(f"{path} cannot be read: {error}", hint="correct the file or its permissions") from None
    return files


def _candidates(facts: Facts) -> list[Path]:
    project = nearest("muster.toml", Path(facts.working_directory), Path(facts.home))
    return [
        Path(system_file(facts.environment)),
        Path(facts.environment.get("XDG_CONFIG_HOME") or f"{facts.home}/.config") / "muster" / "config.toml",
        *([project] if project else []),
    ]


def settings_notes(facts: Facts) -> list[Note]:
    """Return what to know of the settings: those that somebody else could have written, and those from further up."""
    search = SearchPath.of(facts)
    working_directory = Path(facts.working_directory)
    notes = []
    for path in [*_candidates(facts), *search.files()]:
        refusal = search.trust.refusal(path)
        if refusal:
            notes.append(
                Note(f"{path} is not used: {refusal}\n\nhint: {_SAFER.format(folder=path.parent)}", warning=True)
            )
        elif path.parent != working_directory and path.parent in working_directory.parents and path.is_file():
            notes.append(Note(f"settings of {path} are used"))
    return notes


_SAFER = f"what it names would run as you; chmod go-w, a copy of your own, or: export {SAFE}={{folder}}"
