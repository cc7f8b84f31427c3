"""Look at an image and at the paths that a command in it is to see. Reads files, starts nothing: `plan` may use it."""

from __future__ import annotations

import os
import re
import shutil
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from msgspec.structs import replace

from muster.facts import Facts, ImageFacts, VenvFacts
from muster.images import engine_named, engines_in_options
from muster.job.request import Request
from muster.look.venv_record import version_of_venv
from muster.older import tomllib
from muster.plan.image_engine import reference_of
from muster.plan.image_paths import absolute_paths
from muster.plan.python_environment import venv_in_image
from muster.rank.vendors import VENDORS, kind_of_version, vendor_here
from muster.sites.site import Site

_SIF_ARCH = {b"01": "i386", b"02": "x86_64", b"03": "arm", b"04": "aarch64", b"05": "ppc64", b"06": "ppc64le"}
_ELF_ARCH = {0x3E: "x86_64", 0xB7: "aarch64", 0x15: "ppc64le", 0x03: "i386", 0xF3: "riscv64"}
_SHELLS = ("bin/sh", "usr/bin/sh")
# Some program that every image of a Linux distribution has.
_PROGRAMS = ("bin/busybox", "usr/bin/env", "bin/sh", "usr/bin/python3", "bin/cat")


def look_at_image(request: Request, site: Site, facts: Facts) -> Facts:
    """Return the facts, with those of the image if one was asked for."""
    dated_path = _kept_today(request, site)
    if dated_path is not None:
        facts = replace(facts, image=ImageFacts(kept=dated_path))
    reference = reference_of(request, site, facts)
    if reference is None:
        return facts
    project = _project_of(Path(facts.working_directory))
    package = Path(__file__).resolve().parent.parent
    glibc_paths = _glibc_needed(site)
    venv_folder = venv_in_image(request, facts)
    wanted_glibc = bool(glibc_paths) or venv_folder is not None
    image_facts, tree = ImageFacts(), None
    if reference.path is not None:
        image_facts, tree = _look(Path(reference.path), glibc=wanted_glibc)
    wanted_paths = list(absolute_paths([*request.command, *request.env]))
    return replace(
        facts,
        image=replace(
            image_facts,
            kept=dated_path,
            glibc_needed=glibc_paths,
            inside=frozenset(path for path in wanted_paths if tree is not None and _has(tree, path)),
            real_paths=_real_paths([*wanted_paths, *_bound(request, site, facts, project)]),
            project=str(project) if project else None,
            programs=_programs(facts.environment),
            package=str(package),
            machine=os.uname().machine,
            gpu_kind=gpu_kind_here(),
            venv=_look_at_venv(venv_folder, tree),
        ),
    )


def _kept_today(request: Request, site: Site) -> str | None:
    """Return the file of the site's image that is the newest today: what its link leads to, else the last by name."""
    image = site.profile.images.get((request.image.of_site if request.image else None) or "")
    if image is None or image.newest is None:
        return None
    link = Path(image.path)
    if link.exists():
        return str(link.resolve())
    pattern = PurePosixPath(image.newest)
    return max((str(candidate) for candidate in Path("/").glob(str(pattern.relative_to("/")))), default=None)


def look_at_path(path: Path) -> ImageFacts:
    """Return what lies there, by its content: a name may say anything."""
    return _look(path, glibc=True)[0]


def _look(path: Path, *, glibc: bool) -> tuple[ImageFacts, Tree | None]:
    """Return the image's facts, and its files where they can be looked at.

    Read its C library whole where that is wanted.
    """
    try:
        if path.is_dir():
            image_facts, tree = _look_at_directory(path)
        else:
            with path.open("rb") as file:
                image_facts, tree = _look_at_file(path, file)
    except (FileNotFoundError, NotADirectoryError):
        return ImageFacts(kind="missing"), None
    except OSError as error:
        return ImageFacts(kind="file", broken=f"it cannot be read: {error.strerror}"), None
    return (replace(image_facts, glibc=_glibc_of(tree)) if glibc and tree is not None else image_facts), tree


class Tree(Protocol):
    """The files of an image: a sandbox's, or those in a squashfs. Links count from its own root."""

    def glob(self, pattern: str) -> Iterable[str]:
        """Return paths that fit, without the first slash."""
        ...

    def has(self, path: str) -> bool:
        """Return whether the path is there."""
        ...

    def read(self, path: str, most_bytes: int = ...) -> bytes:
        """Return the beginning of a file; nothing where there is none."""
        ...


