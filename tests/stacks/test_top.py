"""muster top: what is drawn at several widths, the looks as they come in, and the keys on a real pseudo-terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from muster.runner import checked, end_group, run, start
from muster_check.stacks.ask import StackQuestion, gather_words, jobs_here
from muster_check.stacks.move import Doing, Movement
from muster_check.stacks.read import Frame, RankStack, Round, Signs, read_rounds
from muster_check.stacks.screen import Screen, draw_screen
from muster_check.stacks.stream import Looks
from plugins.labs import Lab

MUSTER = str(Path(sys.executable).with_name("muster"))
_SLEEP = "import time\n\n\ndef wait():\n    time.sleep(600)\n\n\nprint('hello', flush=True)\nwait()\n"


def _ranks(hosts: int, each: int) -> tuple[Movement, ...]:
    frame = Frame("step", "/home/a/train.py", 12)
    return tuple(
        Movement(
            RankStack(rank, hosts * each, f"node{rank // each + 1}", 100, "S", (frame,), signs=Signs(memory_mib=2048)),
            list(Doing)[rank % len(Doing)],
            0.5,
            0.0,
        )
        for rank in range(hosts * each)
    )


def _drawn(screen: Screen, width: int, height: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    console.print(draw_screen(screen, width, height))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return [line.rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize(("hosts", "each"), [(1, 2), (4, 2), (4, 16), (40, 8)])
def test_the_screen_fits_and_shows_every_rank_or_says_what_is_not_shown(width: int, hosts: int, each: int) -> None:
    ranks = _ranks(hosts, each)
    title = "job 12 train  all ranks on all of its nodes  runs 0:10:00  1:50:00 left"
    lines = _drawn(Screen(title, ranks, len(ranks), "1", "it works", "last output: 0: step 1"), width, 24)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    shown = {int(number) for number in re.findall(r"(?:^| )(\d+)(?:[ricwLS]|  node)", text, re.MULTILINE)}
    assert shown >= set(range(len(ranks))) or "more lines" in text
    assert "it works" in text
    assert "node1" in text


def test_the_sentence_is_whole_on_a_narrow_screen() -> None:
    sentence = "rank 3 on node1 runs at one line at train.py:12 (step); 2 ranks wait in all_reduce at train.py:20"
    lines = _drawn(Screen("job", _ranks(1, 2), 2, "0", sentence, ""), 40, 24)
    assert " ".join(lines).replace("  ", " ").count("runs at one line at train.py:12 (step); 2 ranks wait") == 1


def test_two_ranks_of_one_number_are_told_by_their_roles() -> None:
    (rank,) = _ranks(1, 1)
    of_roles = [
        msgspec.structs.replace(rank, stack=msgspec.structs.replace(rank.stack, role=role))
        for role in ("serve", "train")
    ]

    listed = _drawn(Screen("job", of_roles, 1, "train.0", "", ""), 100, 24)
    assert [line.split()[:3] for line in listed[1:4]] == [
        ["role", "rank", "host"],
        ["serve", "0", "node1"],
        ["train", "0", "node1"],
    ]
    grid = _drawn(Screen("job", [each for each in of_roles for _ in range(20)], 1, "train.0", "", ""), 100, 12)
    assert [line.split()[:2] for line in grid[1:3]] == [["serve", "node1"], ["train", "node1"]]
    assert any(line.startswith("rank train.0 on node1: ") for line in grid)


def test_a_wide_screen_gives_the_room_to_the_line() -> None:
    (line,) = (line for line in _drawn(Screen("job", _ranks(1, 1), 1, "0", "", ""), 160, 24) if "train.py" in line)
    assert line.split() == ["0", "node1", "moves", "50%", "2,048", "MiB", "train.py:12", "step"]
    assert len(line) < 80


def test_a_line_that_nobody_sees_is_not_known_and_why_is_said_once() -> None:
    stack = RankStack(0, 64, "node1", 100, "S", trouble="py-spy is not on this host")
    blind = Movement(stack, Doing.RESTS, 0.0, 0.0)
    listed = _drawn(Screen("job", [blind], 1, "0", "it stands", ""), 100, 20)
    assert [line.endswith(" not known") for line in listed if "node1" in line] == [True]
    grid = _drawn(Screen("job", [blind, *_ranks(4, 16)], 64, "0", "it stands", ""), 120, 12)
    assert "rank 0 on node1: does not go on, the line is not known (py-spy is not on this host)" in grid
    starts = msgspec.structs.replace(stack, trouble="no Python frame yet: the process starts")
    drawn = _drawn(Screen("job", [Movement(starts, Doing.MOVES, 1.0, 0.0)], 1, "0", "", ""), 100, 20)
    (line,) = [each for each in drawn if "node1" in each]
    assert line.endswith("the process starts")


def test_keys_are_named_where_somebody_can_press_one() -> None:
    screen = Screen("job", _ranks(1, 1), 1, "0", "it works", "")

    assert any("q quit" in line for line in _drawn(screen, 80, 24))
    assert not any("quit" in line for line in _drawn(screen._replace(takes_keys=False), 80, 24))


def test_a_page_takes_the_place_of_the_ranks() -> None:
    page = [f"frame {number}" for number in range(100)]
    lines = _drawn(Screen("job", _ranks(1, 2), 2, "0", "it works", "", page), 80, 24)
    assert "frame 0" in lines
    assert len(lines) <= 24


def test_looks_are_taken_in_as_they_come() -> None:
    def answer(node: int, look: int) -> str:
        threads = json.dumps([{"thread_name": "MainThread", "frames": []}])
        head = f"@node {node} node{node + 1} {look} {look}.0\n@rank {node} 2 node{node + 1} 9 S 0\n"
        return f"{head}@signs {100 * look} 0 0 1 - 0 \n{threads}\n@end\n@done {node}\n"

    looks = Looks()
    whole = "".join(
        f"{node}: {line}\n" for look in (1, 2, 3) for node in (0, 1) for line in answer(node, look).splitlines()
    )
    completed = [looks.feed(whole[place : place + 7]) for place in range(0, len(whole), 7)]
    assert sum(completed) == 6
    assert [(each.stack.rank, each.cpu) for each in looks.movements()] == [(0, 1.0), (1, 1.0)]
    assert [each.at_s for each in looks.rounds()] == [2.0, 3.0]


def test_a_stack_that_was_not_taken_this_time_is_the_one_before() -> None:
    def look(number: int, body: str, cpu: int) -> str:
        head = f"0: @node 0 node1 {number} {number}.0\n0: @rank 0 1 node1 9 S 0\n0: @signs {cpu} 0 0 1 - 0 \n"
        return f"{head}0: {body}\n0: @end\n0: @done 0\n"

    frames = [{"name": "count", "filename": "/home/a/train.py", "line": 12}]
    stack = json.dumps([{"thread_name": "MainThread", "owns_gil": True, "frames": frames}])
    looks = Looks()
    for number, body in ((1, stack), (2, "@kept"), (3, "@kept")):
        assert looks.feed(look(number, body, 100 * number))
    (movement,) = looks.movements()
    assert movement.stack.frames == (Frame("count", "/home/a/train.py", 12),)
    # Two looks at one stack say nothing of a loop.
    assert movement.doing is Doing.MOVES


# As nvidia-smi prints it with --format=csv,noheader,nounits: nvidia-smi --help-query-gpu and --help-query-compute-apps.
_SMI = """\
#!/bin/sh
case $1 in
--query-gpu=uuid,utilization.gpu) printf 'GPU-1f2e, 97\\nGPU-77aa, [N/A]\\n' ;;
--query-compute-apps=gpu_uuid,pid,used_gpu_memory)
    printf 'GPU-1f2e, %s, 40562\\nGPU-77aa, 1, 12\\n' "$(cat "$0.pid")"
    ;;
