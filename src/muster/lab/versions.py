"""Slurm of another version than the machine's: fetched from Debian once, kept in a cache, laid over /usr of a lab.

apt itself resolves, downloads and verifies, as whoever asks for it, with directories of its own; nothing is
installed. The programs and plugins stand where Debian has them; their libraries, libc among them, stand apart in
`LIBRARIES` and are written into the programs (patchelf), so that Slurm runs on its own libc and the tasks it
starts on the machine's: no variable has to say so, and none can leak into a task.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from muster.act.runner import Runner, checked, run
from muster.errors import CommandFailed, MachineLacks, RequestError, UnknownName
from muster.lab import kernel
from muster.lab.kernel import MountFlag
from muster.lab.requirements import as_root

__all__ = ["SUITES", "SlurmRoot", "cache_folder", "damaged", "lay_over", "prepared_root"]

# Version → the Debian suite that has it; unstable moves on, so what it had is in the manifest.
SUITES = {"24.11": "trixie", "26.05": "unstable"}

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurmdbd")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

# In the lab, where the machine has nothing: short enough to be written over any path in a plugin.
LIBRARIES = "/usr/lib/muster-slurm"

Say = Callable[[str], None]


@dataclass(frozen=True)
class SlurmRoot:
    """A Slurm that is ready to be laid over a lab's /usr."""

    folder: Path
    version: str
    """As its package has it: 24.11.5-4."""

    packages: Mapping[str, str]
    plugins: str
    """Its plugin directory, as its programs know it."""

    @property
    def release(self) -> tuple[int, int]:
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Where fetched versions are kept: $XDG_CACHE_HOME/muster/slurm."""
    home = Path(environment.get("HOME") or "/root")
    return Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "muster/slurm"


def prepared_root(version: str, *, cache: Path, say: Say, runner: Runner = run) -> SlurmRoot:
    """The Slurm `version` from the cache, or made now. Whatever goes wrong, nothing half-made is left."""
    if version not in SUITES:
        raise UnknownName("Slurm version to fetch", version, tuple(SUITES))
    folder = cache / version
    if (found := _ready(folder)) is not None:
        return found
    tools = _Tools(runner)
    with _room_told(cache), _alone(cache, version, say):
        if (found := _ready(folder)) is not None:
            return found
        if folder.exists():
            say(f"{folder} was changed since it was made; making it again")
            shutil.rmtree(folder)
        with tempfile.TemporaryDirectory(dir=cache, prefix=_draft_prefix(version)) as draft:
            made = _make(Path(draft), SUITES[version], tools, say)
            made.rename(folder)
    ready = _ready(folder)
    if ready is None:
        raise RequestError(f"{folder} changed while it was made", hint="try again; is somebody clearing the cache?")
    say(f"Slurm {ready.version} is ready in {folder}")
    return ready


def damaged(root: SlurmRoot) -> list[str]:
    """The files whose bytes are not those that were made: reads all of them."""
    files = _manifest(root.folder)["files"]
    return [name for name, entry in files.items() if _digest(root.folder / name) != entry["sha256"]]


def lay_over(root: SlurmRoot) -> None:
    """Put `root` over /usr of this mount namespace, read-only."""
    before = Path.cwd()
    os.chdir(root.folder)  # a relative path needs no escaping in overlayfs' options
    try:
        kernel.mount("muster-slurm", "/usr", "overlay", MountFlag.read_only, "lowerdir=usr:/usr")
        # The machine's own plugins, of another version, must not shine through.
        kernel.mount(root.plugins.removeprefix("/"), root.plugins, flags=MountFlag.bind)
    except OSError as error:
        raise MachineLacks(
            "overlayfs",
            f"this machine cannot lay Slurm {root.version} over /usr: {error.strerror}",
            hint=f"an ordinary user needs Linux 5.11 or newer for that (this is {os.uname().release}); root needs none",
        ) from None
    finally:
        os.chdir(before)


# ---------------------------------------------------------------- the cache


def _ready(folder: Path) -> SlurmRoot | None:
    """What stands in `folder`, if every file of it still has the size and time that it was made with."""
    try:
        manifest = _manifest(folder)
        for name, entry in manifest["files"].items():
            status = (folder / name).lstat()
            if (status.st_size, status.st_mtime_ns) != (entry["size"], entry["mtime_ns"]):
                return None
        return SlurmRoot(folder, manifest["version"], manifest["packages"], manifest["plugins"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _manifest(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return manifest


def _digest(file: Path) -> str | None:
    """The sha256 of a file, or of where a link leads; None where there is nothing."""
    try:
        content = os.fsencode(file.readlink()) if file.is_symlink() else file.read_bytes()
    except OSError:
        return None
    return hashlib.sha256(content).hexdigest()


def _write_manifest(folder: Path, facts: Mapping[str, Any]) -> None:
    files = {}
    for file in sorted(folder.rglob("*")):
        if file.is_symlink() or file.is_file():
            status = file.lstat()
            files[str(file.relative_to(folder))] = {
                "size": status.st_size,
                "mtime_ns": status.st_mtime_ns,
                "sha256": _digest(file),
            }
    (folder / "manifest.json").write_text(json.dumps({**facts, "files": files}, indent=1) + "\n")


def _draft_prefix(version: str) -> str:
    return f".{version}-draft-"


@contextmanager
def _alone(cache: Path, version: str, say: Say) -> Iterator[None]:
    """One process at a time makes a version; drafts of one that was killed are cleared away."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f".{version}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is making Slurm {version}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for stale in cache.glob(f"{_draft_prefix(version)}*"):
            shutil.rmtree(stale)
        yield


