"""The runner of a job with several programs: starts each role when those that it needs are ready, and ends all of them.

`decide(roles, state, event, now)` is pure: it returns the next state and what is to be done. The rest of the file does
it: starts roles, asks whether they are ready, ends them. The file is long because a script carries it as one text, and
needs nothing beside it. Standard library, Python 3.6.
"""

import binascii
import glob
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

LAST_S = 30.0
"""So long after SIGKILL a role may take to end; then the job ends without it."""

WAITS, STARTS, READY, OVER = "waits", "starts", "ready", "over"


class RoleTerms(NamedTuple):
    """What was asked for one role."""

    name: str
    after: Tuple[str, ...] = ()
    is_main: bool = False
    ends_job: bool = True
    """Whether its failure ends the job."""
    within_s: float = 600.0
    is_asked: bool = False
    """Whether a way to be ready was asked for; else the role counts as ready when its ranks have begun."""
    grace_s: float = 10.0


class RolePhase(NamedTuple):
    """Where a role stands, and since when."""

    phase: str = WAITS
    since: float = 0.0


class RolesState(NamedTuple):
    """Where the job stands."""

    phases: Dict[str, RolePhase]
    status: Optional[int] = None
    """The status of the job, once its end is decided."""
    kill_at: float = 0.0
    was_killed: bool = False


class JobBegins(NamedTuple):
    """The script of the job begins."""


class RoleReady(NamedTuple):
    """A role is ready."""

    name: str


class RoleEnded(NamedTuple):
    """The script of a role has ended."""

    name: str
    status: int


class JobTold(NamedTuple):
    """The job was told to end; the status is that of the signal."""

    status: int


class TimePasses(NamedTuple):
    """Nothing has happened."""


class StartRole(NamedTuple):
    """Start the ranks of a role."""

    name: str


class TellRole(NamedTuple):
    """Tell a role to end: SIGTERM."""

    name: str


class KillRole(NamedTuple):
    """End a role: SIGKILL."""

    name: str


class NoteRole(NamedTuple):
    """Write down what happened to a role."""

    name: str
    what: str
    """starts, ready, ended; failed or late: the cause of the end; noted: a failure that ends nothing; left."""
    status: int = 0
    words: str = ""


class FinishRoles(NamedTuple):
    """End the job."""

    status: int


def decide(roles: Sequence[RoleTerms], state: RolesState, event: Any, now: float) -> Tuple[RolesState, List[Any]]:
    """Return the next state, and what is to be done."""
    if isinstance(event, JobBegins):
        return _start_next(roles, state, now, [])
    if isinstance(event, RoleReady):
        return _ready(roles, state, event.name, now)
    if isinstance(event, RoleEnded):
        return _ended(roles, state, event, now)
    if isinstance(event, JobTold):
        return _end(roles, state, event.status, now, [])
    return _time(roles, state, now)


def _with(state: RolesState, name: str, phase: str, now: float) -> RolesState:
    return state._replace(phases={**state.phases, name: RolePhase(phase, now)})


def _start_next(
    roles: Sequence[RoleTerms], state: RolesState, now: float, actions: List[Any]
) -> Tuple[RolesState, List[Any]]:
    """Start each role that waits and whose needs are met: a role that was ready and has ended well meets them."""
    for role in roles:
        met = all(state.phases[name].phase in (READY, OVER) for name in role.after)
        if state.status is None and state.phases[role.name].phase == WAITS and met:
            state = _with(state, role.name, STARTS, now)
            actions = actions + [StartRole(role.name), NoteRole(role.name, "starts")]
    return state, actions


def _ready(roles: Sequence[RoleTerms], state: RolesState, name: str, now: float) -> Tuple[RolesState, List[Any]]:
    if state.phases[name].phase != STARTS:
        return state, []
    return _start_next(roles, _with(state, name, READY, now), now, [NoteRole(name, "ready")])


