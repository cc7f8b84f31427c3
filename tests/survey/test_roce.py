"""NCCL_IB_GID_INDEX comes from the tables of the NICs, as the probe reads them in /sys; it is never a constant."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.older import tomllib
from muster.runner import run
from muster_check.survey.draft import JOB_SCRIPT, Survey, draft, node_answers
from muster_check.survey.roce import GIDS_SCRIPT, read_gids

V1, V2 = "IB/RoCE v1", "RoCE v2"
LINK_LOCAL = "fe80:0000:0000:0000:0e42:a1ff:fe5b:3f10"
IPV4 = "0000:0000:0000:0000:0000:ffff:0a00:0105"
IPV6 = "fd00:0000:0000:0000:0000:0000:0000:0105"
Table = list[tuple[str, Optional[str]]]

EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"

# The kernel's usual order: each address as v1, then as v2.
USUAL: Table = [(LINK_LOCAL, V1), (LINK_LOCAL, V2), (IPV4, V1), (IPV4, V2), (EMPTY, None)]
# A host that has an IPv6 address too: everything behind it has moved.
MOVED: Table = [(LINK_LOCAL, V1), (LINK_LOCAL, V2), (IPV6, V1), (IPV6, V2), (IPV4, V1), (IPV4, V2)]


def tree(root: Path, cards: dict[str, Table], *, layer: str = "Ethernet", state: str = "4: ACTIVE") -> Path:
    """A /sys with these cards; an entry that is not in use has a type that cannot be read, as in the kernel."""
    for card, table in cards.items():
        port = root / "class" / "infiniband" / card / "ports" / "1"
        (port / "gids").mkdir(parents=True)
        (port / "gid_attrs" / "types").mkdir(parents=True)
        (port / "link_layer").write_text(f"{layer}\n")
        (port / "state").write_text(f"{state}\n")
        for index, (gid, kind) in enumerate(table):
            (port / "gids" / str(index)).write_text(f"{gid}\n")
            if kind is not None:
                (port / "gid_attrs" / "types" / str(index)).write_text(f"{kind}\n")
    return root


def read(root: Path, shell: str = "dash") -> str:
    done = run([shell, "-c", GIDS_SCRIPT], env={"PATH": "/usr/bin:/bin", "MUSTER_SYS": str(root)})
    assert done.ok, done.stderr
    return done.stdout


@pytest.mark.parametrize("shell", ["dash", "bash"])
@pytest.mark.parametrize(("table", "index"), [(USUAL, 3), (MOVED, 5)])
def test_the_entry_is_the_one_with_an_ipv4_address_and_version_2(
    tmp_path: Path, shell: str, table: Table, index: int
) -> None:
    assert read_gids(read(tree(tmp_path, {"mlx5_0": table, "mlx5_1": table}), shell)).index == index


@pytest.mark.parametrize(
    ("cards", "why"),
    [
        ({"mlx5_0": USUAL, "mlx5_1": MOVED}, "the cards differ (mlx5_0: 3, mlx5_1: 5)"),
        ({"mlx5_0": USUAL[:3]}, "mlx5_0 has no entry"),
        ({"mlx5_0": USUAL, "mlx5_1": USUAL[:2]}, "mlx5_1 has no entry"),
        ({}, "no Ethernet port"),
    ],
)
def test_where_no_number_is_right_none_is_given_and_the_reason(
    tmp_path: Path, cards: dict[str, Table], why: str
) -> None:
    gids = read_gids(read(tree(tmp_path, cards)))

    assert gids.index is None
    assert why in gids.why_not


@pytest.mark.parametrize(("layer", "state"), [("InfiniBand", "4: ACTIVE"), ("Ethernet", "1: DOWN")])
def test_infiniband_and_a_port_that_is_down_have_no_say(tmp_path: Path, layer: str, state: str) -> None:
    assert read(tree(tmp_path, {"mlx5_0": USUAL}, layer=layer, state=state)) == ""


def test_cards_that_share_one_entry_among_several_get_that_one(tmp_path: Path) -> None:
    two: Table = [*USUAL, (IPV4, V2)]

    assert read_gids(read(tree(tmp_path, {"mlx5_0": two, "mlx5_1": MOVED}))).index == 5


@given(st.integers(0, 40))
def test_any_place_in_the_table_is_found(index: int) -> None:
    lines = [f"mlx5_0 {number} {LINK_LOCAL} {V2}" for number in range(index)]

    assert read_gids("\n".join([*lines, f"mlx5_0 {index} {IPV4} {V2}"])).index == index


def test_the_job_of_the_probe_asks_for_the_tables_and_the_draft_has_the_line(tmp_path: Path) -> None:
    root = tree(tmp_path, {"mlx5_0": MOVED})
    done = run(["dash", "-c", JOB_SCRIPT], env={"PATH": "/usr/bin:/bin", "MUSTER_SYS": str(root)})
    node = {**node_answers(done.stdout), "interfaces": "eth0", "hcas": "mlx5_0", "link_layers": "Ethernet"}

    (variable,) = tomllib.loads(draft(Survey("2026-11-20", "h", node=node), "mine"))["environment"]

    assert (variable["name"], variable["value"]) == ("NCCL_IB_GID_INDEX", "5")
    assert variable["when"] == {"nodes_min": 2, "nccl_below": "2.21"}


def test_no_profile_gives_a_constant() -> None:
    from sites.profiles import NAMES, bundled

    for name in NAMES:
        for variable in bundled(name).profile.environment:
            assert variable.name != "NCCL_IB_GID_INDEX" or variable.value is None
