"""Look at an image and at the paths that a command in it is to see. Reads files, starts nothing: `plan` may use it."""

from __future__ import annotations

import os
import re
import shutil
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from muster.facts import Facts, ImageFacts
from muster.job.request import Request
from muster.plan.image_engine import reference_of
from muster.plan.image_paths import absolute_paths
from muster.plan.mounts import without_tilde
from muster.sites.load import Site

__all__ = ["look_at_image", "look_at_path"]

_SIF_ARCH = {b"01": "i386", b"02": "x86_64", b"03": "arm", b"04": "aarch64", b"05": "ppc64", b"06": "ppc64le"}
_ELF_ARCH = {0x3E: "x86_64", 0xB7: "aarch64", 0x15: "ppc64le", 0x03: "i386", 0xF3: "riscv64"}
_SHELLS = ("bin/sh", "usr/bin/sh")
# Some program that every image of a Linux distribution has.
_PROGRAMS = ("bin/busybox", "usr/bin/env", "bin/sh", "usr/bin/python3", "bin/cat")


def look_at_image(request: Request, site: Site, facts: Facts) -> Facts:
    """The facts, with those of the image if one was asked for."""
    reference = reference_of(request, site, facts)
    if reference is None:
        return facts
    project = _project_of(Path(facts.working_directory))
    package = Path(__file__).resolve().parent.parent
    found = look_at_path(Path(reference.path)) if reference.path is not None else ImageFacts()
    wanted = list(absolute_paths([*request.command, *request.env]))
    image = reference.path if found.kind == "sandbox" else None
    return replace(
        facts,
        image=replace(
            found,
            glibc_needed=_glibc_needed(site),
            inside=frozenset(path for path in wanted if image and _is_inside(Path(image), path)),
            real_paths=_real_paths([*wanted, *_bound(request, site, facts, project)]),
            project=str(project) if project else None,
            programs=_programs(facts.environment),
            package=str(package),
            machine=os.uname().machine,
            gpu_kind=_gpu_kind(),
        ),
    )


def look_at_path(path: Path) -> ImageFacts:
    """What lies there, by its content: a name may say anything."""
    try:
        if path.is_dir():
            return _look_at_directory(path)
        with path.open("rb") as file:
            return _look_at_file(path, file)
    except (FileNotFoundError, NotADirectoryError):
        return ImageFacts(kind="missing")
    except OSError as error:
        return ImageFacts(kind="file", broken=f"it cannot be read: {error.strerror}")


def _look_at_directory(path: Path) -> ImageFacts:
    if not any((path / name).is_dir() for name in ("bin", "usr", ".singularity.d")):
        return ImageFacts(kind="directory")
    return ImageFacts(
        kind="sandbox",
        arch=next(_elf_architectures(path), None),
        has_sh=any(_is_inside(path, name) for name in _SHELLS),
        has_rank_library=any(path.glob("usr/**/python3*/*-packages/muster/rank/contract.py")),
        made_for=_made_for(path),
        glibc=next(_glibc_of(path), None),
    )


# Where the makers of GPUs put their software.
_STACKS = {"cuda": "usr/local/cuda*", "rocm": "opt/rocm*"}
_GLIBC_SAYS = re.compile(rb"GNU C Library [^\n]*version (\d+)\.(\d+)")
_GLIBC_WANTS = re.compile(rb"GLIBC_(\d+)\.(\d+)")


def _made_for(image: Path) -> str | None:
    """The one kind of GPU whose software the image holds; None: it has none, or both."""
    found = [kind for kind, places in _STACKS.items() if any(image.glob(places))]
    return found[0] if len(found) == 1 else None


def _glibc_of(image: Path) -> Iterator[tuple[int, int]]:
    for place in ("lib/*-linux-gnu", "usr/lib/*-linux-gnu", "lib64", "usr/lib64"):
        for library in image.glob(f"{place}/libc.so.6"):
            said = _GLIBC_SAYS.search(_content(library))
            if said is not None:
                yield int(said[1]), int(said[2])


