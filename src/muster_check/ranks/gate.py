"""What runs in every rank: gather, meet rank 0, and there tell (`facts`) or judge and stop (`gate`).

    python check.pyz facts '{"gpus": 4, …}'
    python check.pyz gate '{"gpus": 4, …}' COMMAND …      becomes the command where nothing is broken

It ends within 20 seconds whatever hangs: nothing here waits without a patience of its own.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Callable, Dict, Iterable, List, Mapping, NoReturn, Optional, Sequence

from muster.rank.errors import HostlistError
from muster.rank.finding import BROKEN, Finding
from muster.rank.hostlist import expand
from muster.rank.vendors import vendor_of

from .exchange import STOP, Clock, MeetingPoint, meet
from .facts import Expected, Node, Rank, world_of
from .gather import host_name, node_facts, own_mask, own_reach, variables_in_force
from .lines import END, line_of_place, lines_of
from .lookups import look_up, some_of
from .store import ask_port, await_stranger, forget_port, tell_port

SIMULATE = "MUSTER_CHECK_SIMULATE"
"""clock:HOST:SECONDS: that host's clock, as the exchange sees it. For tests; the report says that it is simulated."""

# Set by the prologue of an agent, with the names of torch that an agent must not have.
_AGENT = "MUSTER_CHECKED"
_OF_AN_AGENT = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

# From a rank's own start; and the launch of a large job takes its time until the last rank has come.
_OTHERS_WAIT_S = 8.0
_RANK_0_WAITS_S = 9.0
_EACH_RANK_S = 0.001
_MOST_S = 16.0
_SMI_S = 5.0


def main(words: Sequence[str]) -> int:
    """Return the exit status of one rank: 1 where it is broken."""
    mode, expected, command = words[0], _expected(words[1]), words[2:]
    status = _look(mode, expected)
    if mode == "gate" and status == 0:
        return _become(command)
    return status


def _expected(text: str) -> Expected:
    expected: Expected = json.loads(text)
    return expected


def _look(mode: str, expected: Expected) -> int:
    start_s = time.monotonic()
    environment = os.environ
    rank = rank_facts(environment, os.getcwd())
    clock = _clock(environment, rank)
    other_ranks = rank["size"] - 1
    address, port = environment.get("MASTER_ADDR", ""), int(environment.get("MASTER_PORT", 0))
    closed = expected.get("closed", False)
    job = environment.get("MUSTER_JOB") or environment.get("TORCHELASTIC_RUN_ID", "")
    if rank["rank"] == 0:
        point = MeetingPoint(0 if closed else port, job, other_ranks, clock)
        try:
            if closed:
                tell_port(address, port, point.port, _OTHERS_WAIT_S)
        except OSError as error:
            rank["trouble"] = error.strerror or str(error)
        if mode == "facts":
            _write([line_of_place(address, port)])
        _complete(rank, environment)
        patience_s = _patience(_RANK_0_WAITS_S, other_ranks) - (time.monotonic() - start_s)
        ranks = [rank, *point.wait(patience_s, await_stranger if mode == "facts" else None)]
        if closed and "trouble" not in rank:
            forget_port(address, port)
        if point.squatter is not None:
            rank["squatter"] = point.squatter
        status = _conclude(mode, ranks, expected)
        point.conclude(go=status == 0)
        return status
    _complete(rank, environment)
    patience_s = _patience(_OTHERS_WAIT_S, other_ranks) - (time.monotonic() - start_s)

    def meet_rank_0() -> Optional[str]:
        try:
            own_port = ask_port(address, port, patience_s) if closed else port
        except OSError as error:
            return f"the store behind the door: {error.strerror or error}"
        return meet(address, own_port, job, rank, clock, patience_s, waits=waits)

    # The door of a host ends with its first rank, which may not leave before the host's other ranks have come.
    waits = mode == "gate" or closed
    trouble = _in_thread(meet_rank_0, (_MOST_S if waits else patience_s) + 1)
    if trouble in (None, STOP):
        return 0 if trouble is None else 1
    rank["trouble"] = trouble
    if mode == "facts":
        _write(lines_of(rank["rank"], rank))
        return 0
    if rank["local_rank"] == 0:
        _say([finding for finding in _findings([rank], expected) if finding.what == "meeting"])
    return 1


def _patience(seconds: float, other_ranks: int) -> float:
    return min(_MOST_S, seconds + _EACH_RANK_S * other_ranks)


