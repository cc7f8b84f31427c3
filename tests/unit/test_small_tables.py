"""Small decisions of several rooms, each by a table: exit codes, sizes, reservations, groups, records, pictures."""

from __future__ import annotations

import grp
import json
import os
import pwd
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from muster.act import keep
from muster.act.keep import _Allocated, _Keeper, _told_of_waiting
from muster.cli.output import print_json
from muster.ownership import _is_own_group
from muster.policy.masks import gpu_cores
from muster.policy.waiting import _how_sure
from muster.sites.schema import Fabric, Profile
from muster.sites.schema_launch import Bind, Container, SiteRendezvous
from muster.slurm.jobs import _exit
from muster_bench.judge import wire_share
from muster_bench.order import format_bytes
from muster_check.picture import _cards
from muster_check.stacks.read import sort_by_task
from muster_check.stacks.record import _calls, _sizes
from muster_check.survey.nodes import _interfaces, _paths, node_script
from sites.profiles import bundled


@pytest.mark.parametrize(
    ("text", "code", "signal"),
    [
        ("7:0", 7, 0),
        ("0:9", 0, 9),
        (" 0:0 ", 0, 0),
        ("1792", 7, 0),
        ("9", 0, 9),
        ("137", 0, 9),  # 128 is the sign of a core that was written
        ("65280", 255, 0),
        ("", None, None),
        ("x:0", None, None),
        ("7:x", None, None),
        ("7:", None, None),
        (":9", None, None),
    ],
)
def test_exit_code_and_signal_are_read_in_both_spellings(text: str, code: int | None, signal: int | None) -> None:
    assert _exit(text) == (code, signal)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1 << 10, "1 KiB"),
        (1536, "1536 B"),
        (10 * 1024 + 1, "10.0 KiB"),
        (10 * 1024 - 1, "10239 B"),
        (1_000_000, "1 MB"),
        (10 * (1 << 20) - 1, "10240.0 KiB"),
        (10 * (1 << 20) + 1, "10.0 MiB"),
        (4_000_000_000, "4 GB"),
        (1 << 30, "1 GiB"),
        ((10 << 30) + 1, "10.0 GiB"),
    ],
)
def test_a_size_has_the_largest_unit_that_makes_it_exact(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("start", "longest_s", "words"),
    [
        ("2026-11-27T12:00:00", None, "the job waits"),
        ("2026-11-27T12:00:00", 7201, "the job waits"),
        ("2026-11-27T12:00:00", 7200, "the job waits, unless it starts soon"),
        ("2026-11-27T12:00:00", 3601, "the job waits, unless it starts soon"),
        ("2026-11-27T12:00:00", 3600, ""),
        ("2026-11-27T12:00:00", 60, ""),
        ("Unknown", 60, ""),
        ("", None, ""),
    ],
)
def test_a_job_that_reaches_into_a_reservation_waits(start: str, longest_s: int | None, words: str) -> None:
    assert _how_sure("2026-11-27T10:00:00", start, longest_s) == words


@pytest.mark.parametrize(
    ("gid", "primary", "name", "members", "is_own"),
    [
        (100, 100, "ada", [], True),
        (100, 100, "ada", ["ada"], True),
        (100, 100, "ada", ["ada", "bob"], False),
        (100, 100, "users", [], False),
        (100, 200, "ada", [], False),
    ],
)
def test_a_group_is_a_persons_own_where_nobody_else_is_in_it(
    monkeypatch: pytest.MonkeyPatch, gid: int, primary: int, name: str, members: list[str], is_own: bool
) -> None:
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_gid=primary, pw_name="ada"))
    monkeypatch.setattr(grp, "getgrgid", lambda _: SimpleNamespace(gr_name=name, gr_mem=members))

    assert _is_own_group(gid, 1000) is is_own


def test_a_group_that_nobody_knows_is_nobodys_own() -> None:
    assert not _is_own_group(4_000_000_001, os.getuid())
    assert not _is_own_group(0, 4_000_000_001)


_FRONTIER = bundled("frontier").profile.nodes["gpu"]