def _ended(roles: Sequence[RoleTerms], state: RolesState, event: RoleEnded, now: float) -> Tuple[RolesState, List[Any]]:
    role = next(role for role in roles if role.name == event.name)
    before = state.phases[role.name].phase
    state = _with(state, role.name, OVER, now)
    actions = [NoteRole(role.name, "ended", event.status)]  # type: List[Any]
    if state.status is not None:
        return (state, actions + [FinishRoles(state.status)]) if _is_over(state) else (state, actions)
    if role.is_main:
        failed = [NoteRole(role.name, "failed", event.status)] if event.status else []
        return _end(roles, state, event.status, now, actions + failed)
    is_early = before == STARTS and (role.is_asked or event.status != 0)
    if is_early and _is_needed(roles, state, role.name):
        words = "it ended before it was ready"
        actions = actions + [NoteRole(role.name, "failed", event.status, words)]
        return _end(roles, state, event.status or 1, now, actions)
    if event.status == 0:
        return _start_next(roles, state, now, actions)
    if role.ends_job:
        return _end(roles, state, event.status, now, actions + [NoteRole(role.name, "failed", event.status)])
    return state, actions + [NoteRole(role.name, "noted", event.status)]


def _is_needed(roles: Sequence[RoleTerms], state: RolesState, name: str) -> bool:
    """Return whether a role that waits needs this one."""
    return any(name in role.after and state.phases[role.name].phase == WAITS for role in roles)


def _is_over(state: RolesState) -> bool:
    return all(place.phase in (OVER, WAITS) for place in state.phases.values())


def _end(
    roles: Sequence[RoleTerms], state: RolesState, status: int, now: float, actions: List[Any]
) -> Tuple[RolesState, List[Any]]:
    """End the job: the roles that run are told; a second reason changes nothing."""
    if state.status is not None:
        return state, actions
    running = [role for role in roles if state.phases[role.name].phase in (STARTS, READY)]
    grace = max([role.grace_s for role in running] or [0.0])
    state = state._replace(status=status, kill_at=now + grace)
    if not running:
        return state, actions + [FinishRoles(status)]
    return state, actions + [TellRole(role.name) for role in running]


def _time(roles: Sequence[RoleTerms], state: RolesState, now: float) -> Tuple[RolesState, List[Any]]:
    running = [role for role in roles if state.phases[role.name].phase in (STARTS, READY)]
    if state.status is None:
        for role in running:
            phase = state.phases[role.name]
            counts = role.is_asked or _is_needed(roles, state, role.name)
            if phase.phase == STARTS and counts and now - phase.since > role.within_s:
                words = "it was not ready after {:g} s".format(role.within_s)
                return _end(roles, state, 1, now, [NoteRole(role.name, "late", 1, words)])
        return state, []
    if now >= state.kill_at and not state.was_killed:
        return state._replace(was_killed=True), [KillRole(role.name) for role in running]
    if now >= state.kill_at + LAST_S:
        return state, [NoteRole(role.name, "left") for role in running] + [FinishRoles(state.status)]
    return state, []


# What follows acts.

_LOOK_S = 0.1
_ASK_S = 5.0
_OFTEN_S = 60.0
_LINES = 15
_TEXT_BYTES = 1 << 20


class RoleUnit:
    """One role as it runs: its place, its addresses and its process."""

    def __init__(self, words: Dict[str, str], hosts: Sequence[str]) -> None:
        self.name = words["role"]
        first, nodes = int(words["first"]), int(words["nodes"])
        self.hosts = tuple(hosts[first : first + nodes])
        self.ranks = int(words["ranks"])
        self.ready, self.text = words["ready"], words.get("text", "")
        self.scheme = words.get("scheme", "http")
        self.fixed_port = int(words.get("port") or 0)
        self.port_count = int(words.get("ports") or 1)
        self.port = 0
        self.key = binascii.hexlify(os.urandom(32)).decode()
        self.is_step = words.get("starter", "step") == "step"
        after = tuple(name for name in words.get("after", "").split(",") if name)
        self.terms = RoleTerms(
            self.name,
            after,
            words.get("main") == "yes",
            words.get("fails") != "noted",
            float(words["within"]),
            self.ready != "joined",
            float(words["grace"]),
        )
        self.process = None  # type: Optional[subprocess.Popen[bytes]]
        self.lacks = ""
        """What it lacked to be ready at the last look."""

    def ports_from(self, first: int) -> range:
        """Return the ports that the role's program takes on each of its nodes if this is the first."""
        return range(first, first + self.port_count)

    def addresses(self) -> Dict[str, str]:
        """Return where this role is, by the names of the gaps."""
        url = "{}://{}:{}".format(self.scheme, self.hosts[0], self.port)
        return {"host": self.hosts[0], "hosts": ",".join(self.hosts), "port": str(self.port), "url": url}


