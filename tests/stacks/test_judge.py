"""Two looks at every rank → what the job does, and whom it waits for."""

from __future__ import annotations

import json

import pytest

from muster.cli.command_line import read_command
from muster.errors import RequestError, UnknownName
from muster_check.stacks.condition import JobCondition
from muster_check.stacks.judge import Verdict, judge, judge_job
from muster_check.stacks.read import read_rounds
from muster_check.verbs import stacks

_TORCH = "/env/lib/python3.11/site-packages/torch"
_REDUCE = (("all_reduce", f"{_TORCH}/distributed/distributed_c10d.py", 3000), ("train", "/home/a/train.py", 120))
_BARRIER = (("barrier", f"{_TORCH}/distributed/distributed_c10d.py", 4000), ("save", "/home/a/train.py", 77))
_BACKWARD = (("_engine_run_backward", f"{_TORCH}/autograd/graph.py", 800), ("step", "/home/a/train.py", 12))
_OWN = (("load", "/home/a/data.py", 44),)
_NEXT = (("load", "/home/a/data.py", 45),)
_LOADER = (("_try_get_data", f"{_TORCH}/utils/data/dataloader.py", 1200), ("epoch", "/home/a/train.py", 30))
_PDB = (("readline", "/usr/lib/python3.11/pdb.py", 300), ("step", "/home/a/train.py", 9))
_COMPILE = (("compile_fx", f"{_TORCH}/_inductor/compile_fx.py", 9), ("step", "/home/a/train.py", 12))


class _Rank:
    """One rank as gather.sh tells of it, at two looks that are a second apart."""

    def __init__(self, *stacks: tuple[tuple[str, str, int], ...], **more: object) -> None:
        self.stacks = stacks if len(stacks) > 1 else (*stacks, *stacks)
        self.more = {"state": "S", "waits": "0", "cpu": 0, "io": 0, "children": "-", "gpu": 0, "gil": False} | more

    def answer(self, rank: int, size: int, look: int) -> str:
        more = self.more
        frames = [{"name": name, "filename": file, "line": line} for name, file, line in self.stacks[look]]
        threads = [{"thread_name": "MainThread", "owns_gil": more["gil"], "frames": frames}]
        cpu, io = (1000 + look * int(str(more[name])) for name in ("cpu", "io"))
        head = f"@rank {rank} {size} node{rank + 1} {100 + rank} {more['state']} {more['waits']}"
        signs = f"@signs {cpu} {io} 2048 4 {more['children']} {more['gpu']} /data/x"
        # Without it: as Python's faulthandler writes stacks, the main thread last.
        shown = "".join(f'  File "{file}", line {line} in {name}\n' for name, file, line in self.stacks[look])
        order = "(most recent call first):\n"
        itself = f"py-spy is not on this host\nThread 0x1 {order}\nCurrent thread 0x2 {order}{shown}"
        if "unseen" in more:
            return f"{head}\n{signs}\n{more['unseen']}\n@end\n"
        return f"{head}\n{signs}\n{itself if more['gil'] is None else json.dumps(threads)}\n@end\n"


def _judge(*ranks: _Rank | None) -> tuple[JobCondition, tuple[int, ...], str]:
    found = _verdict(*ranks)
    return found.kind, found.ranks, found.sentence


def _verdict(*ranks: _Rank | None) -> Verdict:
    text = ""
    for look in (0, 1):
        text += f"@node 0 node1 {look + 1} {100 + look}.0\n"
        text += "".join(rank.answer(number, len(ranks), look) for number, rank in enumerate(ranks) if rank)
        text += "@done 0\n"
    return judge(read_rounds(text), len(ranks))


