"""Horovod for an environment that has torch: built from its source release, kept as a wheel, checked by a start.

The release asks for a C++ standard in which torch's headers of today do not compile: both places are raised to C++20.
It is built against the torch, the MPI and the NCCL that are there, so a wheel is kept under the names of them all.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from muster.errors import CommandFailed, MachineLacks, RequestError
from muster.runner import DEVNULL, ProgramResult, Runner, end_group, run, start

VERSION = "0.28.1"

# What its setup.py and its library import, beside torch.
_PACKAGES = ("setuptools", "wheel", "packaging", "numpy", "cloudpickle", "psutil", "pyyaml")

# File of the release → what it says, and what it has to say.
_PATCHES = {
    "CMakeLists.txt": ("set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 20)"),
    "horovod/torch/CMakeLists.txt": ("set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 20)"),
}

# Program → what it is for. Without cmake its setup.py would install an old one by itself.
_TOOLS = {
    "cmake": "cmake 3.13 or newer",
    "make": "make",
    "c++": "a C++ compiler of C++20",
    "mpicxx": "an MPI with its compiler wrapper",
}

Say = Callable[[str], None]

_ASK_TARGET = """
import json, platform, sys, sysconfig
found = {"python": sys.implementation.cache_tag, "arch": platform.machine(), "torch": None}
try:
    import torch
    found.update(torch=torch.__version__, cuda=torch.version.cuda, hip=torch.version.hip)
except ImportError as error:
    found["why"] = str(error)
print(json.dumps(found))
"""
_ASK_RANK = "import horovod.torch as hvd; hvd.init(); print('size', hvd.size()); hvd.shutdown()"


class Target(msgspec.Struct, frozen=True):
    """What a wheel is built against: where one of these differs, it is another wheel."""

    python: str
    arch: str
    torch: str
    mpi: str
    cuda: str | None = None
    hip: str | None = None
    nccl: str | None = None
    """Its version; None where torch has no GPUs."""

    @property
    def key(self) -> str:
        """Return the name of the wheel's folder in the cache."""
        parts = (VERSION, f"torch{self.torch}", self.python, self.mpi, self.nccl and f"nccl{self.nccl}", self.arch)
        return "-".join(re.sub(r"[^A-Za-z0-9.+]+", "_", part) for part in parts if part)


class BuildReport(msgspec.Struct, frozen=True):
    """What `horovodrun --check-build` says is in a Horovod."""

    version: str
    parts: frozenset[str]
    """PyTorch, MPI, Gloo, NCCL …: those that are marked."""


def horovod_cache(environment: Mapping[str, str]) -> Path:
    """Return where wheels are kept: $XDG_CACHE_HOME/muster/horovod."""
    home = Path(environment.get("HOME") or "/root")
    return Path(environment.get("XDG_CACHE_HOME") or home / ".cache") / "muster/horovod"


def add_horovod(
    python: Path,
    environment: Mapping[str, str],
    say: Say,
    *,
    nccl: Path | None = None,
    cache: Path | None = None,
    runner: Runner = run,
) -> BuildReport:
    """Install Horovod into the environment of `python`, from the kept wheel or built now, and return what it holds.

    `environment` is that of the job: its PATH leads to the MPI and the compiler that the site's modules bring.
    """
    tools = dict(environment)
    target = look_at_target(python, tools, nccl=nccl, runner=runner)
    cache_folder = cache or horovod_cache(environment)
    wheel = kept_wheel(cache_folder, target) or _build(
        python, target, tools, cache_folder, say, nccl=nccl, runner=runner
    )
    say(f"installing {wheel.name}, built for torch {target.torch} and {target.mpi}")
    _pip(python, tools, runner, "install", "--quiet", *_PACKAGES)
    _pip(python, tools, runner, "install", "--quiet", "--no-deps", "--force-reinstall", str(wheel))
    return _checked_build(python, target, tools, runner)


