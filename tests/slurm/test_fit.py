"""Where sbatch's trial refuses a job whose numbers are right, nodes that are excluded or down are said."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.slurm.fit import Wanted, find_misfit, parse_nodes


def _line(name: str, *, gres: str = "gpu:a100:4(S:0-1)", state: str = "idle", partition: str = "gpu*") -> str:
    return f"{partition}\x1f{name}\x1f{gres}\x1f{state}"


FOUR = "\n".join(_line(f"n{number}") for number in range(1, 5))


def test_what_fits_is_not_explained() -> None:
    assert find_misfit(Wanted(nodes=4, gpus=4), parse_nodes(FOUR)) is None
    assert find_misfit(Wanted(nodes=4, partitions=("other",)), parse_nodes(FOUR)) is None


def test_nodes_that_are_excluded_are_said() -> None:
    found = find_misfit(Wanted(nodes=4, excluded=("n2", "n9")), parse_nodes(FOUR))
    assert found is not None
    assert found.sentence == "4 nodes are asked for, but of the 4 of gpu n2 is excluded"
    assert found.hint == "-N 3 or fewer; muster nodes lists what it excludes, and --clear forgets it"
    assert find_misfit(Wanted(nodes=3, excluded=("n2",)), parse_nodes(FOUR)) is None
    none_left = find_misfit(Wanted(nodes=1, excluded=("n1", "n2", "n3", "n4")), parse_nodes(FOUR))
    assert none_left is not None
    assert none_left.sentence.startswith("1 node is asked for")
    assert none_left.hint.startswith("exclude fewer (-x); ")


def test_a_node_that_is_down_is_said() -> None:
    text = f"welcome\n{FOUR}\n{_line('n5', state='down*')}\n{_line('n6', state='drained')}"
    found = find_misfit(Wanted(nodes=6), parse_nodes(text))
    assert found is not None
    assert found.sentence == "n5, n6 of gpu are down or drained: 4 of 6 nodes take jobs"


def test_nodes_that_are_down_are_not_the_reason_where_enough_take_jobs() -> None:
    text = f"{FOUR}\n{_line('n5', state='down*')}"
    assert find_misfit(Wanted(nodes=4), parse_nodes(text)) is None
    assert find_misfit(Wanted(nodes=4, excluded=("n1",)), parse_nodes(text)) is not None
    for asked in (Wanted(nodes=6), Wanted(nodes=1, gpus=5, named=("n5",)), Wanted(nodes=5, gpus=5)):
        assert find_misfit(asked, parse_nodes(text)) is None, "so many would not do either"


def test_of_named_nodes_only_those_are_said() -> None:
    text = f"{FOUR}\n{_line('n5', state='down*')}\n{_line('n6', state='drained')}"
    found = find_misfit(Wanted(nodes=1, named=("n6",)), parse_nodes(text))
    assert found is not None
    assert found.sentence.startswith("n6 of gpu is down")


@given(st.text(), st.integers(0, 1000))
def test_any_text_of_sinfo_is_read(text: str, nodes: int) -> None:
    find_misfit(Wanted(nodes=nodes), parse_nodes(text))