esac
"""


@contextmanager
def _two_ranks(folder: Path) -> Iterator[str]:
    """Two ranks on this machine that sleep, and the name of their run."""
    (folder / "wait.py").write_text(_SLEEP)
    before = set(jobs_here())
    words = [MUSTER, "run", "--here", "--ntasks-per-node", "2", "--", sys.executable, "wait.py"]
    with (folder / "output").open("wb") as output:
        process = start(words, cwd=folder, stdout=output, stderr=output, own_group=True)
    try:
        while (folder / "output").read_text().count("hello") < 2:
            assert process.poll() is None
            time.sleep(0.02)
        (job,) = (each for each in set(jobs_here()) - before if _is_at(each, folder))
        yield job
    finally:
        end_group(process, grace_s=20)


def _pid_of_rank_1(job: str) -> int:
    text = checked(run(gather_words(job, StackQuestion(None)))).stdout
    return next(int(line.split()[4]) for line in text.splitlines() if "@rank 1 " in line)


def _looks(words: Sequence[str], path: str = "/usr/bin:/bin") -> Looks:
    looks = Looks()
    answer = checked(run(words, env={"PATH": path})).stdout
    looks.feed("".join(f"0: {line}\n" for line in answer.splitlines()))
    return looks


def _check_gpu(looks: Looks, use: int, mib: int) -> None:
    """Check that rank 1 alone holds a GPU, and that the screen shows it."""
    assert [(each.stack.rank, each.stack.signs.gpu_use, each.stack.signs.gpu_mib) for each in looks.movements()] == [
        (0, None, 0),
        (1, use, mib),
    ]
    lines = _drawn(Screen("job", looks.movements(), 2, "0", "", ""), 100, 24)
    assert "GPU" in lines[1]
    assert f"{use}% {mib:,} MiB" in lines[3]


def test_the_gpu_of_a_rank_is_shown_where_nvidia_smi_is(tmp_path: Path) -> None:
    smi = tmp_path / "bin/nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(_SMI)
    smi.chmod(0o755)
    with _two_ranks(tmp_path) as job:
        smi.with_name("nvidia-smi.pid").write_text(str(_pid_of_rank_1(job)))
        looks = _looks(
            gather_words(job, StackQuestion(None, rounds=4, gap_s=0.05, at_once=4)), f"{smi.parent}:/usr/bin:/bin"
        )
    _check_gpu(looks, 97, 40562)


def _amd_files(folder: Path, pid: int) -> None:
    """Write what the driver amdgpu shows in /sys/class of a node with two MI100.

    The names and the forms are those of the driver, drivers/gpu/drm/amd of ROCm/ROCK-Kernel-Driver at 001b9ac393ff:
    amdkfd/kfd_process.c (kfd/proc/PID/vram_GPU, in bytes), amdkfd/kfd_topology.c (kfd/topology/nodes),
    pm/amdgpu_pm.c (gpu_busy_percent, in percent).
    """
    files = {
        "kfd/kfd/topology/nodes/0/gpu_id": "0",
        "kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 64\nsimd_count 0\ndrm_render_minor 0",
        f"kfd/kfd/proc/{pid}/pasid": "32769",
    }
    for node, (gpu, minor, busy, vram) in enumerate(((42700, 128, 93, 3 << 30), (1027, 129, 4, 0)), 1):
        files[f"kfd/kfd/topology/nodes/{node}/gpu_id"] = str(gpu)
        files[f"kfd/kfd/topology/nodes/{node}/properties"] = f"simd_count 480\ndomain 0\ndrm_render_minor {minor}"
        files[f"drm/renderD{minor}/device/gpu_busy_percent"] = str(busy)
        files[f"kfd/kfd/proc/{pid}/vram_{gpu}"] = str(vram)
        files[f"kfd/kfd/proc/{pid}/sdma_{gpu}"] = "0"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


@pytest.mark.programs
def test_the_gpu_of_a_rank_is_shown_where_amd_s_driver_is(tmp_path: Path) -> None:
    inside = ["unshare", "--mount", "sh", "-c"]
    if not run([*inside, "mount --bind /tmp /sys/class"]).ok:
        pytest.skip("by design: only root can put other files in the place of the driver's")
    with _two_ranks(tmp_path) as job:
        _amd_files(tmp_path / "class", _pid_of_rank_1(job))
        ask = gather_words(job, StackQuestion(None, rounds=4, gap_s=0.05, at_once=4))
        mounted = [*inside, 'mount --bind "$0" /sys/class && exec "$@"', str(tmp_path / "class")]
        looks = _looks([*mounted, *ask])
    _check_gpu(looks, 93, 3072)


def test_a_node_without_ranks_is_reported_and_the_report_ends() -> None:
    from muster_check.stacks.ask import StackQuestion, gather_words

    ask = gather_words("no-such-job", StackQuestion(None, rounds=2, gap_s=0.05, at_once=4))
    answer = checked(run(ask, timeout_s=60)).stdout
    assert [line.split()[0] for line in answer.splitlines() if line] == ["@node", "@done"] * 2


def test_ranks_of_two_roles_are_two_worlds_on_one_node() -> None:
    """Two Pythons that are both rank 0, and a program that is rank 0 of a third role, as their environments say."""
    run_words = {"MUSTER_JOB": "here-roles-of-a-test", "RANK": "0"}
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
    programs = {"serve": (sleeps, "1"), "train": (sleeps, "3"), "data": (["sleep", "600"], "1")}
    ask = gather_words("roles-of-a-test", StackQuestion(None, rank=0))
    ask = [word.replace("MUSTER_JOB=roles", "MUSTER_JOB=here-roles") for word in ask]
    started = [
        start(words, env={**run_words, "MUSTER_ROLE": role, "WORLD_SIZE": size}, own_group=True)
        for role, (words, size) in programs.items()
    ]
    try:
        looks: list[Round] = []
        while not looks or len(looks[-1].ranks) < 3 or looks[-1].programs[0].name != "sleep":
            looks = list(read_rounds(checked(run(ask)).stdout))
    finally:
        for process in started:
            end_group(process, grace_s=20)
    assert [(stack.label, stack.size) for stack in looks[-1].stacks] == [("serve.0", 1), ("train.0", 3)]
    assert [(program.role, program.rank) for program in looks[-1].programs] == [("data", 0)]


def _is_at(job: str, folder: Path) -> bool:
    """Whether the run was started in this folder: others may run beside it."""
    try:
        return Path(f"/proc/{job.removeprefix('here-')}/cwd").resolve() == folder
    except OSError:
        return False


@contextmanager
def _terminal(words: list[str], env: dict[str, str], columns: int) -> Iterator[int]:
    """A program on a pseudo-terminal of that width; the other end of it."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = start(words, env=env, stdin=theirs, stdout=theirs, stderr=theirs, own_group=True)
    os.close(theirs)
    try:
        yield ours
        assert process.wait(30) == 0
    finally:
        end_group(process, grace_s=20)
        os.close(ours)