class _Sandbox:
    """The files of a directory."""

    def __init__(self, top: Path) -> None:
        self._top = top

    def glob(self, pattern: str) -> Iterable[str]:
        return (str(file.relative_to(self._top)) for file in sorted(self._top.glob(pattern)))

    def has(self, path: str) -> bool:
        return _place_in(self._top, path) is not None

    def read(self, path: str, most_bytes: int = 1 << 22) -> bytes:
        place = _place_in(self._top, path)
        if place is None:
            return b""
        try:
            with place.open("rb") as file:
                return file.read(most_bytes)
        except OSError:
            return b""


def _look_at_directory(path: Path) -> tuple[ImageFacts, Tree | None]:
    if not any((path / name).is_dir() for name in ("bin", "usr", ".singularity.d")):
        return ImageFacts(kind="directory"), None
    tree = _Sandbox(path)
    return _look_inside(tree, ImageFacts(kind="sandbox")), tree


def _look_inside(tree: Tree, image_facts: ImageFacts) -> ImageFacts:
    """Return the facts, with those that only the image's own files tell."""
    return replace(
        image_facts,
        arch=image_facts.arch or next(_elf_architectures(tree), None),
        has_sh=any(tree.has(name) for name in _SHELLS),
        has_rank_library=any(tree.has(f"{folder}/muster/rank/contract.py") for folder in _packages(tree)),
        made_for=_made_for(tree),
        activation=_activation(tree),
        looked_inside=True,
    )


def _activation(tree: Tree) -> tuple[str, ...]:
    """Return the words that make an image's environment ready: some images keep them in WITH_CONDA."""
    files = tree.glob(".singularity.d/env/*.sh")
    return ("$WITH_CONDA",) if any(_SETS_WITH_CONDA.search(tree.read(file)) for file in files) else ()


_SETS_WITH_CONDA = re.compile(rb"^\s*(?:export\s+)?WITH_CONDA=", re.MULTILINE)
# Where images keep Python's packages: a distribution's, one compiled beside it, conda's, a virtual environment's.
_PACKAGES = (
    *("usr/lib/python3*/*-packages", "usr/lib64/python3*/*-packages", "usr/local/lib*/python3*/*-packages"),
    *("opt/*/lib/python3*/site-packages", "opt/*/envs/*/lib/python3*/site-packages"),
    *("*/.venv/lib/python3*/site-packages", "*venv/lib/python3*/site-packages"),
)
_TORCH_SAYS = re.compile(rb"^(\w+)\b[^=\n]*=[ \t]*['\"]", re.MULTILINE)
_GLIBC_SAYS = re.compile(rb"GNU C Library [^\n]*version (\d+)\.(\d+)")
_GLIBC_WANTS = re.compile(rb"GLIBC_(\d+)\.(\d+)")


def _has(tree: Tree, path: str) -> bool:
    from muster.look.squashfs import CannotBeRead

    try:
        return tree.has(path)
    except CannotBeRead:
        return False


def _packages(tree: Tree) -> Iterator[str]:
    for pattern in _PACKAGES:
        yield from tree.glob(pattern)


def _made_for(tree: Tree) -> str | None:
    """Return the kind that its torch was built for, or cpu; without torch, the one whose software it holds.

    None: there is no sign of any, or of several.
    """
    kinds_of_torch = {
        kind_of_torch(text) for folder in _packages(tree) if (text := tree.read(f"{folder}/torch/version.py"))
    }
    kinds = kinds_of_torch or {vendor.kind for vendor in VENDORS if any(tree.glob(vendor.software_places))}
    return kinds.pop() if len(kinds) == 1 else None


def kind_of_torch(version: bytes) -> str:
    """Return the kind whose name has a value in this version.py of torch; cpu: none has."""
    return kind_of_version({match[1].decode(): True for match in _TORCH_SAYS.finditer(version)}) or "cpu"


