"""Does what `roles.decide` says: starts the script of each role, asks whether the role is ready, and ends it.

The script of a job with roles becomes this program. Each role is a run of the same script, over the nodes of the role;
where the role has rules of its own, that script becomes a supervisor too. Standard library only, Python 3.6.
"""

import binascii
import json
import os
import re
import signal
import socket
import subprocess
import time
from threading import Timer
from typing import Any, Callable, Dict, List, Mapping, Sequence

from muster.life import asking, roles, told
from muster.life.loop import ENDINGS, Loop, start_aside, write
from muster.life.rules import own_id
from muster.life.script import RunningScript
from muster.life.written import RunFiles

# Limits and graces are looked at so often.
_TICK_S = 0.5
_ANSWER_S = 5
_LINES = 15
_TEXT_BYTES = 1 << 20
# What Slurm tells of the GPUs of the script's own node: a step on nodes without GPUs would leave it as it is.
_OF_GPUS = re.compile("SLURM_JOB_GPUS|GPU_DEVICE_ORDINAL|.*(_VISIBLE_DEVICES|_AFFINITY_MASK)")
_WORDS = {
    "ready": "role {0} is ready",
    "ended": "role {0} ended with status {1}",
    "failed": "role {0} ends the job: {2}",
    "late": "role {0} ends the job: {2}",
    "noted": "role {0} failed with status {1}; the job goes on without it",
    "left": "role {0} could not be ended",
}


class RoleUnit(RunningScript):
    """One role as it runs: its place, its addresses and its script."""

    def __init__(self, words: Mapping[str, str], hosts: Sequence[str]) -> None:
        self.part = words.get("part", "")
        self.variables = _variables_of_part(self.part, os.environ)
        super().__init__(
            self.variables.get("muster_part_job") or os.environ.get("SLURM_JOB_ID", "0"), own_id(os.environ)
        )
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
        self.terms = roles.RoleTerms(
            self.name,
            tuple(name for name in words.get("after", "").split(",") if name),
            words.get("main") == "yes",
            words.get("fails") != "noted",
            float(words["within"]),
            self.ready != "joined",
            float(words["grace"]),
        )
        self.lacks = ""
        """What it lacked to be ready at the last look."""
        self.was_killed = False
        self.ended: Callable[[int], None]

    def script_ended(self, status: int, *, is_killed: bool) -> None:
        """Tell the runner."""
        del is_killed
        self.ended(status)

    def ports_from(self, first: int) -> range:
        """Return the ports that the role's program takes on each of its nodes if this is the first."""
        return range(first, first + self.port_count)

    def addresses(self) -> Dict[str, str]:
        """Return where this role is, by the names of the gaps."""
        url = "{}://{}:{}".format(self.scheme, self.hosts[0], self.port)
        return {"host": self.hosts[0], "hosts": ",".join(self.hosts), "port": str(self.port), "url": url}

    def end(self, by: str) -> None:
        """Signal the script, which starts nothing again, and the ranks."""
        self.was_killed = self.was_killed or by == "KILL"
        if self.child is None or self.child.poll() is not None:
            return
        pid, number = self.child.pid, signal.SIGTERM if by == "TERM" else signal.SIGKILL
        if not self.is_step:
            asking.send(-pid, number)
            return
        start_aside(self.signal_steps, by)
        if by == "TERM":
            asking.send(pid, number)
            return
        # A script that waits for a step that does not end is ended too.
        timer = Timer(roles.LAST_S / 3, asking.send, (-pid, number))
        timer.daemon = True
        timer.start()


