"""The one gate through which programs are started: run to the end, start and watch, or become.

Everything that needs a program takes a `Runner` and is handed `run`; a test hands it a function that
answers from recorded output. Programs are lists of words, never shell text.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from os import path as paths
from typing import IO, TYPE_CHECKING, Any, NoReturn, Protocol, Union

import msgspec

from muster.errors import CommandFailed, MachineLacks, RequestError, SchedulerSilent
from muster.older import options_of_group

if TYPE_CHECKING:
    import subprocess

    Process = subprocess.Popen[bytes]

# subprocess itself is imported where a process is started: a launch that becomes its script starts none.
DEVNULL = -3
PIPE = -1
STDOUT = -2

_FILE = Union[int, IO[bytes], None]


def own_command() -> list[str]:
    """Return the words that start Muster again, as it was started: installed, or unpacked from the one file."""
    folder = unpacked_folder()
    return [sys.executable, "-m", "muster"] if folder is None else [sys.executable, folder]


def unpacked_folder() -> str | None:
    """Return the folder that the one file was unpacked into, which a Python starts; None: Muster is installed."""
    home = paths.dirname(paths.dirname(paths.realpath(__file__)))
    return home if paths.exists(f"{home}/muster-one-file") else None


class ProgramResult(msgspec.Struct, frozen=True):
    """What a finished program was, and what it said."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        return self.status == 0


class Runner(Protocol):
    """Runs a program to its end and returns what it said; never raises for its exit status."""

    def __call__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stdin: str | None = None,
        timeout_s: float = 60.0,
    ) -> ProgramResult: ...


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stdin: str | None = None,
    timeout_s: float = 60.0,
    pass_fds: Sequence[int] = (),
) -> ProgramResult:
    """Run `argv` to its end. A program that is not there is `MachineLacks`; one that hangs is `SchedulerSilent`.

    The program's own children are ended with it: it runs in a process group of its own.
    """
    import subprocess

    if _needs_munge(argv[0]) and munge_is_down():
        timeout_s = min(timeout_s, _MUNGE_PATIENCE_S)
    process = start(
        argv,
        env=env,
        cwd=cwd,
        stdin=PIPE if stdin is not None else DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        own_group=True,
        pass_fds=pass_fds,
    )
    try:
        out, err = process.communicate(None if stdin is None else os.fsencode(stdin), timeout=timeout_s)
    except subprocess.TimeoutExpired:
        end_group(process)
        raise _silent(argv[0], timeout_s) from None
    except BaseException:
        end_group(process)
        raise
    return ProgramResult(tuple(argv), process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def _silent(program: str, timeout_s: float) -> SchedulerSilent:
    """Return the error of a program that did not answer; where munge is down, that is why Slurm's programs wait."""
    message = f"{program} did not answer within {timeout_s:g} s"
    if _needs_munge(program) and munge_is_down():
        return SchedulerSilent(f"{message}: {MUNGE_IS_DOWN}", hint=MUNGE_HINT)
    return SchedulerSilent(message, hint="the controller may be busy or down; try again in a minute")


MUNGE_IS_DOWN = "munge, by which Slurm knows who asks, is down on this host"
MUNGE_HINT = "systemctl status munge, or the site's support; in a lab: muster lab fault restore controller"
# Slurm's programs try for 49 seconds to reach munge before they say a word about it; a restart of munge takes one.
_MUNGE_PATIENCE_S = 5.0
_ASK_MUNGE = frozenset(("sacct", "sacctmgr", "salloc", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun"))
_MUNGE = "/run/munge/munge.socket.2"


def _needs_munge(program: str) -> bool:
    return paths.basename(program) in _ASK_MUNGE


def munge_is_down() -> bool:
    """Return whether munge's socket has no listener any more, or its daemon removed it when it ended."""
    from _socket import AF_UNIX, socket  # `socket` makes an enum of each family and option, 2 ms

    with closing(socket(AF_UNIX)) as visitor:
        try:
            visitor.connect(_MUNGE)
        except ConnectionRefusedError:
            return True
        except FileNotFoundError:
            return paths.isdir(paths.dirname(_MUNGE))
        except OSError:
            return False
    return False


def checked(result: ProgramResult, *, hint: str | None = None) -> ProgramResult:
    """Return the result itself, or `CommandFailed` with what the program said."""
    if not result.ok:
        raise CommandFailed(result.argv, result.status, result.stderr or result.stdout, hint=hint)
    return result


def shell_status(code: int) -> int:
    """Return how a process ended as a shell's $? has it: 128 + n for signal n, which Python has as -n."""
    return 128 - code if code < 0 else code


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stdin: _FILE = None,
    stdout: _FILE = None,
    stderr: _FILE = None,
    own_group: bool = False,
    pass_fds: Sequence[int] = (),
) -> Process:
    """Start `argv` and return the running process, which the caller has to end."""
    import subprocess

    try:
        return subprocess.Popen(
            list(argv),
            env=None if env is None else dict(env),
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
            **options_of_group(own_group=own_group),
        )
    except FileNotFoundError as error:
        raise _not_there(argv[0], error, cwd) from None
    except PermissionError:
        raise _may_not_run(argv[0]) from None
    except OSError as error:
        raise _refused_by_kernel(argv, env, error) from None


def end_group(process: Process, *, grace_s: float = 0.0) -> None:
    """End a process started with `own_group`, and its children: SIGTERM, `grace_s` later SIGKILL."""
    import subprocess

    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, None)):
        if patience_s == 0.0:
            continue
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            continue
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    process.wait()


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    files: Mapping[int, int],
    own_group: bool = False,
    inherits: bool = True,
    folder: str | None = None,
) -> int:
    """Start `argv` with these descriptors (its number → ours); its process number, for the caller to wait for.

    As `start`, without what `subprocess` costs a launch: 10 ms. `inherits`: also with those that this process was
    given by whoever started it.
    """
    import fcntl

    # Above all numbers that are given away, so that no source is overwritten.
    least = max(files, default=2) + 1
    high = {number: fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, least) for number, source in files.items()}
    actions = [(os.POSIX_SPAWN_DUP2, source, number) for number, source in high.items()]
    closings = [] if inherits else [(os.POSIX_SPAWN_CLOSE, number) for number in _inherited() if number not in files]
    ignored = [signal.SIGPIPE, signal.SIGXFSZ]  # Python ignores them; what it starts has not asked for that
    group: dict[str, Any] = {"setpgroup": 0} if own_group else {}
    try:
        with _standing_in(folder):
            return os.posix_spawnp(
                argv[0], list(argv), dict(env), file_actions=[*actions, *closings], setsigdef=ignored, **group
            )
    except FileNotFoundError as error:
        raise _not_there(argv[0], error, folder) from None
    except OSError as error:
        raise _refused_by_kernel(argv, env, error) from None
    finally:
        for descriptor in high.values():
            os.close(descriptor)


