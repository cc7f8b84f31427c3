"""What the runner of roles asks of ports, addresses and logs."""

from __future__ import annotations

import http.server
import io
import json
import os
import pwd
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.life import asking, roles
from muster.life import role_runner as runner
from muster.life.role_runner import RoleRunner, RoleUnit

HOSTS = ("a", "b", "c")


def unit(name: str, **words: str) -> RoleUnit:
    given = {"role": name, "first": "0", "nodes": "1", "ranks": "1", "ready": "joined", "within": "60", "grace": "10"}
    return RoleUnit({**given, **words}, HOSTS)


def of(*units: RoleUnit, run: str = "/run") -> RoleRunner:
    return RoleRunner("job.sh", run, units, 20000, 12000)


class Answers(http.server.BaseHTTPRequestHandler):
    """Says 200 at /health, and 503 elsewhere."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return


@pytest.fixture
def port() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_an_address_is_ready_at_2xx_alone(port: int) -> None:
    assert not runner._lack_of(f"http://127.0.0.1:{port}/health")
    assert runner._lack_of(f"http://127.0.0.1:{port}/other") == f"http://127.0.0.1:{port}/other answers 503"
    assert runner._lack_of("http://127.0.0.1:1/health").startswith("http://127.0.0.1:1/health does not answer (")
    assert "Connection refused" in runner._lack_of("http://127.0.0.1:1/health")
    assert runner._lack_of("no address") == "no address does not answer (unknown url type: 'no address')"


def test_of_several_addresses_one_is_enough(port: int) -> None:
    one = unit("a", ready="address", text=f"http://127.0.0.1:{port}/other http://127.0.0.1:{port}/health")

    assert not of(one)._lack(one)
    one.text = one.text.split()[0]
    assert of(one)._lack(one)


def test_a_role_that_is_late_says_what_it_lacked(tmp_path: Path, port: int, capfd: pytest.CaptureFixture[str]) -> None:
    asked = f"http://127.0.0.1:{port}/no http://127.0.0.1:{port}/never"
    addresses, at_port = unit("a", ready="address", text=asked), unit("b", nodes="2", ready="port", port="1")
    lacks = [f"http://127.0.0.1:{port}/{name} answers 503" for name in ("no", "never")]
    steers = of(addresses, at_port, run=str(tmp_path))
    steers._folder()
    assert steers._lack(addresses) == ", ".join(lacks)
    at_port.hosts = ("127.0.0.1", "localhost")
    assert steers._lack(at_port) == "port 1 of 127.0.0.1, localhost takes no connection"

    addresses.lacks = lacks[0]
    steers._note(roles.NoteRole("a", "late", 1, "it was not ready after 3 s"))
    steers._note(roles.NoteRole("b", "late", 1, "it was not ready after 3 s"))
    steers._note(roles.NoteRole("a", "failed", 1, "it ended before it was ready"))
    steers._note(roles.NoteRole("b", "ended"))

    events = [json.loads(line)["words"] for line in (tmp_path / "roles/events").read_text().splitlines()]
    late = f"it was not ready after 3 s: {lacks[0]}"
    assert events == [late, "it was not ready after 3 s", "it ended before it was ready", ""]
    assert f"muster: role a ends the job: {late}\n" in capfd.readouterr().out


def test_a_port_answers_or_not(port: int) -> None:
    assert runner._answers("127.0.0.1", port)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert not runner._answers("127.0.0.1", closed.getsockname()[1])


def test_each_role_gets_a_port_of_its_own_and_a_fixed_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "a")
    monkeypatch.setattr(runner, "_is_free", lambda port: port % 2 == 0)
    units = [unit("a"), unit("b", port="8000"), unit("c"), unit("d", first="1")]
    of(*units)

    ports = [each.port for each in units]
    assert len(set(ports)) == 4
    assert ports[1] == 8000
    assert ports[0] % 2 == ports[2] % 2 == 0, "on this host a port is tried"
    assert all(20000 <= ports[place] < 32000 for place in (0, 2, 3))


def test_two_jobs_that_begin_in_the_same_second_share_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither listens yet: two Rays with ports 3 apart both began, and one ended 40 s later without a reason."""
    rows: list[range] = []
    for job in ("1", "788"):  # the ports that follow from these ids are 7 apart
        monkeypatch.setenv("SLURM_JOB_ID", job)
        one = unit("a", ports="9")
        of(one)
        rows.append(one.ports_from(one.port))

    assert not set(rows[0]) & set(rows[1])