class RoleRunner(Loop):
    """Steers the roles of one job."""

    def __init__(self, script: str, run: str, units: Sequence[RoleUnit], low: int, count: int) -> None:
        super().__init__()
        self.script, self.run = script, run
        self.files = RunFiles(os.path.join(run, "roles"))
        self.units = {unit.name: unit for unit in units}
        self.terms = tuple(unit.terms for unit in units)
        self.state = roles.RolesState({unit.name: roles.RolePhase() for unit in units})
        _choose_ports(units, int(re.sub("[^0-9]", "", os.environ.get("SLURM_JOB_ID", "")) or 0), low, count)
        self._acts: Dict[type, Callable[[Any], None]] = {
            roles.StartRole: lambda action: self._start(self.units[action.name]),
            roles.EndRole: lambda action: self.units[action.name].end(action.by),
            roles.NoteRole: self._note,
            roles.FinishRoles: self._finish,
        }

    def steer(self) -> int:
        """Run the roles; return the status of the job."""
        self.listen(ENDINGS, lambda number: self.tell(roles.JobTold(128 + number)))
        self._folder()
        if self.files.has("events"):  # of the run before, if Slurm has put the job back
            path = os.path.join(self.files.folder, "events")
            os.rename(path, "{}.{:.0f}".format(path, time.time()))
        places = {
            name: dict(unit.addresses(), nodes=unit.hosts, ranks=unit.ranks, ready=unit.ready)
            for name, unit in self.units.items()
        }
        self.files.put("roles.json", json.dumps(places, indent=2) + "\n")
        while self.status is None:
            self.tell(roles.TimePasses())
            self.wait(_TICK_S)
        for unit in self.units.values():
            # mpirun kills its ranks together with the shells that would have looked for what they left.
            if unit.was_killed or (unit.child is not None and not unit.is_step):
                self._sweep(unit)
        return self.status

    def tell(self, event: Any) -> None:
        """Decide by an event, and do what is decided."""
        if self.status is None:
            self.state, actions = roles.decide(self.terms, self.state, event, time.monotonic())
            for action in actions:
                self._acts[type(action)](action)

    def say(self, text: str) -> None:
        """Say something in the output of the job."""
        write(1, text)

    def _folder(self, *names: str) -> str:
        path = os.path.join(self.run, "roles", *names)
        os.makedirs(path, mode=0o700, exist_ok=True)
        return path

    def _finish(self, action: roles.FinishRoles) -> None:
        self.status = action.status

    def _note(self, note: roles.NoteRole) -> None:
        """Write into the job's own output, and for the verbs that look at it."""
        words = note.words or "it ended with status {}".format(note.status)
        lacks = self.units[note.name].lacks if note.what == "late" else ""
        words += ": " * bool(lacks) + lacks
        if note.what in _WORDS:
            self.say("muster: " + _WORDS[note.what].format(note.name, note.status, words))
        lines = self._last_lines(note.name) if note.words else []
        if lines:
            self.say("the last lines of role {}:\n  {}".format(note.name, "\n  ".join(lines)))
        entry = {"time": time.time(), "role": note.name, "what": note.what, "status": note.status}
        self.files.add("events", json.dumps(dict(entry, words=words if note.words else "")))

    def _last_lines(self, name: str) -> List[str]:
        lines: List[str] = []
        # That of the script comes first.
        paths = _files(os.path.join(self.run, "roles", name, "logs"), ".log")
        for path in sorted(paths, key=lambda path: not path.endswith("batch.log")):
            lines += [line for line in _text(path).splitlines() if line.strip()][-_LINES:]
        return lines[-_LINES:]

    def environment(self, unit: RoleUnit) -> Dict[str, str]:
        """Return the variables of a role: the addresses of all roles, and Slurm's names for its own nodes alone."""
        variables = dict(unit.variables)
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
            MUSTER_ROLE_PORTS=str(unit.port_count),
            MUSTER_ROLE_KEY=unit.key,
        )
        if not unit.is_step:
            # mpirun has to know all nodes of the job: with some of them Open MPI 4.1 started ranks on its own host.
            # The tasks of a node, of which the header may count fewer, are those of the role.
            nodes = os.environ.get("SLURM_JOB_NUM_NODES", count)
            variables["SLURM_TASKS_PER_NODE"] = "{}(x{})".format(unit.ranks, nodes)
        return variables

    def _start(self, unit: RoleUnit) -> None:
        unit.ended = lambda status: self.post(lambda: self.tell(roles.RoleEnded(unit.name, status)))
        try:
            with open(os.path.join(self._folder(unit.name, "logs"), "batch.log"), "ab") as log:
                streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
                unit.start_script([self.script], self.environment(unit), start_new_session=True, **streams)
            start_aside(self._look, unit)
        except (OSError, RuntimeError) as error:
            self.say("muster: role {} cannot be started: {}".format(unit.name, error))
            unit.ended(1)

    def _look(self, unit: RoleUnit) -> None:
        """Ask until the role is ready, or has ended: soon at first, for the next role waits."""
        since = time.monotonic()
        while unit.runs():
            try:
                unit.lacks = self._lack(unit)
                if not unit.lacks:
                    self.post(lambda: self.tell(roles.RoleReady(unit.name)))
                    return
            except (OSError, ValueError):
                pass  # a file was removed meanwhile
            time.sleep(_pause_after(time.monotonic() - since))

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
            return any(text in _text(path) for path in _files(folder, ".log"))
        return all(text in _text(os.path.join(folder, host + ".log")) for host in unit.hosts)

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
        words = ["srun", "--overlap", *asking.of_part(unit.part), "--quiet", "--nodes=1", "--ntasks=1", "--mem=0"]
        words += ["--input=none", "--mpi=none", "--nodelist=" + unit.hosts[0], "sh", "-c", text]
        return asking.run(words, 30.0, self.environment(unit)).status == 0

    def _sweep(self, unit: RoleUnit) -> None:
        """End what a role that was killed has left on its nodes: its processes carry its mark."""
        mark = "{}/roles/{}/".format(self.run, unit.name)
        text = asking.node_text("end_left")
        asking.run(asking.on_nodes(unit.hosts, "sh", "-c", text, "sh", mark, part=unit.part), 30.0, unit.variables)


