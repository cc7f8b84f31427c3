"""Slurm fetched from a Debian suite, and made to run on another Debian or Ubuntu.

apt itself resolves, downloads and verifies, as whoever asks for it, with directories of its own; nothing is
installed. The programs and plugins are laid out where Debian has them; their libraries, libc among them, stand
apart in `LIBRARIES` and are written into the programs, so that Slurm runs on its own libc and the tasks that it
starts on the machine's: no variable has to say so, and none can leak into a task.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.errors import MachineLacks
from muster.runner import Runner, checked
from muster_lab.requirements import as_root

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurmdbd")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

# A place where no machine has anything, and short enough to be written over other paths in a plugin.
LIBRARIES = "/usr/lib/muster-slurm"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Fetched:
    """A Slurm laid out below `folder`, and what is worth recording of it."""

    folder: Path
    version: str
    plugins: str
    suite: str
    mirror: str
    packages: Mapping[str, str]


def check_tools(find: Callable[[str], str | None] = shutil.which, keyring: Path = KEYRING) -> None:
    """Raise `MachineLacks` for the first thing that fetching needs and this machine has not."""
    if find("apt-get") is None or find("dpkg-deb") is None:
        message = "other Slurm versions are fetched with apt, which this machine lacks"
        raise MachineLacks("apt-get", message, hint="use this machine's own: --slurm system")
    for is_there, purpose, package in (
        (find("patchelf") is not None, "the program patchelf", "patchelf"),
        (keyring.exists(), f"Debian's keys ({keyring})", "debian-archive-keyring"),
    ):
        if not is_there:
            message = f"this machine lacks {purpose}, which fetching another Slurm needs"
            raise MachineLacks(package, message, hint=as_root(["apt-get", "install", package]))


def fetch(suite: str, work: Path, say: Say, runner: Runner) -> Fetched:
    """Fetch the Slurm of `suite` and lay it out in `work`/root."""
    mirror = mirror_of(runner)
    apt = Apt(work / "apt", suite, mirror, runner)
    say(f"reading what Debian {suite} has ({mirror})")
    apt.update()
    packages = apt.resolve(PACKAGES)
    version = packages["slurmctld"]
    say(f"fetching Slurm {version} and what it needs: {len(packages)} packages, {apt.size_mb(packages)} MB")
    files = apt.download(packages)
    say("unpacking")
    for file in files:
        part = "slurm" if file.name.startswith("slurm") else "libraries"
        checked(runner(["dpkg-deb", "--extract", str(file), str(work / part)]))
        file.unlink()
    say("making it run on this machine")
    plugins = _assemble(work / "slurm", work / "libraries", work / "root", runner)
    return Fetched(work / "root", version, plugins, suite, mirror, packages)


def mirror_of(runner: Runner) -> str:
    """Return the mirror of Debian that the machine itself uses."""
    words = ["indextargets", "--format", "$(REPO_URI) $(ORIGIN) $(LABEL)", "Created-By: Packages"]
    for line in checked(runner(["apt-get", *words])).stdout.splitlines():
        address, *other_words = line.split()
        if other_words == ["Debian", "Debian"]:
            return address
    raise MachineLacks(
        "mirror",
        "this machine's package sources name no mirror of Debian, or were never read",
        hint=f"{as_root(['apt-get', 'update'])}; if it stays so, add a Debian mirror to the sources",
    )


# ---------------------------------------------------------------- apt, of which nothing is the machine's


class Apt:
    """apt with directories, sources and a set of installed packages (none) of its own."""

    def __init__(self, folder: Path, suite: str, mirror: str, runner: Runner) -> None:
        self.runner = runner
        self.archives = folder / "archives"
        for part in ("lists/partial", "archives/partial"):
            (folder / part).mkdir(parents=True)
        (folder / "status").touch()
        (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror} {suite} main\n")
        self.configuration = folder / "apt.conf"
        self.configuration.write_text(_configuration(folder))

    def ask(self, *words: str) -> str:
        argv = ["apt-get", "--config-file", str(self.configuration), "--quiet=2", *words]
        return checked(self.runner(argv, cwd=self.archives, timeout_s=3600), hint=_APT_HINT).stdout

    def update(self) -> None:
        """Read what there is; a signature that does not verify is an error."""
        self.ask("update")

    def resolve(self, names: Sequence[str]) -> dict[str, str]:
        """Return name and version of the packages that `names` need: the named ones' kin and the libraries."""
        output = self.ask("install", "--simulate", "--no-install-recommends", *names)
        packages = re.findall(r"^Inst (\S+) \((\S+)", output, flags=re.MULTILINE)
        return {name: version for name, version in packages if name in names or _is_wanted(name)}

    def size_mb(self, packages: Mapping[str, str]) -> int:
        """Return what a download of them would bring."""
        output = self.ask("download", "--print-uris", *_exactly(packages))
        return round(sum(map(int, re.findall(r"^'\S+' \S+ (\d+)", output, flags=re.MULTILINE))) / 1e6)

    def download(self, packages: Mapping[str, str]) -> list[Path]:
        """Fetch them, each checked against the signed lists."""
        self.ask("download", *_exactly(packages))
        return sorted(self.archives.glob("*.deb"))