@pytest.mark.parametrize(
    ("late", "kind"),
    [
        (_Rank(_OWN, waits="hrtimer_nanosleep"), JobCondition.SLEEP),
        (_Rank(_OWN, waits="futex_do_wait"), JobCondition.LOCK),
        (_Rank(_OWN, waits="pipe_read"), JobCondition.PIPE),
        (_Rank(_OWN, waits="do_wait"), JobCondition.CHILD),
        (_Rank(_OWN, waits="wait_for_vfork_done", state="D"), JobCondition.CHILD),
        (_Rank(_OWN, waits="request_wait_answer"), JobCondition.FILE_SYSTEM),
        (_Rank(_OWN, waits="locks_lock_inode_wait"), JobCondition.FILE_LOCK),
        (_Rank(_OWN, waits="inet_csk_accept"), JobCondition.NETWORK),
        (_Rank(_OWN, state="D"), JobCondition.FILE_SYSTEM),
        (_Rank(_OWN, state="T"), JobCondition.STOPPED),
        (_Rank(_OWN, state="t"), JobCondition.DEBUGGER),
        (_Rank(_PDB, waits="pipe_read"), JobCondition.DEBUGGER),
        (_Rank(_LOADER, waits="poll"), JobCondition.LOADER),
        (_Rank(_OWN, state="R", cpu=100, gil=True), JobCondition.LOOP),
        (_Rank(_OWN), JobCondition.STANDS),
    ],
)
def test_the_rank_that_stands_is_named_and_how(late: _Rank, kind: JobCondition) -> None:
    for waiting in (_REDUCE, _BACKWARD):
        assert _judge(_Rank(waiting), _Rank(waiting), late, _Rank(waiting))[:2] == (kind, (2,))
        assert _judge(_Rank(waiting), late)[:2] == (kind, (1,))


def test_the_sentence_names_rank_host_line_and_who_waits() -> None:
    _, _, sentence = _judge(_Rank(_REDUCE), _Rank(_OWN, waits="hrtimer_nanosleep"), _Rank(_REDUCE))
    assert sentence == "rank 1 on node2 sleeps at data.py:44 (load); 2 ranks wait in all_reduce at train.py:120 (train)"
    _, _, sentence = _judge(_Rank(_REDUCE), _Rank(_OWN, waits="request_wait_answer"))
    assert "waits for a file system (/data/x) at data.py:44" in sentence


@pytest.mark.parametrize(
    "rank",
    [
        _Rank(_OWN, _NEXT, cpu=50, state="R"),
        _Rank(_OWN, io=100_000),
        _Rank(_OWN, cpu=100, state="R"),  # a library computes: Python's lock is free
        _Rank(_BACKWARD, cpu=80, state="R"),
        _Rank(_REDUCE, cpu=20, io=1_000_000),  # many collectives of gloo at one line
        _Rank(_REDUCE, _BARRIER, cpu=20),
    ],
)
def test_a_rank_that_goes_on_is_no_hang(rank: _Rank) -> None:
    kind, ranks, sentence = _judge(rank, _Rank(_BARRIER))
    assert (kind, ranks) == (JobCondition.WORKS, (0,))
    assert sentence.endswith("1 rank waits in barrier meanwhile")
    assert _judge(rank, rank)[0] is JobCondition.WORKS


@pytest.mark.parametrize(
    "rank",
    [
        _Rank(_COMPILE, cpu=100, state="R", gil=True),
        _Rank(_OWN, cpu=90, children="cc1plus:R,ninja:S"),
    ],
)
def test_a_compiler_is_no_hang(rank: _Rank) -> None:
    assert _judge(rank, _Rank(_BARRIER))[:2] == (JobCondition.COMPILES, (0,))


def test_a_gpu_s_rank_waits_at_full_speed() -> None:
    late = _Rank(_OWN, waits="hrtimer_nanosleep")
    assert _judge(_Rank(_REDUCE, cpu=100, state="R", gpu=2), late)[:2] == (JobCondition.SLEEP, (1,))


def test_a_loop_is_seen_without_knowing_who_holds_python_s_lock() -> None:
    here, there = ((("count", "/home/a/train.py", line),) for line in (44, 45))
    assert _judge(_Rank(_REDUCE), _Rank(here, there, cpu=100, state="R", gil=None))[:2] == (JobCondition.LOOP, (1,))
    # At one line a library may compute.
    assert _judge(_Rank(_REDUCE), _Rank(here, cpu=100, state="R", gil=None))[:2] == (JobCondition.WORKS, (1,))