def test_a_program_with_ports_in_a_row_shares_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "a")
    monkeypatch.setenv("SLURM_JOB_ID", "196")  # the first port that is tried: 20000 + 196 * 61 + 17, the last but 26
    taken_ports = {31977, 31987}
    monkeypatch.setattr(runner, "_is_free", lambda port: port not in taken_ports)
    monkeypatch.setattr(runner, "_claim", lambda _: True)
    units = [unit("a", ports="9"), unit("b", port="20003", ports="9"), unit("c", ports="9", first="1"), unit("d")]
    of(*units)

    rows = [each.ports_from(each.port) for each in units]
    assert sum(map(len, rows)) == len(set().union(*rows)) == 28
    assert rows[0] == range(31978, 31987), "all ports of the row are free on this host"
    assert rows[1][0] == 20003
    assert rows[2] == range(31987, 31996), "on another host nothing is tried"
    assert all(row[-1] < 32000 for row in rows)


def test_roles_have_a_port_where_none_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "a")
    monkeypatch.setattr(runner, "_is_free", lambda _: False)
    of(one := unit("a"))

    assert one.port == 20000, "the program itself says that it is taken"


def test_each_role_of_each_job_has_a_secret_of_its_own() -> None:
    a, b, again = unit("a"), unit("b"), unit("a")

    assert of(a, b).environment(a)["MUSTER_ROLE_KEY"] == of(a, b).environment(b)["MUSTER_A_KEY"] == a.key
    assert len({a.key, b.key, again.key}) == 3
    assert len(a.key) == 64


def test_a_log_has_the_line_on_each_node(tmp_path: Path) -> None:
    one = unit("a", nodes="2", ready="log", text="up at {a.port}")
    steers = of(one, run=str(tmp_path))
    logs = tmp_path / "roles/a/logs"
    logs.mkdir(parents=True)
    (logs / "a.log").write_text(f"0: up at {one.port}\n")
    (logs / "batch.log").write_text(f"up at {one.port}\n")

    assert steers._lack(one) == f"the log of a node of it lacks the text 'up at {one.port}'"
    (logs / "b.log").write_text(f"1: up at {one.port}\n")
    assert not steers._lack(one)


def test_a_role_has_joined_when_the_command_began_on_each_node(tmp_path: Path) -> None:
    one = unit("a", nodes="2")
    steers = of(one, run=str(tmp_path))
    start = tmp_path / "roles/a/ranks/7.1.2"
    start.mkdir(parents=True)

    assert steers._lack(one)
    (start / "1.0").write_text("0 begins\n")
    assert steers._lack(one) == "its command has begun on 1 of 2 nodes"
    (start / "1.1").write_text("4 begins\n4 0\n")
    assert not steers._lack(one)


def test_a_gap_is_the_address_of_the_role_and_its_own_host_is_the_one_that_is_asked() -> None:
    a, b = unit("a", nodes="2"), unit("b", first="2")
    steers = of(a, b)

    assert steers._filled(a, "{a.host}:{a.port} {b.url}", "b") == f"b:{a.port} http://c:{b.port}"


def test_mpirun_sees_all_nodes_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "3")
    monkeypatch.setenv("SLURM_NODELIST", "a,b,c")
    variables = of(by_mpirun := unit("a", first="1", nodes="2", ranks="4", starter="program")).environment(by_mpirun)

    assert variables["SLURM_NODELIST"] == "a,b,c", "with a part of it Open MPI placed ranks on its own host"
    assert variables["SLURM_TASKS_PER_NODE"] == "4(x3)"
    assert variables["SLURM_JOB_NODELIST"] == "b,c"


def test_a_role_sees_its_own_nodes_as_the_allocation() -> None:
    a, b = unit("a", first="1", nodes="2", ranks="4"), unit("b")
    variables = of(a, b).environment(a)

    assert variables["SLURM_JOB_NODELIST"] == "b,c"
    assert variables["SLURM_JOB_NUM_NODES"] == "2"
    assert variables["MUSTER_B_URL"] == f"http://a:{b.port}"
    assert variables["MUSTER_ROLE_PORT"] == str(a.port)


HETEROGENEOUS = {
    "SLURM_HET_SIZE": "2",
    **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOB_ID_HET_GROUP_0"), "7"),
    "SLURM_JOB_ID_HET_GROUP_1": "8",
    **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_JOB_NODELIST_HET_GROUP_0"), "a"),
    "SLURM_JOB_NODELIST_HET_GROUP_1": "b,c",
    **dict.fromkeys(("SLURM_MEM_PER_NODE", "SLURM_MEM_PER_NODE_HET_GROUP_0"), "8192"),
    "SLURM_MEM_PER_NODE_HET_GROUP_1": "4096",
    **dict.fromkeys(
        ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_NODE_HET_GROUP_0", "SLURM_GPUS_PER_NODE_PACK_GROUP_0"), "4"
    ),
    "CUDA_VISIBLE_DEVICES": "0,1",
}