class RoleRunner:
    """Steers the roles of one job."""

    def __init__(self, script: str, run: str, units: Sequence[RoleUnit], low: int, count: int) -> None:
        self.script, self.run = script, run
        self.units = {unit.name: unit for unit in units}
        self.terms = tuple(unit.terms for unit in units)
        self.state = RolesState({unit.name: RolePhase() for unit in units})
        self.events = queue.Queue()  # type: queue.Queue[Any]
        self.told = 0
        self.killed = []  # type: List[RoleUnit]
        job = os.environ.get("SLURM_JOB_ID", "0")
        self.job = job
        _choose_ports(units, int(re.sub("[^0-9]", "", job) or 0), low, count)

    def steer(self) -> int:
        """Run the roles; return the status of the job."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup
                signal.signal(number, self._hear)
        folder = self._folder()
        if os.path.exists(os.path.join(folder, "events")):  # of the run before, if Slurm has put the job back
            os.rename(os.path.join(folder, "events"), os.path.join(folder, "events.{:.0f}".format(time.time())))
        places = {name: dict(unit.addresses(), nodes=unit.hosts, ranks=unit.ranks) for name, unit in self.units.items()}
        _write(os.path.join(folder, "roles.json"), json.dumps(places, indent=2) + "\n")
        status = self._do(JobBegins())
        while status is None:
            try:
                event = self.events.get(timeout=_LOOK_S)
            except queue.Empty:
                event = TimePasses()
            if self.told:
                if not isinstance(event, TimePasses):
                    self.events.put(event)
                self.told, event = 0, JobTold(self.told)
            status = self._do(event)
            if status is None and not isinstance(event, TimePasses):
                status = self._do(TimePasses())
        for unit in self.units.values():
            # mpirun kills its ranks together with the shells that would have looked for what they left.
            if unit in self.killed or (unit.process is not None and not unit.is_step):
                self._sweep(unit)
        return status

    def _hear(self, number: int, frame: Any) -> None:
        del frame
        self.told = 128 + number

    def _folder(self, *names: str) -> str:
        path = os.path.join(self.run, "roles", *names)
        os.makedirs(path, mode=0o700, exist_ok=True)
        return path

    def _do(self, event: Any) -> Optional[int]:
        self.state, actions = decide(self.terms, self.state, event, time.monotonic())
        status = None
        for action in actions:
            if isinstance(action, FinishRoles):
                status = action.status
            elif isinstance(action, NoteRole):
                self._note(action)
            else:
                unit = self.units[action.name]
                {StartRole: self._start, TellRole: self._tell, KillRole: self._kill}[type(action)](unit)
        return status

    def _note(self, note: NoteRole) -> None:
        """Write into the job's own output, and for the verbs that look at it."""
        sentences = {
            "ready": "role {0} is ready",
            "ended": "role {0} ended with status {1}",
            "failed": "role {0} ends the job: {2}",
            "late": "role {0} ends the job: {2}",
            "noted": "role {0} failed with status {1}; the job goes on without it",
            "left": "role {0} could not be ended",
        }
        words = note.words or "it ended with status {}".format(note.status)
        lacks = self.units[note.name].lacks if note.what == "late" else ""
        words += ": " * bool(lacks) + lacks
        if note.what in sentences:
            _say("muster: " + sentences[note.what].format(note.name, note.status, words))
        if note.words:
            lines = self._last_lines(note.name)
            if lines:
                _say("the last lines of role {}:\n  {}".format(note.name, "\n  ".join(lines)))
        entry = {"time": time.time(), "role": note.name, "what": note.what, "status": note.status}
        entry["words"] = words if note.words else ""
        try:
            with open(os.path.join(self._folder(), "events"), "a") as file:
                file.write(json.dumps(entry) + "\n")
        except OSError:
            pass

    def _last_lines(self, name: str) -> List[str]:
        lines = []  # type: List[str]
        for text in _texts(os.path.join(self.run, "roles", name, "logs")):
            lines += [line for line in text.splitlines() if line.strip()][-_LINES:]
        return lines[-_LINES:]

    def environment(self, unit: RoleUnit) -> Dict[str, str]:
        """Return the variables of a role: the addresses of all roles, and Slurm's names for its own nodes alone."""
        variables = dict(os.environ)
        for other in self.units.values():
            for gap, value in other.addresses().items():
                variables["MUSTER_{}_{}".format(other.name, gap).upper()] = value
            variables["MUSTER_{}_KEY".format(other.name).upper()] = other.key
        names, count = ",".join(unit.hosts), str(len(unit.hosts))
        variables.update(
            SLURM_JOB_NODELIST=names,
            SLURM_JOB_NUM_NODES=count,
            SLURM_OPEN_MODE="append",
            muster_of_role=unit.name,
            MUSTER_ROLE_PORT=str(unit.port),
            MUSTER_ROLE_KEY=unit.key,
        )
        if not unit.is_step:
            # mpirun has to know all nodes of the job: with some of them Open MPI 4.1 started ranks on its own host.
            # The tasks of a node, of which the header may count fewer, are those of the role.
            nodes = os.environ.get("SLURM_JOB_NUM_NODES", count)
            variables["SLURM_TASKS_PER_NODE"] = "{}(x{})".format(unit.ranks, nodes)
        return variables

    def _start(self, unit: RoleUnit) -> None:
        try:
            self._start_script(unit)
        except (OSError, RuntimeError) as error:
            _say("muster: role {} cannot be started: {}".format(unit.name, error))
            self.events.put(RoleEnded(unit.name, 1))

    def _start_script(self, unit: RoleUnit) -> None:
        self._folder(unit.name, "logs")
        with open(os.path.join(self.run, "roles", unit.name, "logs", "batch.log"), "ab") as log:
            process = subprocess.Popen(
                ["bash", self.script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment(unit),
                start_new_session=True,
            )
        unit.process = process
        threading.Thread(target=self._wait, args=(unit, process), daemon=True).start()
        threading.Thread(target=self._look, args=(unit, process), daemon=True).start()

    def _wait(self, unit: RoleUnit, process: "subprocess.Popen[bytes]") -> None:
        code = process.wait()
        self.events.put(RoleEnded(unit.name, code if code >= 0 else 128 - code))

    def _look(self, unit: RoleUnit, process: "subprocess.Popen[bytes]") -> None:
        """Ask until the role is ready, or has ended: often at first, and every second after a minute."""
        since = time.monotonic()
        while process.poll() is None:
            try:
                unit.lacks = self._lack(unit)
                if not unit.lacks:
                    self.events.put(RoleReady(unit.name))
                    return
            except (OSError, ValueError):
                pass  # a file was removed meanwhile
            time.sleep(0.1 if time.monotonic() - since < _OFTEN_S else 1.0)

    def _lack(self, unit: RoleUnit) -> str:
        """Return what a role lacks to be ready; empty: it is ready."""
        logs = os.path.join(self.run, "roles", unit.name)
        if unit.ready == "joined":
            begun = _count_begun(logs)
            count = len(unit.hosts)
            return "" if begun >= count else "its command has begun on {} of {} nodes".format(begun, count)
        if unit.ready == "log":
            text = self._filled(unit, unit.text, unit.hosts[0])
            says = self._says(unit, os.path.join(logs, "logs"), text)
            return "" if says else "the log of a node of it lacks the text {!r}".format(text)
        if unit.ready == "command":
            return "" if self._succeeds(unit) else "the command of --ready fails on {}".format(unit.hosts[0])
        if unit.ready == "port":
            deaf = [host for host in unit.hosts if not _answers(host, unit.port)]
            return "port {} of {} takes no connection".format(unit.port, ", ".join(deaf)) if deaf else ""
        for host in unit.hosts:
            lacks = []
            for text in unit.text.split():  # of several addresses one is enough
                lack = _lack_of(self._filled(unit, text, host))
                if not lack:
                    break
                lacks.append(lack)
            else:
                return ", ".join(lacks)
        return ""

    def _says(self, unit: RoleUnit, folder: str, text: str) -> bool:
        """Return whether this text stands in the log of each node of the role, which srun names after the node."""
        if not unit.is_step:
            return any(text in log for log in _texts(folder, "*"))
        return all(any(text in log for log in _texts(folder, host)) for host in unit.hosts)

    def _filled(self, unit: RoleUnit, text: str, host: str) -> str:
        """Return a text with addresses in the place of its gaps; the role's own host is `host`."""
        for other in self.units.values():
            for gap, value in other.addresses().items():
                if other is unit and gap in ("host", "url"):
                    value = value.replace(unit.hosts[0], host)  # noqa: PLW2901  # the gap's value for this host
                text = text.replace("{{{}.{}}}".format(other.name, gap), value)
        return text

    def _succeeds(self, unit: RoleUnit) -> bool:
        """Return whether the command of --ready succeeds on the role's first node, beside the role."""
        text = self._filled(unit, unit.text, unit.hosts[0])
        words = ["srun", "--overlap", "--quiet", "--nodes=1", "--ntasks=1", "--mem=0", "--input=none", "--mpi=none"]
        words += ["--nodelist=" + unit.hosts[0], "sh", "-c", text]
        return _run(words, 30.0, self.environment(unit))[0] == 0

    def _steps(self, unit: RoleUnit) -> List[str]:
        """Return the ids of the role's steps: each is named after it."""
        status, text = _run(["scontrol", "--oneliner", "show", "step", self.job], _ASK_S)
        steps = re.findall(r"^StepId=(\S+) .*\bName={}(?: |$)".format(unit.name), text, re.MULTILINE)
        return steps if status == 0 else []

    def _tell(self, unit: RoleUnit) -> None:
        """Send SIGTERM: to the role's script, which starts nothing again, and to its ranks."""
        if unit.process is None or unit.process.poll() is not None:
            return
        if not unit.is_step:
            _signal_group(unit.process.pid, signal.SIGTERM)
            return
        _signal(unit.process.pid, signal.SIGTERM)
        self._signal_steps(unit, "TERM")

    def _kill(self, unit: RoleUnit) -> None:
        self.killed.append(unit)
        if unit.process is None or unit.process.poll() is not None:
            return
        self._signal_steps(unit, "KILL")
        pid = unit.process.pid
        # A script that waits for a step that does not end is ended too.
        patience = 0.0 if not unit.is_step else LAST_S / 3
        timer = threading.Timer(patience, lambda: _signal_group(pid, signal.SIGKILL))
        timer.daemon = True
        timer.start()

    def _signal_steps(self, unit: RoleUnit, name: str) -> None:
        steps = self._steps(unit)
        if steps:
            _run(["scancel", "--quiet", "--signal=" + name] + steps, _ASK_S)

    def _sweep(self, unit: RoleUnit) -> None:
        """End what a role that was killed has left on its nodes: its processes carry its mark."""
        mark = "MUSTER_MARK={}/roles/{}/".format(self.run, unit.name)
        text = (
            'for file in /proc/[0-9]*/environ; do [ -O "$file" ] && grep -qszF -e "$1" "$file" || continue; '
            'pid=${file#/proc/}; pid=${pid%/environ}; [ "$pid" = "$$" ] || kill -KILL "$pid"; done 2>/dev/null'
        )
        words = ["srun", "--overlap", "--quiet", "--ntasks-per-node=1", "--mem=0", "--input=none", "--mpi=none"]
        words += [
            "--nodes={}".format(len(unit.hosts)),
            "--nodelist=" + ",".join(unit.hosts),
            "sh",
            "-c",
            text,
            "sh",
            mark,
        ]
        _run(words, 30.0)


def _choose_ports(units: Sequence[RoleUnit], job: int, low: int, count: int) -> None:
    """Give each role ports that no other has, below the ephemeral range; those on this host are tried."""
    here = os.environ.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0]
    taken = {port for unit in units if unit.fixed_port for port in unit.ports_from(unit.fixed_port)}
    start = (job * 61 + 17) % count
    for unit in units:
        rows = (unit.ports_from(low + (start + step) % count) for step in range(count))
        free_rows = (
            row
            for row in rows
            if row[-1] < low + count
            and not taken.intersection(row)
            and (here not in unit.hosts or all(_is_free(port) for port in row))
        )
        unit.port = unit.fixed_port or next(free_rows, range(low, low + 1))[0]
        taken.update(unit.ports_from(unit.port))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=2):
            return True
    except OSError:
        return False