def _variables_of_part(part: str, environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables of the job as those of one part of it: Slurm gives the batch script those of the first.

    The names of all parts go: srun takes the GPUs of each of them for an option of its own.
    """
    if not part:
        return dict(environment)
    of_parts = {name: name.partition("_HET_GROUP_")[::2] for name in environment if "_HET_GROUP_" in name}
    own = {plain: environment[name] for name, (plain, number) in of_parts.items() if number == part}
    named = {plain for plain, _ in of_parts.values()}
    others = {
        name: value
        for name, value in environment.items()
        if name not in named and not re.search("_(HET|PACK)_GROUP_", name)
        if part == "0" or not _OF_GPUS.fullmatch(name)
    }
    own_job = own.pop("SLURM_JOB_ID")
    return dict(others, **own, SLURM_JOB_ID=environment["SLURM_JOB_ID"], muster_part=part, muster_part_job=own_job)


def _nodes_of_job(environment: Mapping[str, str]) -> List[str]:
    """Return the nodes of the job, part by part."""
    count = int(environment.get("SLURM_HET_SIZE") or 0)
    lists = ["SLURM_JOB_NODELIST_HET_GROUP_%d" % part for part in range(count)] or ["SLURM_JOB_NODELIST"]
    return [host for name in lists for host in asking.expand(environment.get(name, ""))]


def _text(path: str) -> str:
    """Return the end of a log; a text is looked for in the bytes that the locale would give."""
    return os.fsdecode(told.read_tail(path, _TEXT_BYTES))


def _choose_ports(units: Sequence[RoleUnit], job: int, low: int, count: int) -> None:
    """Give each role ports that no other has, nor another job that begins now; those on this host are tried."""
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
            and all((here not in unit.hosts or _is_free(port)) and _claim(port) for port in row)
        )
        unit.port = unit.fixed_port or next(free_rows, range(low, low + 1))[0]
        taken.update(unit.ports_from(unit.port))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return _bound(probe, ("", port))


def _claim(port: int) -> bool:
    """Take a port before all jobs that are steered from this host, by a name that the kernel keeps until this ends."""
    with socket.socket(socket.AF_UNIX) as name:
        return _bound(name, "\0muster-port-{}".format(port)) and name.detach() >= 0


def _bound(probe: socket.socket, address: Any) -> bool:
    try:
        probe.bind(address)
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
    import urllib.error  # these are slow to import, and few roles need them
    import urllib.request

    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(address, timeout=_ANSWER_S) as answer:
            status = int(answer.getcode())
    except urllib.error.HTTPError as error:
        status = error.code
    except Exception as error:  # noqa: BLE001  # whatever an address does, the role is not ready
        return "{} does not answer ({})".format(address, getattr(error, "reason", error))
    return "" if 200 <= status < 300 else "{} answers {}".format(address, status)


def _pause_after(waited_s: float) -> float:
    """Return the time until a role is asked again whether it is ready."""
    return min(0.01 + waited_s / 60, 0.1 if waited_s < 60 else 1.0)


def _count_begun(folder: str) -> int:
    """Return on how many nodes the newest start of a role has begun the command: each has a file ATTEMPT.NODE."""
    starts = sorted(_files(os.path.join(folder, "ranks")), key=os.path.getmtime)
    paths = _files(starts[-1]) if starts else []
    return len({path.rpartition(".")[2] for path in paths if " begins" in _text(path)})


def _files(folder: str, ending: str = "") -> List[str]:
    """Return the paths of what a folder holds, in order; none where there is no such folder."""
    try:
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(ending))
    except OSError:
        return []


def main(words: Sequence[str]) -> int:
    """Run the roles that these words describe: first those of the job, then those of each role."""
    described: List[Dict[str, str]] = [{}]
    for word in words:
        name, _, value = word.partition("=")
        if name == "role":
            described.append({})
        described[-1][name] = value
    of_job, *of_roles = described
    names = _nodes_of_job(os.environ)
    if any("SLURM_JOB_ID_HET_GROUP_" + role["part"] not in os.environ for role in of_roles if role.get("part")):
        write(1, "muster: error: the roles need a heterogeneous job\n\nhint: submit the script with sbatch")
        return 2
    needed = max(int(role["first"]) + int(role["nodes"]) for role in of_roles)
    if len(names) < needed:
        sentence = "muster: error: the roles need {} nodes, but the job has {}".format(needed, len(names))
        write(1, sentence + "\n\nhint: write a new script with muster plan")
        return 2
    low, high = map(int, of_job["ports"].split("-"))
    units = [RoleUnit(role, names) for role in of_roles]
    return RoleRunner(of_job["file"], of_job["run"], units, low, high - low + 1).steer()