def run(words: Sequence[str]) -> NoReturn:
    """Run `main` as a program: it ends without waiting for threads, which may hang in a resolver."""
    status = main(words)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def rank_facts(environment: Mapping[str, str], directory: str) -> Rank:
    """Return what a rank knows without asking anybody; the first of a node tells of the node."""
    rank = Rank(
        rank=int(environment.get("RANK", 0)),
        size=int(environment.get("WORLD_SIZE", 1)),
        local_rank=int(environment.get("LOCAL_RANK", 0)),
        local_size=int(environment.get("LOCAL_WORLD_SIZE", 1)),
        host=environment.get("SLURMD_NODENAME") or host_name(),
        hosts=_hosts(environment),
        mask=own_mask(),
        reach=own_reach(),
        environment=variables_in_force(environment),
    )
    if rank["local_rank"] == 0:
        rank["node"] = node_facts(environment, directory)
        rank["node"]["host"] = rank["host"]
        address = environment.get("SLURM_TOPOLOGY_ADDR", "")
        parts = environment.get("SLURM_TOPOLOGY_ADDR_PATTERN", "").count(".")
        rank["node"]["switches"] = address.split(".", parts)[:parts]
    return rank


def _hosts(environment: Mapping[str, str]) -> List[str]:
    node_list = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST", "")
    try:
        return expand(node_list) if node_list and not environment.get("MUSTER_LOCAL_NNODES") else []
    except HostlistError:
        return []


def _complete(rank: Rank, environment: Mapping[str, str]) -> None:
    """Complete the facts by what has to be waited for: names, and the vendor's tool."""
    if "node" not in rank:
        return
    node = rank["node"]
    asker = threading.Thread(target=_ask_smi, args=(node,), daemon=True)
    asker.start()
    hosts = rank["hosts"] or [host_name()]
    own_index = hosts.index(rank["host"]) if rank["host"] in hosts else 0
    address = environment.get("MASTER_ADDR", "")
    node["names"] = look_up([*([address] if address else []), *some_of(hosts, own_index)])
    asker.join(_SMI_S + 1)


def _ask_smi(node: Node) -> None:
    answers: Dict[str, str] = {}
    for kind in sorted({gpu.get("kind", "") for gpu in node.get("gpus", [])}):
        vendor = vendor_of(kind)
        for name, argv in vendor.tools.items() if vendor else ():
            try:
                result = subprocess.run(argv, capture_output=True, timeout=_SMI_S, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                answers[name] = f"failed: {type(error).__name__}"
                continue
            text = result.stdout.decode(errors="replace")
            if name == "dmesg":
                text = "\n".join([line for line in text.splitlines() if "NVRM: Xid" in line][-20:])
            answers[name] = (
                text if result.returncode == 0 or text else f"failed: {result.stderr.decode(errors='replace')}"
            )
    node["smi"] = answers


def _clock(environment: Mapping[str, str], rank: Rank) -> Clock:
    fault, _, rest = environment.get(SIMULATE, "").partition(":")
    host, _, seconds = rest.partition(":")
    if fault != "clock" or host != rank["host"]:
        return Clock()
    rank["simulated"] = [f"clock {seconds} s"]
    return Clock(float(seconds))


def _in_thread(meet_rank_0: Callable[[], Optional[str]], patience_s: float) -> Optional[str]:
    """Meet rank 0 in a thread of its own: asking for a name cannot be bounded otherwise."""
    answer: List[Optional[str]] = []
    runner = threading.Thread(target=lambda: answer.append(meet_rank_0()), daemon=True)
    runner.start()
    runner.join(patience_s)
    return answer[0] if answer else f"no answer within {patience_s:.0f} s"


def _findings(ranks: Sequence[Rank], expected: Expected) -> List[Finding]:
    from .table import judge

    return judge(world_of(ranks, expected=expected), quick=True)


def _conclude(mode: str, ranks: Sequence[Rank], expected: Expected) -> int:
    if mode == "facts":
        for rank in ranks:
            _write(lines_of(rank["rank"], rank))
        _write([END])
        return 0
    findings = _findings(ranks, expected)
    _say(findings)
    return 1 if any(finding.status == BROKEN for finding in findings) else 0


def _become(command: Sequence[str]) -> int:
    """Return the user's command in this process's place, with the signals as they were before Python."""
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    environment = {name: value for name, value in os.environ.items() if name != _AGENT}
    if _AGENT in os.environ:
        for name in _OF_AN_AGENT:
            environment.pop(name, None)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(command[0], list(command), environment)  # noqa: S606  # in this very place
    except FileNotFoundError:
        print(f"muster: {command[0]}: not found", file=sys.stderr)
        return 127
    except OSError as error:
        print(f"muster: {command[0]}: {error.strerror}", file=sys.stderr)
        return 126


def _say(findings: Sequence[Finding]) -> None:
    for finding in findings:
        print(
            f"muster: {finding.status}: {finding.what}: {finding.evidence}\n  hint: {finding.remedy}", file=sys.stderr
        )
    sys.stderr.flush()


def _write(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)
    sys.stdout.flush()