@contextmanager
def _room_told(cache: Path) -> Iterator[None]:
    """Tell a full disk for what it is, whichever program ran into it."""
    least_free = [1 << 62]
    try:
        yield
    except (OSError, CommandFailed) as error:
        full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
        said = error.stderr if isinstance(error, CommandFailed) else ""
        if full or re.search(r"No space left|\(28: |\b28: |quota exceeded", said, flags=re.IGNORECASE):
            raise MachineLacks(
                "room",
                f"no space is left under {cache}: another Slurm needs 400 MB while it is made, 60 MB afterwards",
                hint="make room there, or name another directory in XDG_CACHE_HOME",
            ) from None
        if isinstance(error, PermissionError):
            raise MachineLacks(
                str(cache), f"{error.filename or cache} may not be written", hint="name another in XDG_CACHE_HOME"
            ) from None
        raise
    del least_free


# ---------------------------------------------------------------- making one


def _make(draft: Path, suite: str, tools: _Tools, say: Say) -> Path:
    """Fetch and assemble under `draft`; the folder that is ready to be renamed into place."""
    mirror = tools.debian_mirror()
    apt = _Apt(draft / "apt", suite, mirror, tools.run)
    say(f"reading what Debian {suite} has ({mirror})")
    apt.update()
    packages = apt.resolve(PACKAGES)
    version = packages["slurmctld"]
    say(f"fetching Slurm {version} and what it needs: {len(packages)} packages")
    files = apt.download(packages)
    say("unpacking")
    for file in files:
        part = "slurm" if file.name.startswith("slurm") else "libraries"
        checked(tools.run(["dpkg-deb", "--extract", str(file), str(draft / part)]))
        file.unlink()
    say("making it run on this machine")
    root = draft / "root"
    plugins = _assemble(draft / "slurm", draft / "libraries", root, tools)
    made = datetime.now(UTC).isoformat(timespec="seconds")
    facts = {"version": version, "suite": suite, "mirror": mirror, "made": made, "plugins": plugins}
    _write_manifest(root, {**facts, "packages": packages})
    return root


class _Tools:
    """The programs of the machine that making a version takes."""

    def __init__(self, runner: Runner) -> None:
        self.run = runner
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise MachineLacks(
                "apt-get", "other Slurm versions are fetched with apt, which this machine lacks", "use --slurm system"
            )
        for part, program, package in (("patchelf", "patchelf", "patchelf"), ("keys", None, "debian-archive-keyring")):
            if (shutil.which(program) is None) if program else (not KEYRING.exists()):
                what = f"the program {program}" if program else f"Debian's keys ({KEYRING})"
                raise MachineLacks(
                    part,
                    f"this machine lacks {what}, which fetching a Slurm needs",
                    as_root(["apt-get", "install", package]),
                )

    def debian_mirror(self) -> str:
        """The mirror of Debian that the machine itself uses."""
        words = ["indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(LABEL)", "Created-By: Packages"]
        for line in checked(self.run(["apt-get", *words])).stdout.splitlines():
            uri, *whose = line.split(maxsplit=2)
            if whose == ["Debian", "Debian"]:
                return uri
        raise MachineLacks(
            "mirror",
            "this machine's package sources name no mirror of Debian, or were never read",
            hint=f"{as_root(['apt-get', 'update'])}; if it stays so, add a Debian mirror to the sources",
        )

    def patch(self, options: Sequence[str], files: Sequence[Path]) -> None:
        checked(self.run(["patchelf", *options, *map(str, files)], timeout_s=600))


