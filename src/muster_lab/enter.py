"""Inside a lab: run one of our functions there, or a user's command, so that nothing but its world differs.

A command's exit status, stdin, stdout, signals and terminal pass through. It has two keepers, one on each side of the
border: the outer one waits and passes on signals; the inner one is told by the kernel when the outer one dies, and
then ends all that the command has started.
"""

from __future__ import annotations

import json
import os
import pwd
import select
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.act.preflight import LAB_FOLDERS
from muster.errors import MachineLacks, MusterError, RequestError, SiteError, UnknownName
from muster.runner import become, shell_status
from muster.sites.match import LAB_SITE
from muster_lab import config, host, kernel, paths, view
from muster_lab.kernel import EVERY_KIND, Namespace


def inside(pid: int, function: Callable[[], Any], *, kinds: Namespace = EVERY_KIND) -> Any:
    """Return what `function` returns (as JSON brings it) or raises, called inside the lab whose first process is `pid`.

    `kinds`: of which namespaces; those of the others are the machine's own.
    """
    answer, answer_end = os.pipe()
    visitor = kernel.fork(lambda: _visit(pid, function, answer_end, kinds))
    os.close(answer_end)
    with os.fdopen(answer) as text:
        said = text.read()
    os.waitpid(visitor, 0)
    if not said:
        raise SiteError("the lab ended during the command", hint="muster lab status")
    reply = json.loads(said)
    if "value" in reply:
        return reply["value"]
    raise _ERRORS[reply["kind"]](*reply["said"])


# Which errors keep their kind on the way out of the lab; any other error is a bug in Muster.
_ERRORS: dict[str, Callable[..., Exception]] = {"request": RequestError, "site": SiteError, "bug": RuntimeError}


def _described(error: Exception) -> dict[str, Any]:
    if isinstance(error, MusterError):
        kind = "request" if isinstance(error, RequestError) else "site"
        return {"kind": kind, "said": [error.message, error.hint]}
    position = traceback.extract_tb(error.__traceback__)[-1]
    return {"kind": "bug", "said": [f"inside the lab: {error!r} ({Path(position.filename).name}:{position.lineno})"]}


def _visit(pid: int, function: Callable[[], Any], answer: int, kinds: Namespace) -> int:
    os.setsid()
    kernel.close_files(keep=[answer])
    kernel.enter(pid, kinds)
    os.chdir("/")
    return os.waitstatus_to_exitcode(os.waitpid(kernel.fork(lambda: _answer(function, answer)), 0)[1])


def _answer(function: Callable[[], Any], answer: int) -> int:
    # What is started from here must not hold the caller's terminal or pipes.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        reply: dict[str, Any] = {"value": function()}
    except Exception as error:  # noqa: BLE001  # raised again outside
        reply = _described(error)
    os.write(answer, json.dumps(reply).encode())
    return 0


@dataclass(frozen=True)
class LabCommand:
    """A command to run in a lab: where, as whom, from which directory and environment."""

    argv: tuple[str, ...]
    host: str | None = None
    user: str | None = None
    directory: str = "/"
    environment: Mapping[str, str] = field(default_factory=dict)


def execute(pid: int, command: LabCommand) -> int:
    """Run `command` in the lab whose first process is `pid`; its exit status, 128 + n for a signal n."""
    kernel.enter(pid)
    view.show(Path(command.directory), [host.first_process(name) for name in host.known() if host.is_up(name)])
    if command.host is not None and command.host != config.LOGIN:
        _enter_host(command.host)
    identity = _identity(command.user)
    environment = _environment(command, identity)
    # Entering has left the caller's directory: a path that starts there is made whole.
    program_path = str(Path(command.directory, command.argv[0])) if "/" in command.argv[0] else command.argv[0]
    program = shutil.which(program_path, path=environment.get("PATH", os.defpath))
    if program is None:
        raise _not_there(command.argv[0], program_path)
    # What the caller has us ignore (nohup), the command ignores too.
    passed_on = {number for number in _PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN}
    signal.pthread_sigmask(signal.SIG_BLOCK, {*passed_on, signal.SIGCHLD, _OUTER_DIED})
    shares_terminal = any(map(os.isatty, (0, 1, 2)))
    alive, alive_end = os.pipe()

    def command_process() -> int:
        os.close(alive)
        if not shares_terminal:
            os.setpgid(0, 0)
        identity.assume()
        kernel.die_with_parent()
        _go_to(command.directory, identity)
        for number in passed_on | {signal.SIGPIPE, signal.SIGXFSZ}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        return _become([program, *command.argv[1:]], environment)

    def inner_keeper() -> int:
        os.close(alive_end)
        kernel.become_subreaper()
        kernel.die_with_parent(_OUTER_DIED)
        if _is_broken(alive):
            return 1
        command_pid = kernel.fork(command_process)
        os.setpgid(0, 0)  # whoever kills the caller's whole group must not silence this keeper
        return _keep(command_pid, passed_on)

    return _keep(kernel.fork(inner_keeper), passed_on)


def _not_there(word: str, path: str) -> MachineLacks:
    """Return the error for a program that cannot be found: not there, or in a folder that is closed to the caller."""
    closed = _closed_above(Path(path)) if "/" in word else None
    if closed is not None and closed.exists():
        return MachineLacks(
            word,
            f"{closed} is closed to you, but {path} lies in it",
            hint=f"the owner of {closed} can open it (chmod o+x {closed}); or put the program into a folder of yours",
        )
    if "/" in word:
        return MachineLacks(word, f"there is no program {path} in the lab", hint="check the path, and chmod +x FILE")
    return MachineLacks(word, f"the program {word!r} is not on PATH in the lab", hint="give its full path")