def _lack_of(address: str) -> str:
    """Return what an address lacks; empty: it answers with 2xx."""
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(address, timeout=5) as answer:
            status = int(answer.getcode())
    except urllib.error.HTTPError as error:
        status = error.code
    except Exception as error:  # noqa: BLE001  # whatever an address does, the role is not ready
        return "{} does not answer ({})".format(address, getattr(error, "reason", error))
    return "" if 200 <= status < 300 else "{} answers {}".format(address, status)


def _count_begun(folder: str) -> int:
    """Return on how many nodes the newest start of a role has begun the command."""
    starts = sorted(glob.glob(os.path.join(folder, "ranks", "*")), key=os.path.getmtime)
    begun = set()
    for path in glob.glob(os.path.join(starts[-1], "*.*")) if starts else []:
        try:
            with open(path) as file:
                if " begins" in file.read(_TEXT_BYTES):
                    begun.add(path.rpartition(".")[2])
        except OSError:
            continue
    return len(begun)


def _texts(folder: str, name: str = "*") -> List[str]:
    """Return the ends of the logs of this name in a folder, that of the script first."""
    texts = []
    for path in sorted(glob.glob(os.path.join(folder, name + ".log")), key=lambda path: not path.endswith("batch.log")):
        try:
            with open(path, "rb") as file:
                file.seek(max(0, os.path.getsize(path) - _TEXT_BYTES))
                texts.append(os.fsdecode(file.read()))
        except OSError:
            continue
    return texts