def test_what_a_rank_writes_to_show_its_stack_is_no_work() -> None:
    deep = tuple(("forward", "/home/a/model.py", 10 + number) for number in range(60))
    stacks = [line for line in _Rank(deep, gil=None).answer(0, 1, 0).splitlines(keepends=True) if line[0] in " TC"]
    written = sum(map(len, stacks))
    assert written > 2048

    assert _judge(_Rank(deep, waits="futex_do_wait", io=written, gil=None))[0] is JobCondition.LOCK
    assert _judge(_Rank(deep, waits="futex_do_wait", io=2 * written, gil=None))[0] is JobCondition.WORKS


def test_other_hangs() -> None:
    assert _judge(_Rank(_REDUCE), None)[:2] == (JobCondition.GONE, (1,))
    kind, ranks, sentence = _judge(_Rank(_REDUCE), _Rank(_REDUCE), _Rank(_BARRIER))
    assert (kind, ranks, "2 ranks wait in all_reduce" in sentence) == (JobCondition.ORDER, (2,), True)
    assert _judge(_Rank(_REDUCE), _Rank(_REDUCE))[:2] == (JobCondition.COLLECTIVE, (0, 1))
    assert _judge(_Rank(_LOADER), _Rank(_LOADER))[:2] == (JobCondition.LOADER, (0, 1))
    assert judge(read_rounds("@node 0 a 1 1.0\n@done 0\n"), 0).kind is JobCondition.STARTS


def test_a_node_that_does_not_answer_is_named() -> None:
    text = "".join(
        f"@node 0 node1 {look + 1} {look}.0\n{_Rank(_REDUCE).answer(0, 2, look)}@done 0\n" for look in (0, 1)
    )
    found = judge(read_rounds(text), 2, silent_nodes=["node2"], silent_ranks=[1])
    assert (found.kind, found.host) == (JobCondition.NODE, "node2")
    assert found.sentence == "node2 (rank 1) does not answer; 1 rank waits in all_reduce at train.py:120 (train)"


@pytest.mark.parametrize("kind", [kind for kind in JobCondition if kind.is_hang])
def test_every_hang_says_what_to_do(kind: JobCondition) -> None:
    remedy = Verdict(kind, "it hangs", (3, 5), "node2").remedy
    assert remedy
    assert "{" not in remedy
    if kind is JobCondition.NODE:
        assert remedy.endswith("submit it with --exclude node2")
    if kind is JobCondition.GONE:
        assert "muster logs --rank 3" in remedy


def test_the_others_wait_only_where_some_stand_in_a_collective() -> None:
    sleeps = _Rank(_OWN, waits="hrtimer_nanosleep")
    together, awaited = _verdict(sleeps, sleeps), _verdict(sleeps, _Rank(_REDUCE))
    assert (together.ranks, together.remedy) == ((0, 1), "look at that line")
    assert awaited.remedy == "look at that line: the other ranks wait until this one comes"


def test_a_node_that_is_only_slow_is_no_hang() -> None:
    waits, works = _Rank(_REDUCE), _Rank(_OWN, _NEXT, cpu=50)
    first = "".join(
        f"@node {node} node{node + 1} 1 1.0\n{(waits, works)[node].answer(node, 2, 0)}@done {node}\n" for node in (0, 1)
    )
    second = f"@node 0 node1 2 2.0\n{waits.answer(0, 2, 1)}@done 0\n@node 1 node2 2 2.0\n"
    found = judge_job(read_rounds(first + second), ["node1", "node2"])
    assert found.kind not in {JobCondition.NODE, JobCondition.GONE}
    assert judge_job(read_rounds(first), ["node1", "node2", "node3"]).host == "node3"


_NO_SPY = "py-spy is not on this host"