@pytest.mark.parametrize(
    ("change", "is_known"),
    [({}, True), ({"numa": None}, False), ({"gpu_numa": None}, False), ({"gpus": 0}, False), ({"cores": None}, False)],
)
def test_the_cores_of_a_gpu_are_known_where_the_tables_are(change: dict[str, Any], is_known: bool) -> None:
    node = replace(_FRONTIER, **change)

    assert (gpu_cores(node) is not None) is is_known


@pytest.mark.parametrize(
    ("collective", "nodes", "share", "how"),
    [
        ("all_reduce", 2, 0.4, "algorithm bandwidth"),
        ("all_reduce", 3, 0.8, "bus bandwidth"),
        ("all_gather", 2, 0.8, "bus bandwidth"),
    ],
)
def test_two_nodes_reduce_by_a_tree(collective: str, nodes: int, share: float, how: str) -> None:
    row: Any = SimpleNamespace(collective=collective, nodes=nodes, algbw_gb_s=20.0, busbw_gb_s=40.0)

    measured, words = wire_share(row, 400)
    assert measured == pytest.approx(share)
    assert how in words


@pytest.mark.parametrize(
    ("entry", "group", "number", "name", "sizes"),
    [
        ({"profiling_name": "nccl:all_reduce", "process_group": ["0", "default_pg"], "collective_seq_id": 7,
          "input_sizes": [[3, 4]]}, ("0", "default_pg"), 7, "all_reduce", "3×4"),
        ({"profiling_name": "all_reduce", "process_group": "0"}, ("0",), 0, "all_reduce", ""),
        ({"profiling_name": "", "process_group": None, "collective_seq_id": None}, (), 0, "a collective", ""),
        ({}, (), 0, "a collective", ""),
        ({"is_p2p": False, "process_group": 3}, ("3",), 0, "a collective", ""),
    ],
)  # fmt: skip
def test_a_collective_of_a_flight_record(
    entry: dict[str, Any], group: tuple[str, ...], number: int, name: str, sizes: str
) -> None:
    (call,) = _calls([entry])

    assert (call.group, call.number, call.name, call.sizes) == (group, number, name, sizes)


def test_what_is_no_collective_of_a_group_is_not_of_the_record() -> None:
    assert list(_calls(["x", None, {"is_p2p": True, "profiling_name": "nccl:send"}])) == []
    assert [_sizes([[], "x", [2]]), _sizes([[1]] * 20).endswith(" …")] == ["1, 2", True]


def test_labelled_lines_are_sorted_by_their_task() -> None:
    assert sort_by_task("1: a\n0: b\n 1: c\n0:\nx: y\n0\n10: d\n") == "a\nc\nb\n\nd\n"


@pytest.mark.parametrize(
    ("node", "cards"),
    [
        ({"devices": [{"name": "mlx5_0", "numa": 1}, {"name": "mlx5_1"}], "interfaces": [{"name": "ib0", "numa": 0}]},
         [("mlx5_0", 1), ("mlx5_1", None)]),
        ({"interfaces": [{"name": "ib0", "numa": 0}, {"name": "lo", "numa": None}, {"name": "eth0"}]}, [("ib0", 0)]),
        ({}, []),
    ],
)  # fmt: skip
def test_the_cards_of_a_picture(node: Any, cards: list[tuple[str, int | None]]) -> None:
    assert _cards(node) == cards


# --- what is asked of a node of a cluster that a profile describes ---


def _profile(**words: Any) -> Profile:
    return replace(bundled("generic").profile, **words)


@pytest.mark.parametrize(
    ("fabric", "meeting", "interfaces", "suffix"),
    [
        (("hsn0", "hsn1"), SiteRendezvous(host="interface", interface="ib0"), ("hsn0", "hsn1", "ib0"), "''"),
        (None, SiteRendezvous(host="interface"), (), "''"),
        (None, SiteRendezvous(host="as-is", interface="ib0"), (), "''"),
        (None, SiteRendezvous(host="suffix", suffix="-ib0"), (), "-ib0"),
        (None, SiteRendezvous(host="as-is", suffix="-ib0"), (), "''"),
    ],
)
def test_a_node_is_asked_for_the_interfaces_that_the_profile_names(
    fabric: tuple[str, ...] | None, meeting: SiteRendezvous, interfaces: tuple[str, ...], suffix: str
) -> None:
    profile = _profile(fabric=Fabric(interfaces=fabric), rendezvous=meeting)

    assert tuple(name for names in _interfaces(profile).values() for name in names) == interfaces
    script = node_script(profile)
    assert f" {' '.join(interfaces)}" in script
    assert suffix in script


