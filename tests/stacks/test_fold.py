"""Answers of nodes → classes of ranks, and the sentence on who keeps the others waiting."""

from __future__ import annotations

import json

import pytest

from muster_check.stacks.fold import culprits, fold, lines_of, ranks_in_words
from muster_check.stacks.read import sort_by_task
from muster_check.verbs.stacks import _as_json, _Ranks
from stacks.answers import read_answers

_TORCH = "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def _answer(rank: int, frames: list[tuple[str, str, int]], *, state: str = "S", size: int = 4, host: str = "") -> str:
    """One rank's answer, as gather.sh writes it and py-spy prints it."""
    stack = [{"name": name, "filename": file, "line": line, "module": None} for name, file, line in frames]
    threads = [{"thread_name": "Thread-1", "frames": []}, {"thread_name": "MainThread", "frames": stack}]
    host = host or f"node{rank // 2 + 1}"
    return f"@rank {rank} {size} {host} {100 + rank} {state} 0\n{json.dumps(threads)}\n@end\n"


def _in_reduce(rank: int, **more: str) -> str:
    frames = [("all_reduce", _TORCH, 3000), ("train", "/home/a/train.py", 120), ("<module>", "/home/a/train.py", 130)]
    return _answer(rank, frames, **more)  # type: ignore[arg-type]


def test_the_rank_that_did_not_come_is_named_with_host_and_line() -> None:
    text = "".join(map(_in_reduce, (0, 1, 3))) + _answer(2, [("load", "/home/a/data.py", 44)])
    groups = fold(read_answers(text))
    assert [group.numbers for group in groups] == [(0, 1, 3), (2,)]
    assert culprits(groups, 4) == "3 ranks wait in all_reduce for rank 2 on node2, which stands at data.py:44"
    lines = list(lines_of(groups, 4, lambda file, line: "x = open(path)" if line == 44 else ""))
    assert lines[0] == "3 ranks (0-1,3) on 2 hosts: all_reduce at /home/a/train.py:120 (train)"
    assert lines[2] == "    44 | x = open(path)"


def test_a_rank_without_a_process_is_named() -> None:
    groups = fold(read_answers("".join(map(_in_reduce, (0, 1, 2)))))
    assert culprits(groups, 4) == "3 ranks wait in all_reduce for rank 3, of which there is no process"
    assert "rank 3: there is no process" in list(lines_of(groups, 4, lambda *_: ""))


@pytest.mark.parametrize(("state", "words"), [("T", "is stopped"), ("D", "waits for a file system")])
def test_what_the_kernel_says_of_a_process_counts(state: str, words: str) -> None:
    groups = fold(read_answers("".join(map(_in_reduce, (0, 1, 2))) + _in_reduce(3, state=state)))
    sentence = culprits(groups, 4)
    assert sentence is not None
    assert sentence.startswith("3 ranks wait in all_reduce for rank 3 on node2, which " + words)


def test_different_collectives_are_told_apart() -> None:
    odd = _answer(3, [("barrier", _TORCH, 4000), ("save", "/home/a/train.py", 77)])
    groups = fold(read_answers("".join(map(_in_reduce, (0, 1, 2))) + odd))
    assert culprits(groups, 4) == "the ranks wait in different collectives: rank 3 on node2 in barrier, at train.py:77"


def test_ranks_that_all_compute_keep_nobody_waiting() -> None:
    groups = fold(read_answers("".join(_answer(rank, [("step", "/home/a/train.py", 9)]) for rank in range(4))))
    assert len(groups) == 1
    assert culprits(groups, 4) is None
    assert culprits(groups, 5) is None  # though one has no process
    assert culprits(fold(read_answers("".join(map(_in_reduce, range(4))))), 4) is None
    (bare,) = fold(read_answers(_answer(0, [])))
    assert bare.what == "no Python frame"


def test_a_library_s_own_frames_are_not_the_user_s_line() -> None:
    frames = [("wrapper", "/env/lib/python3.11/site-packages/x.py", 1), *[("all_reduce", _TORCH, 3)] * 2]
    (group,) = fold(read_answers(_answer(0, [*frames, ("main", "/home/a/run.py", 5)], size=1)))
    assert (group.what, group.where.name if group.where else "") == ("all_reduce", "run.py")


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        ("Error: Operation not permitted (os error 1)", "the kernel forbids to look into the process"),
        ("Error: Failed to find python version from target process", "Error: Failed to find python version"),
        ("", "did not answer"),
        ("py-spy is not on this host", "py-spy is not on this host"),
        ("[ broken", "[ broken"),
    ],
)
def test_why_there_is_no_stack_is_said(said: str, trouble: str) -> None:
    (stack,) = read_answers(f"@rank 0 1 node1 7 S 0\n{said}\n@end\n")
    assert trouble in (stack.trouble or "")


def test_noise_between_the_answers_is_passed_over() -> None:
    assert [stack.rank for stack in read_answers("srun: warning\n" + _in_reduce(1) + "noise\n" + _in_reduce(0))] == [
        0,
        1,
    ]


def test_answers_of_nodes_that_come_line_by_line_are_put_in_order() -> None:
    first, second = (_in_reduce(rank).splitlines() for rank in (0, 1))
    mixed = "".join(f"0: {one}\n1: {other}\n" for one, other in zip(first, second))
    assert len([stack for stack in read_answers(mixed) if stack.frames]) == 0
    assert [stack.rank for stack in read_answers(sort_by_task(mixed)) if stack.frames] == [0, 1]


def test_ranks_are_written_as_runs() -> None:
    assert ranks_in_words([7]) == "rank 7"
    assert ranks_in_words([5, 0, 1, 2, 9, 8]) == "ranks 0-2,5,8-9"


def test_the_groups_as_json_say_where_each_stands_and_nothing_where_that_is_unknown() -> None:
    text = "".join(map(_in_reduce, (0, 1))) + "@rank 2 4 node2 102 S 0\nrefused\n@end\n"
    document = _as_json([_Ranks("", fold(read_answers(text)), (), 4)])

    groups = document["groups"]
    assert isinstance(groups, list)
    places = {tuple(group["ranks"]): (group["file"], group["line"], group["function"]) for group in groups}
    assert places == {(0, 1): ("/home/a/train.py", 120, "train"), (2,): (None, None, None)}


def test_a_thread_without_a_name_has_one_in_the_list() -> None:
    threads = json.dumps([{"frames": []}, {"thread_name": "MainThread", "frames": []}])
    (stack,) = read_answers(f"@rank 0 1 node1 100 S 0\n{threads}\n@end\n")

    assert [name for name, _ in stack.threads] == ["thread", "MainThread"]