@pytest.mark.parametrize(
    ("answer", "why"),
    [(_NO_SPY, _NO_SPY), ("Error: Permission denied (os error 13)", "the kernel forbids to look into the process")],
)
def test_of_ranks_that_show_no_stack_no_line_and_no_lock_is_told(answer: str, why: str) -> None:
    found = _verdict(*(_Rank(_OWN, waits="futex_do_wait", unseen=answer) for _ in range(2)))
    assert (found.kind, found.where, found.unseen) == (JobCondition.STANDS, None, why)
    assert found.sentence == f"ranks 0-1 on 2 hosts do not go on; the line is not known: {why}"
    assert "look at that line" not in found.remedy
    assert "--stacks-ready" in found.remedy


def test_of_ranks_that_show_no_stack_the_one_that_sleeps_is_told_from_those_that_wait() -> None:
    waits, sleeps = (_Rank(_OWN, waits=name, unseen=_NO_SPY) for name in ("sk_wait_data", "hrtimer_nanosleep"))
    found = _verdict(waits, sleeps)
    assert (found.kind, found.ranks) == (JobCondition.SLEEP, (1,))
    assert found.sentence.startswith("rank 1 on node2 sleeps; rank 0 on node1 waits for the network; the line is not")


def test_what_the_kernel_tells_of_a_rank_that_shows_no_stack_keeps_its_remedy() -> None:
    found = _verdict(_Rank(_OWN, state="T", unseen=_NO_SPY), _Rank(_REDUCE))
    assert (found.kind, found.ranks) == (JobCondition.STOPPED, (0,))
    assert "kill -CONT" in found.remedy


def test_a_rank_that_shows_no_stack_and_uses_a_core_may_work_or_loop() -> None:
    found = _verdict(_Rank(_OWN, state="R", cpu=100, unseen=_NO_SPY))
    assert found.sentence == (
        "it runs: 1 rank uses 100% of a core; work and an endless loop look alike, "
        "since the line is not known: py-spy is not on this host"
    )
    assert not found.is_hang
    beside = _verdict(_Rank(_OWN, state="R", cpu=100, unseen=_NO_SPY), _Rank(_OWN, _NEXT, state="R", cpu=100, io=99999))
    assert beside.sentence.startswith("it works: 2 ranks use 100% of a core each")


def test_ranks_that_mostly_sleep_are_not_said_to_work() -> None:
    sleeps = _Rank(_OWN, (("look", "/home/a/data.py", 9),), cpu=1)
    kind, _, sentence = _judge(sleeps, sleeps)
    assert (kind, sentence) == (
        JobCondition.WORKS,
        "it goes on, with hardly any work: 2 ranks use 1% of a core each",
    )


def test_a_rank_that_only_starts_is_not_unseen() -> None:
    starts = _Rank((), state="R", cpu=100)
    assert _judge(starts)[2] == "it works: 1 rank uses 100% of a core"


@pytest.mark.parametrize(
    ("others", "kind", "words"),
    [
        ((), JobCondition.NO_PYTHON, "ranks 0-1 run bash, sleep, which is not Python: whether its work goes on cannot"),
        ((_Rank(_OWN, waits="hrtimer_nanosleep"),), JobCondition.NO_PYTHON, "; ranks 1-2 run bash, sleep, which is"),
    ],
)
def test_a_rank_that_is_not_python_is_neither_gone_nor_waited_for(
    others: tuple[_Rank, ...], kind: JobCondition, words: str
) -> None:
    size = len(others) + 2
    text = ""
    for look in (0, 1):
        text += f"@node 0 node1 {look + 1} {100 + look}.0\n"
        text += "".join(rank.answer(number, size, look) for number, rank in enumerate(others))
        text += "".join(
            f"@program {size - 2 + number} {size} node1 {name}\n" for number, name in enumerate(("sleep", "bash"))
        )
        text += "@done 0\n"

    verdict = judge_job(read_rounds(text), ["node1"])

    assert (verdict.kind, verdict.is_hang) == (kind, False)
    assert words in verdict.sentence
    assert "no process" not in verdict.sentence