def _become(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Be the command; returns, as a shell would, only where the kernel cannot start it."""
    try:
        become(argv, environment)
    except MusterError as error:
        closed = _closed_above(Path(argv[0]))
        if closed is None:
            _complain(f"error: {error.message}\n\nhint: {error.hint}")
        else:
            user = environment["USER"]
            _complain(
                f"error: {closed} is closed to {user}, but {argv[0]} lies in it\n\n"
                f"hint: `chmod o+x {closed}` lets the lab's users pass; without --user the command runs as root"
            )
    except OSError as error:
        _complain(f"error: {argv[0]}: {error.strerror}")
    return 126


def _closed_above(path: Path) -> Path | None:
    """Return the first folder on the way to `path` that this process may not pass."""
    return next((parent for parent in reversed(path.parents) if not os.access(parent, os.X_OK)), None)


def _complain(message: str) -> None:
    sys.stderr.write(f"muster: {message}\n")
    sys.stderr.flush()


# A real-time signal that nobody else sends: tells the inner keeper that the outer one is gone.
_OUTER_DIED = signal.SIGRTMIN + 3
_PASSED_ON = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})
_FROM_TERMINAL = 0x80
"""SI_KERNEL: Ctrl-C reaches the whole process group by itself."""


def _keep(child: int, passed_on: Collection[int]) -> int:
    """Wait for `child`, pass on what we are sent, and return its status as a shell would."""
    while True:
        news = signal.sigwaitinfo({*passed_on, signal.SIGCHLD, _OUTER_DIED})
        if news.si_signo == _OUTER_DIED:
            kernel.end_children()
            return 1
        if news.si_signo != signal.SIGCHLD:
            # Of a closed terminal the kernel tells the session's leader only, which may be this keeper.
            if news.si_code != _FROM_TERMINAL or news.si_signo == signal.SIGHUP:
                os.kill(child, news.si_signo)
            continue
        status = _collect(child)
        if status is not None:
            return status


def _collect(child: int) -> int | None:
    """Collect all that has ended; the status of `child` if it has."""
    status = None
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                status = shell_status(os.waitstatus_to_exitcode(ended[1]))
    except ChildProcessError:
        pass
    return status


def _is_broken(pipe: int) -> bool:
    """Return whether nobody is left at the other end: the outer keeper died before it could be watched."""
    return bool(select.select([pipe], [], [], 0)[0])


def _enter_host(name: str) -> None:
    hosts = host.known()
    if name not in hosts:
        raise UnknownName("host in this lab", name, [config.LOGIN, *hosts])
    if not host.is_up(name):
        raise RequestError(f"{name} is down", hint=f"muster lab fault restore {name}")
    kernel.enter(host.first_process(name), ~Namespace.user)


@dataclass(frozen=True)
class _Identity:
    """Root of the lab (who is the caller outside), or one of its ordinary users, whom Slurm's rules bind."""

    user: pwd.struct_passwd | None

    def assume(self) -> None:
        if self.user is not None:
            os.setgroups([self.user.pw_gid])
            os.setgid(self.user.pw_gid)
            os.setuid(self.user.pw_uid)


def _identity(name: str | None) -> _Identity:
    if name is None or name == "root":
        return _Identity(None)
    try:
        return _Identity(pwd.getpwnam(name))
    except KeyError:
        raise UnknownName(
            "user in this lab", name, ["root", *(folder.name for folder in paths.HOMES.iterdir())]
        ) from None


def _environment(command: LabCommand, identity: _Identity) -> dict[str, str]:
    """Return the caller's environment, without what speaks of another cluster or another person."""
    environment = {key: value for key, value in command.environment.items() if not key.startswith(_FOREIGN)}
    if not Path("/etc/slurm/slurm.conf").exists():
        environment["SLURM_CONF"] = str(paths.CONFIG / "slurm.conf")
    environment |= {LAB_SITE: paths.SITE.read_text(), LAB_FOLDERS: "\n".join([*view.read_shown(), str(paths.HOMES)])}
    if command.host in {None, config.LOGIN}:
        # The login host has the machine's /tmp, where a lab of somebody else's has its own /tmp/ompi.login.0.
        environment |= dict.fromkeys(_SESSION_FOLDERS, str(paths.LOGIN_TEMPORARY))
    if identity.user is None:
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        names = {"USER": "root", "LOGNAME": "root"}
    else:
        user = identity.user.pw_name
        names = {"USER": user, "LOGNAME": user, "HOME": identity.user.pw_dir}
    return environment | names


_SESSION_FOLDERS = ("OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base")
_FOREIGN = ("SLURM", "SBATCH_", "SALLOC_", "SRUN_", "PMI_", "PMIX_", "OMPI_", "XDG_RUNTIME_DIR")


def _go_to(directory: str, identity: _Identity) -> None:
    home = "/" if identity.user is None else identity.user.pw_dir
    try:
        os.chdir(directory)
    except OSError as error:
        reason = "is closed to the lab's user" if isinstance(error, PermissionError) else "is not there in the lab"
        _complain(f"{directory} {reason}; the command starts in {home}")
        os.chdir(home)