def _glibc_of(tree: Tree) -> tuple[int, int] | None:
    from muster.look.squashfs import CannotBeRead

    try:
        for place in ("lib/*-linux-gnu", "usr/lib/*-linux-gnu", "lib64", "usr/lib64"):
            for library in tree.glob(f"{place}/libc.so.6"):
                match = _GLIBC_SAYS.search(tree.read(library))
                if match is not None:
                    return int(match[1]), int(match[2])
    except CannotBeRead:
        pass
    return None


def _glibc_needed(site: Site) -> dict[str, tuple[int, int]]:
    """Return what glibc the host's libraries need that the profile binds into images, as far as this host has them."""
    paths = {
        bind.path for container in site.profile.containers.values() for bind in container.binds if ".so" in bind.path
    }
    wants = {path: _GLIBC_WANTS.findall(_content(Path(path))) for path in paths}
    return {
        path: max((int(major), int(two)) for major, two in versions) for path, versions in wants.items() if versions
    }


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _place_in(image: Path, path: str) -> Path | None:
    """Return where a sandbox has this path; its links count from its own root. None: it has none."""
    rest = path.split("/")
    place: list[str] = []
    for _ in range(256):
        if not rest:
            return image.joinpath(*place)
        name = rest.pop(0)
        link_path = image.joinpath(*place, name)
        if name == "..":
            place = place[:-1]
        elif name in {"", "."}:
            continue
        elif link_path.is_symlink():
            target = os.fspath(link_path.readlink())
            place = [] if target.startswith("/") else place
            rest = [*target.split("/"), *rest]
        elif link_path.exists():
            place.append(name)
        else:
            return None
    return None


def _elf_architectures(tree: Tree) -> Iterator[str]:
    for name in _PROGRAMS:
        head = tree.read(name, 20)
        if len(head) == 20 and head[:4] == b"\x7fELF":
            (machine,) = struct.unpack("<H" if head[5] == 1 else ">H", head[18:20])
            if machine in _ELF_ARCH:
                yield _ELF_ARCH[machine]


def _look_at_file(path: Path, file: BinaryIO) -> tuple[ImageFacts, Tree | None]:
    head = file.read(128)
    if head[32:41] == b"SIF_MAGIC":
        return _look_at_sif(path, file, head)
    if head[:4] == b"hsqs":
        used_bytes = int.from_bytes(head[40:48], "little")
        short = len(head) < 48 or path.stat().st_size < used_bytes
        return _look_at_squashfs(path, 0, ImageFacts(kind="squashfs", broken=_TRUNCATED if short else None))
    if path.suffix == ".toml":
        return ImageFacts(kind="edf", broken=_toml_error(path)), None
    if path.suffix in {".sif", ".sqsh"}:
        kind = "sif" if path.suffix == ".sif" else "squashfs"
        complaint = "it is empty" if not head else f"its first bytes are not those of a {path.suffix} file"
        return ImageFacts(kind=kind, broken=complaint), None
    return ImageFacts(kind="file"), None


_TRUNCATED = "it is shorter than it says: a copy or a download was cut off"
# What the format calls a partition, a squashfs, and the partition that is the root file system.
_PARTITION, _SQUASHFS, _PRIMARY = 0x4004, 1, 2
_DESCRIPTOR = struct.Struct("<i?IIIqq")
_DESCRIPTOR_BYTES, _ABOUT_PARTITION = 585, 201


def _look_at_sif(path: Path, file: BinaryIO, head: bytes) -> tuple[ImageFacts, Tree | None]:
    """Return the header of the format: architecture at byte 45; from 80 where its list of parts and its data lie."""
    if len(head) < 128:
        return ImageFacts(kind="sif", broken=_TRUNCATED), None
    count, descriptor_count, _, begin, length = struct.unpack("<qqqqq", head[88:128])
    short = path.stat().st_size < begin + length
    facts = ImageFacts(kind="sif", arch=_SIF_ARCH.get(head[45:47]), broken=_TRUNCATED if short else None)
    if not 0 <= descriptor_count <= begin or not 0 <= count <= 1024:
        return facts, None
    file.seek(descriptor_count)
    parts = file.read(count * _DESCRIPTOR_BYTES)
    for place in range(0, len(parts) - _DESCRIPTOR_BYTES + 1, _DESCRIPTOR_BYTES):
        kind, is_used, _, _, _, offset, _ = _DESCRIPTOR.unpack_from(parts, place)
        if kind == _PARTITION and is_used:
            system, role = struct.unpack_from("<ii", parts, place + _ABOUT_PARTITION)
            if (system, role) == (_SQUASHFS, _PRIMARY):
                return _look_at_squashfs(path, offset, facts)
    return facts, None