def test_nothing_with_a_rank_is_not_called_a_rank_that_has_not_started() -> None:
    verdict = judge_job(read_rounds("@node 0 node1 1 100.0\n@done 0\n"), ["node1"])
    assert verdict.sentence.startswith("no process of the job has the variable RANK")
    assert not verdict.is_hang


def test_stacks_names_in_json_the_ranks_that_are_not_python_and_the_hosts_that_are_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = _Rank(_OWN, state="R", cpu=100).answer(0, 2, 0)
    text = f"@node 0 node1 1 100.0\n{python}@program 1 2 node1 bash\n@done 0\n"
    monkeypatch.setattr(stacks, "_ask_job", lambda *_: (text, ("node1", "node2")))

    assert stacks.main(read_command(stacks.COMMAND, ["--json", "7"])) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["programs"] == [{"rank": 1, "host": "node1", "name": "bash"}]
    assert (document["silent_hosts"], document["groups"][0]["ranks"]) == (["node2"], [0])


def _of_roles(nodes: int = 3, **roles: tuple[int, dict[int, _Rank]]) -> Verdict:
    """The verdict on a job whose roles have so many ranks; those that are given were seen, on nodes 1 to 3."""
    text = ""
    for look in (0, 1):
        text += f"@node 0 node1 {look + 1} {100 + look}.0\n"
        for role, (size, ranks) in roles.items():
            answers = [rank.answer(number, size, look) for number, rank in ranks.items()]
            text += "".join(answers).replace("@rank ", f"@rank {role}.")
        text += "@done 0\n"
    return judge_job(read_rounds(text), [f"node{number + 1}" for number in range(nodes)])


_IDLE = _Rank(_OWN, waits="inet_csk_accept")
_WAITS = _Rank(_REDUCE)
_WORKS = _Rank(_OWN, _NEXT, state="R", cpu=100)


def test_the_ranks_of_a_role_wait_for_none_of_another() -> None:
    found = _of_roles(1, serve=(1, {0: _IDLE}), train=(2, {0: _WAITS, 1: _Rank(_OWN, state="T")}))

    assert found.sentence == (
        "role serve: rank 0 on node1 waits for the network at data.py:44 (load); "
        "role train: rank 1 on node2 is stopped at data.py:44 (load); "
        "1 rank waits in all_reduce at train.py:120 (train)"
    )
    assert (found.kind, found.role, found.ranks, found.host) == (JobCondition.STOPPED, "train", (1,), "node2")


def test_all_ranks_of_a_role_in_a_collective_are_all_there_are() -> None:
    found = _of_roles(1, serve=(1, {0: _IDLE}), train=(2, {0: _WAITS, 1: _WAITS}))
    assert (found.kind, found.role) == (JobCondition.COLLECTIVE, "train")
    assert "role train: all 2 ranks wait in all_reduce" in found.sentence


def test_a_rank_that_a_role_lacks_is_named_with_the_role() -> None:
    found = _of_roles(1, serve=(1, {0: _IDLE}), train=(3, {0: _WAITS, 2: _WAITS}))
    assert (found.kind, found.role, found.ranks) == (JobCondition.GONE, "train", (1,))
    assert "role train: rank 1 has no process; 2 ranks wait in all_reduce" in found.sentence
    assert "muster logs --role train --rank 1 shows" in found.remedy


def test_while_one_role_goes_on_another_may_wait_for_it() -> None:
    late = {0: _WAITS, 1: _Rank(_OWN, waits="inet_csk_wait")}
    found = _of_roles(1, serve=(1, {0: _WORKS}), train=(2, late))
    assert not found.is_hang
    assert found.role == "serve"
    assert "role train: rank 1 on node2 waits for the network" in found.sentence
    assert _of_roles(1, train=(2, late), serve=(1, {0: _IDLE})).is_hang