def kept_wheel(cache: Path, target: Target) -> Path | None:
    """Return the wheel that was built before for the same parts."""
    return next((cache / target.key).glob(f"horovod-{VERSION}-*.whl"), None)


def look_at_target(
    python: Path, environment: Mapping[str, str], *, nccl: Path | None = None, runner: Runner = run
) -> Target:
    """Return what is there to build against; what is missing is named with its fix, before anything is fetched."""
    facts = _json_of(runner([str(python), "-c", _ASK_TARGET], env=environment, timeout_s=120))
    if facts.get("torch") is None:
        raise RequestError(
            f"{python} cannot import torch, but Horovod is built against it: {facts.get('why', 'no answer')}",
            hint="put torch among the requirements: it is installed first",
        )
    for program, purpose in _TOOLS.items():
        if shutil.which(program, path=environment.get("PATH")) is None:
            raise MachineLacks(
                program, f"Horovod is compiled here, but {purpose} is missing ({program})", _mend(program)
            )
    of_gpus = bool(facts.get("cuda") or facts.get("hip"))
    if nccl is not None and not of_gpus:
        raise RequestError(
            f"NCCL {nccl}: torch {facts['torch']} is built for CPUs, and NCCL moves the memory of GPUs",
            hint="omit it, or install a torch for the GPUs of the nodes",
        )
    # Debian has the wrapper in one package and what it compiles against in another.
    if not runner(["mpicxx", "-E", "-x", "c++", "-"], env=environment, stdin="#include <mpi.h>\n").ok:
        raise MachineLacks(
            "mpi.h",
            "Horovod is compiled here, and mpicxx does not find the headers of its MPI (mpi.h)",
            _mend("mpicxx"),
        )
    return Target(
        python=str(facts["python"]),
        arch=str(facts["arch"]),
        torch=str(facts["torch"]),
        cuda=facts.get("cuda"),
        hip=facts.get("hip"),
        mpi=_mpi_of(environment, runner),
        nccl=_nccl_version(_nccl_home(nccl, environment)) if of_gpus else None,
    )


def parse_check_build(text: str) -> BuildReport:
    """Return the report of `horovodrun --check-build`."""
    version = re.search(r"^Horovod v(\S+?):", text, re.MULTILINE)
    if version is None:
        raise RequestError(
            f"horovodrun --check-build does not describe a build: {text.strip()[:200] or 'no output'}",
            hint="remove the build directory and build again",
        )
    return BuildReport(version[1], frozenset(re.findall(r"^\s*\[X\] (\S+)", text, re.MULTILINE)))