def _inherited() -> Iterator[int]:
    """Yield the descriptors beyond the standard streams that every process started here would get."""
    for number in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # that of the listing itself is closed by now
            if number > 2 and os.get_inheritable(number):
                yield number


@contextmanager
def _standing_in(folder: str | None) -> Iterator[None]:
    """Stand in the folder for as long as it takes to start a program there: posix_spawn starts it where we stand."""
    if folder is None or paths.samefile(folder, "."):
        yield
        return
    before = os.open(".", os.O_PATH)  # a folder that may not be listed is opened too
    try:
        os.chdir(folder)
        yield
    finally:
        os.chdir(before)
        os.close(before)


def _may_not_run(program: str) -> MachineLacks:
    """Return the error for a program that this user may not start: its folder is closed, or its mode is wrong."""
    from pathlib import Path

    closed = next((folder for folder in reversed(Path(program).parents) if not os.access(folder, os.X_OK)), None)
    if closed is not None and closed.is_absolute():
        return MachineLacks(
            program,
            f"{program} may not be run: this user may not enter {closed}",
            hint=f"its owner opens the folder with chmod o+x {closed}, or installs the program where all may enter",
        )
    return MachineLacks(program, f"{program} may not be run", hint=f"chmod +x {program}, or name its interpreter first")


def become(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Replace this process by `argv`: nothing of Muster stays beside it."""
    try:
        os.execvpe(argv[0], list(argv), dict(env))
    except FileNotFoundError as error:
        raise _not_there(argv[0], error, None) from None
    except PermissionError:
        raise _may_not_run(argv[0]) from None
    except OSError as error:
        raise _refused_by_kernel(argv, env, error) from None


def _refused_by_kernel(argv: Sequence[str], env: Mapping[str, str] | None, error: OSError) -> Exception:
    """Return what the kernel refuses to start, as a sentence; any other error as it is."""
    if error.errno == errno.EAGAIN:
        return RequestError(
            f"no more processes can be started here: {argv[0]}", hint="start fewer ranks; ulimit -u shows the limit"
        )
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        return RequestError(
            f"no more files can be opened here to start {argv[0]}", hint="start fewer ranks, or raise ulimit -n"
        )
    if error.errno in {errno.ENOEXEC, errno.EIO, errno.ELIBBAD}:
        return MachineLacks(
            argv[0],
            f"{argv[0]} cannot be started: {error.strerror}",
            hint="it is another machine's program, or it is not whole: install it again",
        )
    if error.errno != errno.E2BIG:
        return error
    words = sum(len(os.fsencode(word)) + 1 for word in argv)
    variables = sum(len(os.fsencode(name + value)) + 2 for name, value in (env or {}).items())
    return RequestError(
        f"{argv[0]}: words of {words:,} bytes and an environment of {variables:,} are more than the kernel takes",
        hint="give the command a file instead of a long argument, or unset large variables",
    )


def _not_there(program: str, error: FileNotFoundError, cwd: str | os.PathLike[str] | None) -> MachineLacks:
    if cwd is not None and not paths.isdir(cwd):
        return MachineLacks(str(cwd), f"the working directory {cwd} is not there", hint="make it, or give another")
    del error
    return MachineLacks(
        program, f"the program {program!r} is not on PATH", hint=f"install {program}, or load the module that has it"
    )