def test_a_role_of_another_part_has_the_variables_of_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in HETEROGENEOUS.items():
        monkeypatch.setenv(name, value)
    first, second = unit("a", part="0"), unit("b", first="1", nodes="2", part="1")
    steers = of(first, second)
    here, there = steers.environment(first), steers.environment(second)

    assert runner._nodes_of_job(HETEROGENEOUS) == ["a", "b", "c"]
    assert there["SLURM_JOB_ID"] == "7", "srun finds a part by the id of the job"
    assert (here["muster_part_job"], there["muster_part_job"]) == ("7", "8"), "steps bear the id of the part"
    assert (here["SLURM_MEM_PER_NODE"], there["SLURM_MEM_PER_NODE"]) == ("8192", "4096")
    assert (here["SLURM_GPUS_PER_NODE"], here["CUDA_VISIBLE_DEVICES"]) == ("4", "0,1")
    assert not {"SLURM_GPUS_PER_NODE", "CUDA_VISIBLE_DEVICES"} & there.keys(), "they are those of the script's node"
    assert not any("_GROUP_" in name for name in there), "srun --gres=none fails beside the GPUs of any part"
    assert second._job == "8"
    assert "--het-group=1" in asking.on_nodes(second.hosts, "true", part=second.part)
    monkeypatch.setenv("muster_part", "1")
    assert "--het-group=1" in asking.on_nodes(second.hosts, "true"), "so asks the supervisor of the role itself"


def test_a_job_of_one_part_is_as_slurm_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")

    assert of(a := unit("a")).environment(a)["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert runner._nodes_of_job({"SLURM_JOB_NODELIST": "a,b"}) == ["a", "b"]
    assert not any("het" in word for word in asking.on_nodes(("a",), "true"))


def test_what_a_role_wrote_is_shown_in_any_locale_and_a_full_disk_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    logs = tmp_path / "roles" / "x" / "logs"
    logs.mkdir(parents=True)
    (logs / "batch.log").write_bytes("é █ ".encode() + b"\xff\n")
    steered = of(unit("x"), run=str(tmp_path))
    plain = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", plain)

    steered._note(roles.NoteRole("x", "failed", 1, "it ended"))
    said = os.dup(1)
    with Path("/dev/full").open("wb") as full:
        os.dup2(full.fileno(), 1)
    try:
        steered._note(roles.NoteRole("x", "ready"))
    finally:
        os.dup2(said, 1)
        os.close(said)

    assert "é █ " in capfd.readouterr().out


def test_a_role_that_this_host_cannot_start_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("muster.life.script.subprocess.Popen", refuse)
    steered = of(unit("x", main="yes"), run=str(tmp_path))
    steered.tell(roles.TimePasses())

    steered.wait(0)

    assert steered.status == 1


# The oldest Python that a batch host may have, where this machine has one.
_OLD = sorted(Path(pwd.getpwuid(os.getuid()).pw_dir).glob(".pyenv/versions/3.6.*/bin/python3.6"))


@pytest.mark.parametrize("starter", [(), ("nohup",)])
@pytest.mark.parametrize("python", [sys.executable, *map(str, _OLD[:1])])
def test_it_runs_with_every_python_and_hears_what_nohup_has_not_ignored(
    tmp_path: Path, python: str, starter: tuple[str, ...]
) -> None:
    # The role writes what no plain locale has, tells its runner to end, and fails.
    (tmp_path / "job.sh").write_text('echo "é █"; kill -HUP "$PPID"; sleep 0.5; exit 4\n')
    words = ["role=x", "first=0", "nodes=1", "ranks=1", "ready=log", "text=never", "within=60", "grace=5", "main=yes"]
    of_job = [f"file={tmp_path}/job.sh", f"run={tmp_path}", "ports=20000-20009"]
    end = subprocess.run(
        [*starter, python, "-I", "-S", str(Path(runner.__file__).parent), *of_job, *words],
        capture_output=True,
        check=False,
        env={**os.environ, "SLURM_JOB_NODELIST": "a", "LC_ALL": "C"},
        timeout=60,
    )

    assert (end.returncode, end.stderr) == (4 if starter else 129, b"")
    assert b"role x ended with status" in end.stdout


@pytest.mark.parametrize(("nodes", "status"), [("a,b", 9), ("a", 2)])
def test_roles_that_need_more_nodes_than_there_are_are_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], nodes: str, status: int
) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", nodes)
    monkeypatch.setattr(RoleRunner, "steer", lambda _: 9)
    role = ("nodes=1", "ranks=1", "ready=joined", "within=60", "grace=10")
    words = ["file=f", "run=r", "ports=20000-20009", "role=a", "first=0", *role, "role=b", "first=1", *role]

    assert runner.main(words) == status
    refusal = "muster: error: the roles need 2 nodes, but the job has 1\n\nhint: write a new script with muster plan\n"
    assert capfd.readouterr().out == ("" if status == 9 else refusal)