class _Apt:
    """apt with directories, sources and a set of installed packages (none) of its own."""

    def __init__(self, folder: Path, suite: str, mirror: str, runner: Runner) -> None:
        self.run = runner
        self.archives = folder / "archives"
        for part in ("lists/partial", "archives/partial", "etc"):
            (folder / part).mkdir(parents=True)
        (folder / "status").touch()
        (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror} {suite} main\n")
        self.configuration = folder / "apt.conf"
        self.configuration.write_text(_apt_configuration(folder))

    def _ask(self, *words: str) -> str:
        # Downloads may be slow; a hung mirror is apt's own time-out (30 s, three times).
        argv = ["apt-get", "--config-file", str(self.configuration), "--quiet=2", *words]
        return checked(self.run(argv, cwd=self.archives, timeout_s=3600), hint=_APT_HINT).stdout

    def update(self) -> None:
        """Read what there is; a signature that does not verify is an error."""
        self._ask("update")

    def resolve(self, names: Sequence[str]) -> dict[str, str]:
        """The packages that `names` need, of which we take Slurm and the libraries: name → version."""
        said = self._ask("install", "--simulate", "--no-install-recommends", *names)
        chosen = re.findall(r"^Inst (\S+) \((\S+)", said, flags=re.MULTILINE)
        return {name: version for name, version in chosen if _is_wanted(name)}

    def download(self, packages: Mapping[str, str]) -> list[Path]:
        """Fetch them, checked against the signed lists."""
        self._ask("download", *(f"{name}={version}" for name, version in packages.items()))
        return sorted(self.archives.glob("*.deb"))


_APT_HINT = "is the mirror reachable? apt's own words stand above"


def _is_wanted(package: str) -> bool:
    return package.startswith(("slurm", "lib", "zlib")) and not package.endswith(("-perl", "-common", "-data"))


def _apt_configuration(folder: Path) -> str:
    """Read last, so it wins over the machine's own configuration, of which proxies and the like stay."""
    places = {
        "Dir::State": folder,
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder,
        "Dir::Cache::archives": folder / "archives",
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::Log": folder,
    }
    settings = {
        "APT::Sandbox::User": "",  # root's apt would hand the download to a user who cannot reach our directories
        "APT::Update::Error-Mode": "any",
        "Acquire::Languages": "none",
        "Acquire::GzipIndexes": "true",
    }
    hooks = ("APT::Update::Pre-Invoke", "APT::Update::Post-Invoke", "APT::Update::Post-Invoke-Success")
    lines = [f"#clear {hook};" for hook in hooks]
    lines += [f'{name} "{value}";' for name, value in {**places, **settings}.items()]
    return "\n".join(lines) + "\n"


def _assemble(slurm: Path, libraries: Path, root: Path, tools: _Tools) -> str:
    """Lay out `root`/usr from what was unpacked; returns the plugin directory."""
    plugins = next(slurm.glob("usr/lib/*/slurm-wlm")).relative_to(slurm)
    for part in ("usr/bin", "usr/sbin", plugins):
        shutil.copytree(slurm / part, root / part, symlinks=True)
    for program in (root / "usr/sbin").glob("*-wlm"):  # Debian's own names for them are made on installation
        program.with_name(program.name.removesuffix("-wlm")).symlink_to(program.name)
    own = root / LIBRARIES.removeprefix("/")
    _copy_libraries(libraries / plugins.parent, own)

    programs = [file for part in ("usr/bin", "usr/sbin") for file in (root / part).iterdir() if _is_elf(file)]
    linked = [*programs, *(file for file in (root / plugins).iterdir() if _is_elf(file))]
    for file in linked:
        _replace_path(file, f"/{plugins.parent}/pmix2/lib", LIBRARIES)
    # RPATH and not RUNPATH: it holds for what a plugin needs in turn, and before any LD_LIBRARY_PATH.
    tools.patch(["--force-rpath", "--set-rpath", f"{LIBRARIES}:/{plugins}"], linked)
    asked = checked(tools.run(["patchelf", "--print-interpreter", str(programs[0])])).stdout.strip()
    loader = Path(asked).name
    if not (own / loader).exists():
        shutil.copy(libraries / "usr" / asked.removeprefix("/"), own / loader)
    tools.patch(["--set-interpreter", f"{LIBRARIES}/{loader}"], programs)
    for file in root.rglob("*"):  # whatever the umask: the lab's other users read and run it too
        if not file.is_symlink():
            file.chmod(0o755 if file.is_dir() or file.stat().st_mode & 0o100 else 0o644)
    return f"/{plugins}"


def _copy_libraries(source: Path, target: Path) -> None:
    """Every shared library beside libc, in one directory; a link that leads elsewhere becomes the file."""
    target.mkdir(parents=True)
    for file in source.iterdir():
        if re.fullmatch(r"(lib|ld-).*\.so(\..*)?", file.name):
            stays = file.is_symlink() and "/" not in str(file.readlink())
            shutil.copy2(file, target / file.name, follow_symlinks=not stays)


def _is_elf(file: Path) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    with file.open("rb") as content:
        return content.read(4) == b"\x7fELF"


def _replace_path(file: Path, old: str, new: str) -> None:
    """Write `new` over `old` in a binary: some plugins open a library by the path of its directory."""
    content = file.read_bytes()
    if old.encode() + b"\0" in content:
        file.write_bytes(content.replace(old.encode() + b"\0", new.ljust(len(old), "/").encode() + b"\0"))