def _run(words: Sequence[str], timeout_s: float, variables: Optional[Dict[str, str]] = None) -> Tuple[int, str]:
    try:
        answer = subprocess.run(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            env=variables,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 1, ""
    return answer.returncode, answer.stdout.decode(errors="replace")


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except OSError:
        pass


def _say(text: str) -> None:
    """Print a text of any bytes, in any locale; a disk that takes nothing more ends no job."""
    try:
        os.write(1, (text + "\n").encode("utf-8", "surrogateescape"))
    except OSError:
        pass


def _write(path: str, text: str) -> None:
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)


def _hosts() -> List[str]:
    return _run(["scontrol", "show", "hostnames", os.environ.get("SLURM_JOB_NODELIST", "")], 60.0)[1].split()


def main(arguments: Sequence[str], hosts: Callable[[], List[str]] = _hosts) -> int:
    """Run the roles that these words describe: the script, the run directory, the ports, then NAME=VALUE of each."""
    script, run, low, count = arguments[0], arguments[1], int(arguments[2]), int(arguments[3])
    described = []  # type: List[Dict[str, str]]
    for word in arguments[4:]:
        name, _, value = word.partition("=")
        if name == "role":
            described.append({})
        described[-1][name] = value
    names = hosts()
    needed = max(int(words["first"]) + int(words["nodes"]) for words in described)
    if len(names) < needed:
        sentence = (
            "muster: error: the roles need {} nodes, but the job has {}\n\nhint: write a new script with muster plan"
        )
        _say(sentence.format(needed, len(names)))
        return 2
    return RoleRunner(script, run, [RoleUnit(words, names) for words in described], low, count).steer()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