def _json_of(result: ProgramResult) -> dict[str, str]:
    try:
        document: dict[str, str] = json.loads(result.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise CommandFailed(result.argv[:1], result.status, result.stderr, hint="is it a Python 3?") from None
    return document


def _mend(program: str) -> str:
    module = {"cmake": "CMake", "make": "build", "c++": "GCC", "mpicxx": "MPI"}[program]
    package = {"cmake": "cmake", "make": "make", "c++": "g++", "mpicxx": "libopenmpi-dev"}[program]
    return f"load the {module} module of the site (--module); on Debian: apt-get install {package}"


def _mpi_of(environment: Mapping[str, str], runner: Runner) -> str:
    """Return openmpi4.1.4, mpich4.0.2, or the first line that its mpirun prints; a site may have an MPI without one."""
    if shutil.which("mpirun", path=environment.get("PATH")) is None:
        return "mpi"
    result = runner(["mpirun", "--version"], env=environment)
    text = result.stdout + result.stderr
    for pattern, name in ((r"Open MPI\) (\S+)", "openmpi"), (r"HYDRA.*?Version:\s+(\S+)", "mpich")):
        match = re.search(pattern, text, re.DOTALL)
        if match:
            return name + match[1]
    return (text.strip().splitlines() or ["mpi"])[0][:40]


def _nccl_home(typed_home: Path | None, environment: Mapping[str, str]) -> Path:
    """Return where NCCL is: as asked, else where the site's module says."""
    names = ("HOROVOD_NCCL_HOME", "NCCL_HOME", "NCCL_ROOT", "EBROOTNCCL", "NCCL_PATH", "ROCM_PATH")
    named_home = next((environment[name] for name in names if environment.get(name)), None)
    home = typed_home or (Path(named_home) if named_home else None)
    if home is None:
        raise MachineLacks(
            "nccl",
            "this torch is built for GPUs, but no NCCL is named: Horovod needs its headers",
            hint="load the NCCL module of the site (--module), or name its directory: NCCL_HOME=PATH",
        )
    if _header_of(home) is None or not any(home.glob("lib*/lib*ccl*")):
        raise RequestError(
            f"{home} is not an NCCL directory: it needs include/nccl.h and a library under lib or lib64",
            hint="name the directory that holds include and lib",
        )
    return home


def _header_of(home: Path) -> Path | None:
    return next(
        (
            path
            for path in (home / "include/nccl.h", home / "include/rccl/rccl.h", home / "include/rccl.h")
            if path.exists()
        ),
        None,
    )


def _nccl_version(home: Path) -> str:
    header = _header_of(home)
    text = header.read_text(errors="replace") if header else ""
    numbers = [re.search(rf"#define\s+NCCL_{part}\s+(\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(number[1] for number in numbers if number) or "unknown"


def _options(target: Target, nccl: Path | None, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the words that its build reads from the environment."""
    for name in ("WITH_PYTORCH", "WITHOUT_TENSORFLOW", "WITHOUT_MXNET", "WITH_MPI", "WITH_GLOO"):
        yield f"HOROVOD_{name}", "1"
    if target.nccl is None:
        return
    home = _nccl_home(nccl, environment)
    yield "HOROVOD_GPU", "ROCM" if target.hip else "CUDA"
    yield "HOROVOD_GPU_OPERATIONS", "NCCL"
    yield "HOROVOD_NCCL_LINK", "SHARED"
    if target.hip:
        yield "HOROVOD_ROCM_HOME", str(home)
        return
    yield "HOROVOD_NCCL_HOME", str(home)
    yield "HOROVOD_NCCL_INCLUDE", str(home / "include")
    yield "HOROVOD_NCCL_LIB", str(next(path for path in (home / "lib", home / "lib64") if path.is_dir()))


def _build(
    python: Path,
    target: Target,
    environment: Mapping[str, str],
    cache: Path,
    say: Say,
    *,
    nccl: Path | None,
    runner: Runner,
) -> Path:
    """Return the wheel, in the cache when it is whole and not before; two builds of the same wait for each other."""
    folder = cache / target.key
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wheel_in_cache = kept_wheel(cache, target)
        if wheel_in_cache is not None:
            return wheel_in_cache
        with tempfile.TemporaryDirectory(prefix="muster-horovod-") as draft:
            _pip(python, environment, runner, "install", "--quiet", *_PACKAGES)
            source = _fetch(python, Path(draft), environment, runner)
            _raise_standard(source)
            options = dict(_options(target, nccl, environment))
            shown_options = " ".join(f"{name}={value}" for name, value in options.items())
            say(f"building Horovod {VERSION} for torch {target.torch} and {target.mpi}: some minutes; {shown_options}")
            wheel = _compile(python, source, Path(draft), {**environment, **options}, folder / "build.log")
            part = folder / f".{wheel.name}.part"
            shutil.copyfile(wheel, part)
            return part.rename(folder / wheel.name)


def _fetch(python: Path, work: Path, environment: Mapping[str, str], runner: Runner) -> Path:
    """Return the source release, through pip: its index, proxy and cache are the user's."""
    words = ("download", "--quiet", "--no-deps", "--no-binary", "horovod", "--no-build-isolation")
    _pip(python, environment, runner, *words, "--dest", str(work), f"horovod=={VERSION}")
    with tarfile.open(next(work.glob("horovod-*.tar.gz"))) as release:
        release.extractall(work, filter="data")
    return work / f"horovod-{VERSION}"


def _raise_standard(source: Path) -> None:
    for name, (old, new) in _PATCHES.items():
        file = source / name
        text = file.read_text()
        if text.count(old) != 1:
            raise RequestError(
                f"{name} of Horovod {VERSION} does not hold what was to be changed: {old}",
                hint="the release that pip found is not the one that is known here: look at pip's index",
            )
        file.write_text(text.replace(old, new))


def _compile(python: Path, source: Path, work: Path, environment: Mapping[str, str], log: Path) -> Path:
    """Compile the wheel, and return it; it takes minutes, so the output goes into a file that can be followed."""
    words = [str(python), "-m", "pip", "wheel", "--verbose", "--no-build-isolation", "--no-deps", "--no-cache-dir"]
    with log.open("wb") as log_stream:
        process = start(
            [*words, "--wheel-dir", str(work / "wheel"), str(source)],
            env=environment,
            cwd=work,
            stdin=DEVNULL,
            stdout=log_stream,
            stderr=log_stream,
            own_group=True,
        )
        try:
            status = process.wait()
        finally:
            end_group(process)
    wheel = next((work / "wheel").glob("*.whl"), None)
    if status != 0 or wheel is None:
        raise CommandFailed(["pip"], status, "", f"Horovod was not built: {_first_error(log)}", hint=f"read {log}")
    return wheel


# cmake writes NOT in capitals where it gives up, and "Could not find CCache" of a convenience.
_ERROR = re.compile(r"(?i:(?:fatal )?error: |CMake Error|RuntimeError: )|Could NOT find")


def _first_error(log: Path) -> str:
    """Return the line that says why: compilers and cmake go on talking after it."""
    lines = log.read_text(errors="replace").splitlines()
    error_line = next((line for line in lines if _ERROR.search(line)), None)
    return (error_line or (lines[-1] if lines else "it said nothing")).strip()


def _pip(python: Path, environment: Mapping[str, str], runner: Runner, *words: str) -> None:
    argv = [str(python), "-m", "pip", "--disable-pip-version-check", *words]
    result = runner(argv, env=environment, timeout_s=900)
    if not result.ok:
        reason = next(
            (line for line in result.stderr.splitlines() if line.startswith("ERROR: ")), result.stderr.strip()
        )
        raise CommandFailed(
            ["pip"],
            result.status,
            "",
            f"pip {words[0]}: {reason.removeprefix('ERROR: ')}",
            hint="is there a way out? proxies are read from the environment",
        )


def _checked_build(python: Path, target: Target, environment: Mapping[str, str], runner: Runner) -> BuildReport:
    """Return what the installed Horovod reports, after one rank of it ran.

    A library that cannot be loaded shows here.
    """
    result = runner([str(python.parent / "horovodrun"), "--check-build"], env=environment, timeout_s=120)
    report = parse_check_build(result.stdout)
    wanted_parts = {"PyTorch", "MPI", "Gloo"} | ({"NCCL"} if target.nccl else set())
    if missing := sorted(wanted_parts - report.parts):
        raise RequestError(
            f"Horovod {report.version} was built without {', '.join(missing)}",
            hint="load the same modules as for the build",
        )
    rank = runner([str(python), "-c", _ASK_RANK], env=environment, timeout_s=120)
    if "size 1" not in rank.stdout:
        last = (rank.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise CommandFailed([str(python)], rank.status, "", f"a rank with Horovod does not start: {last}", hint=_ROOT)
    return report


_ROOT = "try `python -c 'import horovod.torch'` in the environment of a job: a library of MPI or NCCL may be missing"
