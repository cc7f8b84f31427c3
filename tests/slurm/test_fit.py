"""The number that does not fit is named: of nodes, GPUs, CPUs, memory; and a node that is down is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.slurm.fit import Wanted, find_misfit, parse_nodes


def _line(name: str, *, gres: str = "gpu:a100:4(S:0-1)", state: str = "idle", partition: str = "gpu*") -> str:
    return f"{partition}\x1f{name}\x1f64\x1f512000\x1f{gres}\x1f{state}"


FOUR = "\n".join(_line(f"n{number}") for number in range(1, 5))


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (Wanted(nodes=9), "9 nodes are asked for, but gpu has 4"),
        (Wanted(nodes=1, gpus=8), "8 GPUs on each node are asked for, but no node of gpu has more than 4 GPUs"),
        (Wanted(nodes=1, cpus=65), "65 CPUs on each node are asked for, but no node of gpu has more than 64 CPUs"),
        (
            Wanted(nodes=1, memory_mib=1 << 20),
            "1024G on each node are asked for, but no node of gpu has more than 500G",
        ),
    ],
)
def test_the_number_that_no_node_has_is_named(wanted: Wanted, says: str) -> None:
    found = find_misfit(wanted, parse_nodes(FOUR))
    assert found is not None
    assert says in found.sentence


@pytest.mark.parametrize(
    ("spares", "says", "hint"),
    [
        (1, "6 nodes (1 spare) are asked for, but gpu has 4", "-N 3 or fewer"),
        (4, "6 nodes (4 spare) are asked for, but gpu has 4", "fewer --spares"),
    ],
)
def test_spare_nodes_are_counted(spares: int, says: str, hint: str) -> None:
    found = find_misfit(Wanted(nodes=6, spares=spares), parse_nodes(FOUR))
    assert found is not None
    assert (found.sentence, found.hint) == (says, hint)


def test_what_fits_is_not_explained() -> None:
    assert find_misfit(Wanted(nodes=4, gpus=4, cpus=64, memory_mib=512000), parse_nodes(FOUR)) is None
    assert find_misfit(Wanted(nodes=4, partitions=("other",)), parse_nodes(FOUR)) is None


def test_nodes_that_are_excluded_are_said() -> None:
    found = find_misfit(Wanted(nodes=4, excluded=("n2", "n9")), parse_nodes(FOUR))
    assert found is not None
    assert found.sentence == "4 nodes are asked for, but of the 4 of gpu n2 is excluded"
    assert found.hint == "-N 3 or fewer; muster nodes lists what it excludes, and --clear forgets it"
    assert find_misfit(Wanted(nodes=3, excluded=("n2",)), parse_nodes(FOUR)) is None


def test_a_node_that_is_down_is_said() -> None:
    text = f"welcome\n{FOUR}\n{_line('n5', state='down*')}\n{_line('n6', state='drained')}"
    found = find_misfit(Wanted(nodes=6), parse_nodes(text))
    assert found is not None
    assert found.sentence == "n5, n6 of gpu are down or drained: 4 of 6 nodes take jobs"


def test_nodes_that_are_down_are_not_the_reason_where_enough_take_jobs() -> None:
    text = f"{FOUR}\n{_line('n5', state='down*')}"
    assert find_misfit(Wanted(nodes=4), parse_nodes(text)) is None
    assert find_misfit(Wanted(nodes=4, excluded=("n1",)), parse_nodes(text)) is not None


def test_of_named_nodes_only_those_are_said() -> None:
    text = f"{FOUR}\n{_line('n5', state='down*')}\n{_line('n6', state='drained')}"
    found = find_misfit(Wanted(nodes=1, named=("n6",)), parse_nodes(text))
    assert found is not None
    assert found.sentence.startswith("n6 of gpu is down")


def test_too_few_nodes_have_everything_together() -> None:
    text = f"{FOUR}\n{_line('n5', gres='(null)')}"
    found = find_misfit(Wanted(nodes=5, gpus=1), parse_nodes(text))
    assert found is not None
    assert "only 4 of the 5 of gpu have all" in found.sentence


@given(st.text(), st.integers(0, 1000))
def test_any_text_of_sinfo_is_read(text: str, nodes: int) -> None:
    find_misfit(Wanted(nodes=nodes), parse_nodes(text))
