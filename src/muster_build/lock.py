"""`muster build lock`: which wheels the target needs, to the byte, and a wheelhouse that holds them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from muster.errors import RequestError
from muster.rank.vendors import vendor_of
from muster.runner import Runner, run
from muster_build.pins import Pin, for_other_gpus, of_no_kind, pins_of_conda, pins_of_requirements
from muster_build.pip import offline_words, pip

Say = Callable[[str], None]


USUAL_GLIBC = "2.28"


class LockOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be locked, and for which machine."""

    requirements: Path
    output: Path | None = None
    wheelhouse: Path | None = None
    arch: str | None = None
    glibc: str = USUAL_GLIBC
    python_version: str | None = None
    gpu_kind: str | None = None
    find_links: Path | None = None
    offline: bool = False


def read_pins(order: LockOrder) -> list[Pin]:
    """Return every package of the file, and how firmly it is named; one for other GPUs than the target's is refused."""
    pins = look_at_pins(order.requirements, order.gpu_kind)
    if not pins:
        raise RequestError(
            f"{order.requirements} names no package", hint="give a requirements file or a conda environment file"
        )
    return pins


def look_at_pins(file: Path, gpu_kind: str | None) -> list[Pin]:
    """Read the pins of a file, which may also only point to other files."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(
            f"{file} cannot be read: {error}", hint="give a requirements file or a conda environment file"
        ) from None
    pins = list(pins_of_conda(text) if file.suffix in {".yml", ".yaml"} else pins_of_requirements(text))
    if gpu_kind is not None:
        _check_kind(pins, text, gpu_kind)
    return pins


def _check_kind(pins: list[Pin], text: str, kind: str) -> None:
    hint = f"name the build for {kind}: examples/environments has one"
    if wrong := for_other_gpus(pins, kind):
        raise RequestError(f"{_shown(wrong)}: made for other GPUs than {kind}", hint=hint)
    vendor = vendor_of(kind)
    if vendor is not None and not vendor.on_package_index and (silent := of_no_kind(pins, text, kind)):
        raise RequestError(
            f"{_shown(silent)}: no build for {vendor.software} is named, "
            "and without one the package index gives another",
            hint=hint,
        )


def _shown(pins: list[Pin]) -> str:
    return ", ".join(pin.words.split(" --hash")[0] for pin in pins)


def notes_on(pins: Sequence[Pin]) -> Iterator[str]:
    """Yield what to know of a file before anything is built from it, a sentence each."""
    loose = [pin.name for pin in pins if pin.level == "unpinned"]
    if loose:
        yield f"warning: not pinned, so the next build may install other versions: {', '.join(loose)}"


def build_lock(order: LockOrder, python: Path, environment: Mapping[str, str], say: Say, runner: Runner = run) -> int:
    """Write the lock, and fill the wheelhouse; returns how many packages there are."""
    if order.output is None:
        raise RequestError("no file is named for the lock", hint="-o LOCK")
    hint = "conda env export --prefix DIR writes the builds of an environment that conda has made of it"
    refuse_conda(order.requirements, hint)
    target = list(_target(order))
    _check_places(order.output, order.wheelhouse)
    source = offline_words(order.find_links, offline=order.offline)
    say("asking which wheels fit the target")
    words = ["install", "--dry-run", "--quiet", "--ignore-installed", "--report", "-", *source, *target]
    output = pip(python, [*words, "--requirement", str(order.requirements)], environment, runner)
    lines = sorted(_locked(json.loads(output.stdout[output.stdout.index("{") :])))
    draft = order.output.with_name(f".{order.output.name}.part-{os.getpid()}")
    try:
        draft.write_text("".join(f"{line}\n" for line in [*_index_lines(order.requirements), *lines]))
        if order.wheelhouse is not None:
            order.wheelhouse.mkdir(parents=True, exist_ok=True)
            say(f"fetching {len(lines)} wheel{'s' * (len(lines) != 1)} into {order.wheelhouse}")
            download_options = ["--dest", str(order.wheelhouse), "--require-hashes", "--requirement", str(draft)]
            download = [word for word in target if not word.startswith("--target")]
            pip(
                python, ["download", "--quiet", "--no-deps", *source, *download, *download_options], environment, runner
            )
        draft.replace(order.output)
    finally:
        draft.unlink(missing_ok=True)
    return len(lines)


def refuse_conda(file: Path, hint: str) -> None:
    """Refuse a file of conda's environments where pip would read it."""
    if file.suffix in {".yml", ".yaml"}:
        raise RequestError("a conda file is only judged: conda alone finds out which builds go together", hint=hint)


def _check_places(output: Path, wheelhouse: Path | None) -> None:
    """Refuse a place that cannot be written, before pip is asked: that takes minutes."""
    if output.is_dir():
        raise RequestError(f"-o {output} is a directory", hint="name a file: -o lock.txt")
    if not os.access(output.absolute().parent, os.W_OK):
        raise RequestError(f"-o {output}: you cannot write there", hint="name a file in a directory that you can write")
    if wheelhouse is not None and wheelhouse.exists() and not wheelhouse.is_dir():
        raise RequestError(f"--wheelhouse {wheelhouse} is not a directory", hint="name a folder: it is made")


_ARCHES = ("x86_64", "aarch64", "ppc64le", "s390x")
"""The machines that wheels for Linux are made for and that clusters have."""


def _target(order: LockOrder) -> Iterator[str]:
    """Yield the words that mean another machine.

    Wheels only, of its Python, architecture and C library or an older one.
    """
    if order.arch is not None and order.arch not in _ARCHES:
        raise RequestError(f"--arch {order.arch}: no wheels are made for it", hint=f"known: {', '.join(_ARCHES)}")
    arch = order.arch or os.uname().machine
    major, _, minor = order.glibc.partition(".")
    if major != "2" or not minor.isdigit() or int(minor) < 17:
        raise RequestError(
            f"--glibc {order.glibc} is not a version of 2.17 or newer", hint="ldd --version on the target shows it"
        )
    if order.arch is None and order.python_version is None and order.glibc == USUAL_GLIBC:
        return
    yield from ("--only-binary=:all:", "--target=.")
    for number in range(int(minor), 4, -1):
        yield f"--platform=manylinux_2_{number}_{arch}"
    yield from (f"--platform=manylinux2014_{arch}", f"--platform=linux_{arch}")
    if order.python_version is not None:
        yield f"--python-version={order.python_version}"
        yield "--implementation=cp"


def _locked(report: Mapping[str, list[dict[str, dict[str, dict[str, dict[str, str]]]]]]) -> Iterator[str]:
    for item in report["install"]:
        metadata = item["metadata"]
        hashes = item["download_info"].get("archive_info", {}).get("hashes", {})
        if "sha256" not in hashes:
            raise RequestError(
                f"{metadata['name']} is not an archive, so it cannot be locked",
                hint="name a release from the package index",
            )
        name = str(metadata["name"]).lower().replace("_", "-")
        yield f"{name}=={metadata['version']} --hash=sha256:{hashes['sha256']}"


def _index_lines(requirements: Path) -> list[str]:
    starts = ("--index-url", "--extra-index-url", "-i ", "--find-links", "-f ")
    return [line for line in requirements.read_text("utf-8-sig").splitlines() if line.startswith(starts)]