def _look_at_squashfs(path: Path, offset: int, facts: ImageFacts) -> tuple[ImageFacts, Tree | None]:
    """Return what can be seen of a packed file: one that Python cannot unpack shows nothing before it is mounted."""
    if facts.broken is not None:
        return facts, None
    from muster.look.squashfs import CannotBeRead, SquashFs

    try:
        tree = SquashFs(path, offset)
        return _look_inside(tree, facts), tree
    except CannotBeRead:
        return facts, None


def _look_at_venv(folder: str | None, tree: Tree | None) -> VenvFacts | None:
    """Return the virtual environment that the ranks are to have in the image."""
    if folder is None:
        return None
    if not Path(folder).exists() and tree is not None and _has(tree, f"{folder}/bin/python"):
        return VenvFacts(folder, in_image=True)
    version, base = version_of_venv(Path(folder)), _base_of_venv(Path(folder))
    if version is None or base is None:
        return VenvFacts(folder)
    library = f"{PurePosixPath(base).parent.parent}/lib/python{version}/os.py"
    is_in_image = tree is not None and _has(tree, base) and _has(tree, library)
    packages = Path(folder, f"lib/python{version}/site-packages")
    torch = _Sandbox(packages).read("torch/version.py")
    return VenvFacts(
        folder,
        version,
        base,
        base_in_image=is_in_image,
        glibc=_glibc_of_packages(packages),
        made_for=kind_of_torch(torch) if torch else None,
    )


def _base_of_venv(folder: Path) -> str | None:
    """Return the first Python outside it to which its own leads."""
    place = folder / "bin/python"
    for _ in range(16):
        if not place.is_symlink():
            return None
        target = place.readlink()
        place = target if target.is_absolute() else Path(os.path.normpath(place.parent / target))
        if not place.is_relative_to(folder):
            return str(place)
    return None


_WHEEL_WANTS = re.compile(r"^Tag: .*manylinux_(\d+)_(\d+)_", re.MULTILINE)


def _glibc_of_packages(folder: Path) -> tuple[int, int] | None:
    """Return the newest C library that the wheels in it were made for, each by its oldest tag."""
    versions = []
    for file in folder.glob("*.dist-info/WHEEL"):
        tags = [(int(major), int(two)) for major, two in _WHEEL_WANTS.findall(file.read_text(errors="replace"))]
        versions += [min(tags)] if tags else []
    return max(versions, default=None)


def _toml_error(path: Path) -> str | None:
    try:
        tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return f"it is not TOML: {error}"
    return None


def _bound(request: Request, site: Site, facts: Facts, project: Path | None) -> Iterator[str]:
    """Yield paths that will be bound, whichever engine it will be."""
    working_directory = Path(facts.working_directory)
    yield from (
        facts.home,
        str(working_directory),
        str(working_directory / (request.chdir or "")),
        *([str(project)] if project else []),
    )
    yield "/tmp"  # noqa: S108  # the node's own
    for text in request.bind:
        yield str(working_directory / text.partition(":")[0])
    for container in site.profile.containers.values():
        yield from (bind.path for bind in container.binds)


def _real_paths(paths: Iterable[str]) -> dict[str, str]:
    real_paths = {}
    for path in paths:
        try:
            real_paths[path] = str(Path(path).resolve(strict=True))
        except (OSError, RuntimeError, ValueError):
            continue
    return real_paths


def _project_of(start: Path) -> Path | None:
    """Return the nearest directory upward that is a project's top: it has muster.toml or is a work tree of git."""
    return next(
        (
            folder
            for folder in (start, *start.parents)
            if (folder / "muster.toml").is_file() or (folder / ".git").exists()
        ),
        None,
    )


def _programs(environment: Mapping[str, str]) -> dict[str, str]:
    names = filter(None, (engine_named(name).program for name in engines_in_options()))
    programs = {name: shutil.which(name, path=environment.get("PATH")) for name in names}
    return {name: path for name, path in programs.items() if path is not None}


def gpu_kind_here() -> str | None:
    """Return this machine's kind of GPU, by the files of its driver."""
    vendor = vendor_here()
    return vendor.kind if vendor else None