def test_parts_of_a_job_that_is_not_heterogeneous_are_refused(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Seen in a plain salloc: a traceback, KeyError 'SLURM_JOB_ID'."""
    monkeypatch.setenv("SLURM_JOB_NODELIST", "a,b")
    monkeypatch.setenv("SLURM_JOB_ID_HET_GROUP_0", "7")
    words = ["file=f", "run=r", "ports=1-2", "role=a", "first=0", "nodes=1", "part=0"]

    assert runner.main([*words, "role=b", "first=1", "nodes=1", "part=1"]) == 2
    assert "error: the roles need a heterogeneous job\n\nhint: submit" in capfd.readouterr().out


def test_a_job_whose_supervisor_is_not_there_says_so() -> None:
    text = (Path(runner.__file__).parents[1] / "render" / "shell" / "begin" / "roles.sh").read_text()
    stop = 'muster_stop() { printf "%s|" "$@"; exit 1; }\n'
    rest = "muster_room=/nowhere/room\nmuster_run_roles python3 /nowhere/life ports=1-2\n"
    end = subprocess.run(["bash", "-c", stop + text + rest], capture_output=True, text=True, timeout=60, check=False)

    needed = f"Python 3.6 or later and /nowhere/life on {os.uname().nodename}"
    assert end.stdout.startswith(f"a job with roles needs {needed}|")


def test_a_job_that_was_told_to_end_before_its_runner_starts_no_role(tmp_path: Path) -> None:
    text = (Path(runner.__file__).parents[1] / "render" / "shell" / "begin" / "roles.sh").read_text()
    (tmp_path / "__main__.py").write_text("print(1)")
    rest = f"muster_interrupted=143 muster_room={tmp_path}/room\nmuster_run_roles python3 {tmp_path} ports=1-2\n"
    end = subprocess.run(["bash", "-c", text + rest], capture_output=True, text=True, timeout=60, check=False)

    assert (end.returncode, end.stdout) == (143, "")


def test_a_file_that_goes_while_it_is_looked_at_is_no_end_of_looking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steered = of(unit("x"), run=str(tmp_path))
    looks: list[RoleUnit] = []

    def look(looked_at: RoleUnit) -> str:
        looks.append(looked_at)
        if len(looks) == 1:
            raise FileNotFoundError("gone")
        return ""

    monkeypatch.setattr(steered, "_lack", look)
    monkeypatch.setattr(steered.units["x"], "runs", lambda: True)
    steered._look(steered.units["x"])
    told: list[object] = []
    monkeypatch.setattr(steered, "tell", told.append)
    steered.wait(0)

    assert told == [roles.RoleReady("x")]


def test_a_script_that_outlives_its_ranks_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "LAST_S", 0.3)
    signalled: list[str] = []
    monkeypatch.setattr(RoleUnit, "signal_steps", lambda _, by: signalled.append(by))
    (tmp_path / "job.sh").write_text(f"trap '' TERM; touch {tmp_path}/up; while :; do sleep 0.1; done\n")
    deaf = unit("x")
    ends: queue.Queue[int] = queue.Queue()
    deaf.ended = ends.put
    deaf.end("TERM")
    deaf.start_script([str(tmp_path / "job.sh")], os.environ, start_new_session=True)
    while not (tmp_path / "up").exists():
        time.sleep(0.01)
    deaf.end("TERM")
    assert deaf.runs()
    assert not deaf.was_killed
    deaf.end("KILL")

    assert ends.get(timeout=60) == 137
    deaf.end("TERM")
    assert (deaf.was_killed, signalled) == (True, ["TERM", "KILL"])


def test_a_role_is_asked_soon_at_first_then_ten_times_a_second_and_after_a_minute_once() -> None:
    assert [round(runner._pause_after(waited_s), 2) for waited_s in (0, 1, 6, 59, 61)] == [0.01, 0.03, 0.1, 0.1, 1.0]