def test_a_role_whose_ranks_wait_for_one_of_them_is_told_before_one_that_waits_as_a_whole() -> None:
    late = {0: _WAITS, 1: _Rank(_OWN, waits="futex_do_wait")}
    found = _of_roles(1, a=(1, {0: _WAITS}), b=(2, late))
    assert (found.role, found.ranks, found.others_wait) == ("b", (1,), True)


def test_a_role_that_is_not_python_hides_none_that_works() -> None:
    text = ""
    for look in (0, 1):
        own = _WORKS.answer(0, 1, look).replace("@rank ", "@rank train.")
        text += f"@node 0 node1 {look + 1} {100 + look}.0\n@program data.0 1 node1 bash\n{own}@done 0\n"
    found = judge_job(read_rounds(text), ["node1"])
    assert (found.kind, found.role) == (JobCondition.WORKS, "train")
    assert found.sentence.startswith(
        "role data: rank 0 runs bash, which is not Python: whether its work goes on cannot"
    )


def test_of_roles_that_only_stand_nobody_is_blamed() -> None:
    found = _of_roles(1, serve=(1, {0: _IDLE}), train=(1, {0: _Rank(_OWN, waits="futex_do_wait")}))
    assert (found.kind, found.is_hang, found.role, found.ranks) == (JobCondition.ROLES, True, "", ())
    assert "which role waits for which is not known" in found.remedy
    assert found.sentence.count("role ") == 2


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ({0: _WORKS}, "role train: node2, node3 (rank 1) do not answer"),
        ({0: _WORKS, 1: _WORKS}, "node2, node3 do not answer; role serve: "),
    ],
)
def test_a_node_that_is_silent_is_that_of_the_role_that_lacks_a_rank(ranks: dict[int, _Rank], words: str) -> None:
    found = _of_roles(3, serve=(1, {0: _IDLE}), train=(2, ranks))
    assert found.kind is JobCondition.NODE
    assert words in found.sentence
    assert "role serve: rank 0 on node1 waits for the network" in found.sentence


def test_stacks_shows_each_role_by_itself(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    serve = _IDLE.answer(0, 1, 0).replace("@rank ", "@rank serve.")
    train = "".join(_WAITS.answer(number, 3, 0) for number in (0, 2)).replace("@rank ", "@rank train.")
    text = f"@node 0 node1 1 100.0\n{serve}{train}@program data.0 1 node1 bash\n@done 0\n"
    text = text.replace("@done", f"{_IDLE.answer(1, 3, 0)}@done".replace("@rank ", "@rank data."))
    monkeypatch.setattr(stacks, "_ask_job", lambda *_: (text, ("node1",)))

    assert stacks.main(read_command(stacks.COMMAND, ["7"])) == 0
    assert capsys.readouterr().out.split("\n\n") == [
        (
            "role data\nrank 0 on node1: it runs bash, which is not Python\n"
            "1 rank (1) on node2: load at /home/a/data.py:44 (load)"
        ),
        "role serve\n1 rank (0) on node1: load at /home/a/data.py:44 (load)",
        "role train\n2 ranks (0,2) on 2 hosts: all_reduce at /home/a/train.py:120 (train)\nrank 1: there is no process",
        "2 ranks wait in all_reduce for rank 1, of which there is no process\n",
    ]
    assert stacks.main(read_command(stacks.COMMAND, ["7", "--json", "--role", "train"])) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(group["role"], group["ranks"]) for group in document["groups"]] == [("train", [0, 2])]
    assert document["sentence"] == "role train: 2 ranks wait in all_reduce for rank 1, of which there is no process"
    assert (document["ranks"], document["programs"]) == (3, [])
    with pytest.raises(UnknownName, match="no role named 'rain'"):
        stacks.main(read_command(stacks.COMMAND, ["7", "--role", "rain"]))
    monkeypatch.setattr(stacks, "_ask_job", lambda *_: ("@program data.0 1 node1 bash\n@done 0\n", ("node1",)))
    with pytest.raises(RequestError, match="role data: rank 0 runs bash, which is not Python"):
        stacks.main(read_command(stacks.COMMAND, ["7"]))