def _glibc_needed(site: Site) -> dict[str, tuple[int, int]]:
    """Of the host's libraries that the profile binds into images, as far as this host has them."""
    paths = {bind.path for each in site.profile.containers.values() for bind in each.binds if ".so" in bind.path}
    wants = {path: _GLIBC_WANTS.findall(_content(Path(path))) for path in paths}
    return {path: max((int(one), int(two)) for one, two in found) for path, found in wants.items() if found}


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _is_inside(image: Path, path: str) -> bool:
    """Whether a sandbox has this path; its links count from its own root."""
    rest = path.split("/")
    place: list[str] = []
    for _ in range(256):
        if not rest:
            return True
        name = rest.pop(0)
        here = image.joinpath(*place, name)
        if name == "..":
            place = place[:-1]
        elif name in {"", "."}:
            continue
        elif here.is_symlink():
            target = os.fspath(here.readlink())
            place = [] if target.startswith("/") else place
            rest = [*target.split("/"), *rest]
        elif here.exists():
            place.append(name)
        else:
            return False
    return False


def _elf_architectures(image: Path) -> Iterator[str]:
    for name in _PROGRAMS:
        try:
            with (image / name).open("rb") as file:
                head = file.read(20)
        except OSError:
            continue
        if len(head) == 20 and head[:4] == b"\x7fELF":
            (machine,) = struct.unpack("<H" if head[5] == 1 else ">H", head[18:20])
            if machine in _ELF_ARCH:
                yield _ELF_ARCH[machine]


def _look_at_file(path: Path, file: BinaryIO) -> ImageFacts:
    head = file.read(128)
    if head[32:41] == b"SIF_MAGIC":
        return _look_at_sif(path, head)
    if head[:4] == b"hsqs":
        used = int.from_bytes(head[40:48], "little")
        short = len(head) < 48 or path.stat().st_size < used
        return ImageFacts(kind="squashfs", broken=_TRUNCATED if short else None)
    if path.suffix == ".toml":
        return ImageFacts(kind="edf", broken=_toml_error(path))
    if path.suffix in {".sif", ".sqsh"}:
        kind = "sif" if path.suffix == ".sif" else "squashfs"
        what = "it is empty" if not head else f"its first bytes are not those of a {path.suffix} file"
        return ImageFacts(kind=kind, broken=what)
    return ImageFacts(kind="file")


_TRUNCATED = "it is shorter than it says: a copy or a download was cut off"


def _look_at_sif(path: Path, head: bytes) -> ImageFacts:
    """The header of the format: architecture at byte 45, and at 112 where the data begins and how long it is."""
    if len(head) < 128:
        return ImageFacts(kind="sif", broken=_TRUNCATED)
    begin, length = struct.unpack("<qq", head[112:128])
    short = path.stat().st_size < begin + length
    return ImageFacts(kind="sif", arch=_SIF_ARCH.get(head[45:47]), broken=_TRUNCATED if short else None)


def _toml_error(path: Path) -> str | None:
    import tomllib

    try:
        tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return f"it is not TOML: {error}"
    return None


def _bound(request: Request, site: Site, facts: Facts, project: Path | None) -> Iterator[str]:
    """Paths that will be bound, whichever engine it will be."""
    here = Path(facts.working_directory)
    yield from (facts.home, str(here), str(here / (request.chdir or "")), *([str(project)] if project else []))
    yield "/tmp"  # noqa: S108  # the node's own
    for text in request.bind:
        yield str(here / without_tilde(text.partition(":")[0], facts.home))
    for container in site.profile.containers.values():
        yield from (bind.path for bind in container.binds)


def _real_paths(paths: Iterable[str]) -> dict[str, str]:
    found = {}
    for path in paths:
        try:
            found[path] = str(Path(path).resolve(strict=True))
        except (OSError, RuntimeError, ValueError):
            continue
    return found


def _project_of(start: Path) -> Path | None:
    """The nearest directory upward that is a project's top: it has muster.toml or is a work tree of git."""
    return next(
        (each for each in (start, *start.parents) if (each / "muster.toml").is_file() or (each / ".git").exists()), None
    )


def _programs(environment: Mapping[str, str]) -> dict[str, str]:
    found = {name: shutil.which(name, path=environment.get("PATH")) for name in ("apptainer", "singularity")}
    return {name: path for name, path in found.items() if path is not None}


def _gpu_kind() -> str | None:
    if Path("/dev/nvidiactl").exists():
        return "cuda"
    return "rocm" if Path("/dev/kfd").exists() else None