_APT_HINT = "is the mirror reachable and up to date, and this machine's clock right?"


def _exactly(packages: Mapping[str, str]) -> Iterable[str]:
    return (f"{name}={version}" for name, version in packages.items())


def _is_wanted(package: str) -> bool:
    return package.startswith(("slurm", "lib", "zlib")) and not package.endswith(("-perl", "-common", "-data"))


def _configuration(folder: Path) -> str:
    """Read last, so it wins over the machine's own, of which proxies and the like stay."""
    settings = {
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
        # Root's apt would hand the download to a user who cannot reach our directories.
        "APT::Sandbox::User": "",
        "APT::Update::Error-Mode": "any",
        "Acquire::Languages": "none",
        "Acquire::GzipIndexes": "true",
    }
    hooks = ("Pre-Invoke", "Post-Invoke", "Post-Invoke-Success")
    lines = [f"#clear APT::Update::{hook};" for hook in hooks]
    lines += [f'{name} "{value}";' for name, value in settings.items()]
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- from packages to programs that run here


def _assemble(slurm: Path, libraries: Path, root: Path, runner: Runner) -> str:
    """Lay out `root`/usr from what was unpacked; returns the plugin directory as Slurm knows it."""
    plugins = next(slurm.glob("usr/lib/*/slurm-wlm")).relative_to(slurm)
    for part in (Path("usr/bin"), Path("usr/sbin"), plugins):
        (root / part).parent.mkdir(parents=True, exist_ok=True)
        (slurm / part).rename(root / part)
    for program in (root / "usr/sbin").glob("*-wlm"):  # Debian gives them their usual names on installation
        program.with_name(program.name.removesuffix("-wlm")).symlink_to(program.name)
    _take_libraries(libraries / plugins.parent, root / LIBRARIES.removeprefix("/"))
    _bind_to_libraries(root, plugins, libraries, runner)
    open_to_all(root)
    return f"/{plugins}"


def _take_libraries(source: Path, target: Path) -> None:
    """Copy every shared library beside libc into one directory; a link that leads out of it becomes the file."""
    target.mkdir(parents=True)
    for file in list(source.iterdir()):
        if re.fullmatch(r"(lib|ld-).*\.so(\..*)?", file.name):
            if file.is_symlink() and "/" in str(file.readlink()):
                shutil.copy2(file, target / file.name)
            else:
                file.rename(target / file.name)


def _bind_to_libraries(root: Path, plugins: Path, libraries: Path, runner: Runner) -> None:
    """Write into programs and plugins where their libraries are, and into programs which libc loads them."""
    programs = [file for part in ("usr/bin", "usr/sbin") for file in (root / part).iterdir() if _is_elf(file)]
    linked_files = [*programs, *(file for file in (root / plugins).iterdir() if _is_elf(file))]
    for file in linked_files:
        _replace_path(file, f"/{plugins.parent}/pmix2/lib", LIBRARIES)
    # RPATH and not RUNPATH: it holds for what a plugin needs in turn, and before any LD_LIBRARY_PATH.
    patch(runner, ["--force-rpath", "--set-rpath", f"{LIBRARIES}:/{plugins}"], linked_files)
    interpreter = Path(checked(runner(["patchelf", "--print-interpreter", str(programs[0])])).stdout.strip())
    own_interpreter = root / LIBRARIES.removeprefix("/") / interpreter.name
    if not own_interpreter.exists():
        shutil.copy(libraries / "usr" / interpreter.relative_to("/"), own_interpreter)
    patch(runner, ["--set-interpreter", f"{LIBRARIES}/{interpreter.name}"], programs)


def patch(runner: Runner, options: Sequence[str], files: Iterable[Path]) -> None:
    """Let patchelf rewrite `files`."""
    checked(runner(["patchelf", *options, *map(str, files)], timeout_s=600))


def _is_elf(file: Path) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    with file.open("rb") as content:
        return content.read(4) == b"\x7fELF"


def _replace_path(file: Path, old: str, new: str) -> None:
    """Write `new` over the text `old` in a binary: mpi/pmix opens its library by the directory's path."""
    content = file.read_bytes()
    if old.encode() + b"\0" in content:
        file.write_bytes(content.replace(old.encode() + b"\0", new.ljust(len(old), "/").encode() + b"\0"))


def open_to_all(root: Path) -> None:
    """Let the lab's other users read and run it, whatever the umask was."""
    for file in (root, *root.rglob("*")):
        if not file.is_symlink():
            file.chmod(0o755 if file.is_dir() or file.stat().st_mode & 0o100 else 0o644)