def _container(*paths: str, preferred: bool = False, **words: Any) -> Container:
    binds = tuple(Bind(path=path, verdict="kept", reason="r", **words) for path in paths)
    return replace(next(iter(bundled("lumi").profile.containers.values())), binds=binds, preferred=preferred)


def test_a_node_is_asked_for_the_paths_of_the_preferred_container_and_of_no_user() -> None:
    first, second = _container("/a", "b", "/$USER"), _container("/c", preferred=True)

    assert list(_paths(_profile(containers={"one": first, "two": second}, images={}, filesystems={})).values()) == [
        ("/c",)
    ]
    assert list(_paths(_profile(containers={"one": first}, images={}, filesystems={})).values()) == [("/a",)]
    assert _paths(_profile(containers={}, images={}, filesystems={})) == {}


# --- what the keeper of an allocation hears ---


def test_a_run_that_waits_for_nodes_of_its_own_job_says_so_once() -> None:
    said: list[str] = []
    take = _told_of_waiting(said.append)
    waits = b"srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)\n"
    take(b"srun: job 7 has been allocated resources\n")
    assert said == []
    for chunk in (waits, b"x\n", waits):
        take(chunk)

    assert len(said) == 1


@pytest.mark.parametrize(
    ("status", "quiet_s", "late_bytes", "is_done", "is_over"),
    [
        (None, 9.0, 0, True, False),
        (0, 0.0, 0, True, True),
        (0, 0.0, 0, False, False),
        (0, keep._DRAIN_S, 0, False, False),
        (0, keep._DRAIN_S + 0.1, 0, False, True),
        (0, 0.0, keep._LATE_BYTES, False, False),
        (0, 0.0, keep._LATE_BYTES + 1, False, True),
    ],
)
def test_a_script_is_over_when_what_it_wrote_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, status: int | None, quiet_s: float, late_bytes: int, is_done: bool, is_over: bool
) -> None:
    keeper = _Keeper(1.0, in_pieces=False)
    keeper.child_status, keeper.quiet_since = status, 100.0 - quiet_s
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    keeper.bytes_at_end = None if not late_bytes else 0
    keeper.out.bytes_read = late_bytes
    keeper.errors.open = keeper.out.open = not is_done

    assert keeper._is_over() is is_over


@pytest.mark.parametrize("told", [None, 15])
def test_what_the_shell_of_a_job_reports(monkeypatch: pytest.MonkeyPatch, told: int | None) -> None:
    said: list[str] = []
    settings = keep.KeepSettings(1.0, said.append, lambda _: "", steps_of_slurm=False, in_pieces=False)
    guard: Any = SimpleNamespace()
    keeper = _Allocated(settings, {}, guard)
    keeper.job, keeper.told = "7", told
    sent: list[int] = []
    given: list[int] = []
    monkeypatch.setattr(keeper, "_send", sent.append)
    monkeypatch.setattr(keep, "_give_terminal", given.append)
    for line in ("started 44 n[1-2]", "script 45", "ended 3", "other 9"):
        keeper._hear_shell(line)

    assert (keeper.started, keeper.group, keeper.script, keeper.ended) == (True, 44, 45, 3)
    assert (given, said) == ([44], ["job 7 runs on n[1-2]"])
    assert sent == ([] if told is None else [15])


@pytest.mark.parametrize(
    ("encoding", "value", "text"),
    [
        ("utf-8", "ä", '"ä"'),
        ("UTF8", "ä", '"ä"'),
        ("ascii", "ä", '"\\u00e4"'),
        ("latin-1", "ä", '"\\u00e4"'),
        (None, "ä", '"\\u00e4"'),
        ("utf-8", "ä\udce4", '"\\u00e4\\udce4"'),
        ("utf-8", "a", '"a"'),
    ],
)
def test_json_is_what_stdout_takes(
    monkeypatch: pytest.MonkeyPatch, encoding: str | None, value: str, text: str
) -> None:
    written: list[str] = []
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(encoding=encoding, write=written.append))
    print_json(value)

    assert "".join(written) == f"{text}\n"
    assert json.loads("".join(written)) == value