def _wait_for(terminal: int, words: str) -> str:
    """Read until the words stand on the screen; without the escapes."""
    text = ""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        ready, _, _ = select.select([terminal], [], [], 1)
        text += os.read(terminal, 1 << 16).decode(errors="replace") if ready else ""
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
        if words in plain:
            return plain
    raise AssertionError(text)


@pytest.mark.lab
@pytest.mark.parametrize("columns", [40, 80, 160])
def test_the_keys_of_a_terminal(lab: Lab, shared_directory: Path, columns: int) -> None:
    (shared_directory / "wait.py").write_text(_SLEEP)
    size = ["-N", "2", "--ntasks-per-node", "2", "-c", "1"]
    submit = [MUSTER, "submit", *size, "--", sys.executable, "wait.py"]
    job = checked(lab.exec(submit, cwd=shared_directory)).stdout.strip()
    while lab.exec([MUSTER, "logs", job]).stdout.count("hello") < 4:  # a rank that comes late moves the lines
        time.sleep(0.3)
    try:
        words = lab.argv([MUSTER, "top", job, "--every", "1"])
        with _terminal(words, {**lab.person.environment(), "TERM": "xterm"}, columns) as terminal:
            _wait_for(terminal, "node2")
            os.write(terminal, b"\x1b[B")
            os.write(terminal, b"s")
            assert "wait" in _wait_for(terminal, "rank 1: process ")
            os.write(terminal, b"l")
            _wait_for(terminal, "hello")
            os.write(terminal, b"q")
    finally:
        checked(lab.exec(["scancel", job]))
