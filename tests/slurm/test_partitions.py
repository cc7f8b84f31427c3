"""Guards that sinfo's lines become partitions: limits, sizes and what is free, whatever state the nodes are in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.slurm.partitions import count_waiting, parse_sinfo

# As the labs of 22.05 and 26.05 said it, one partition mixed and drained by hand.
_SAID = (
    "main*|up|1-00:00:00|30:00|1-16|2|3/13/0/16|8+|16384+|gpu:a100:4(S:0-1)|mixed",
    "main*|up|1-00:00:00|30:00|1-16|3|0/24/0/24|8|16384|gpu:4|idle",
    "main*|up|1-00:00:00|30:00|1-16|1|0/0/8/8|8|16384|gpu:4|idle*",
    "main*|up|1-00:00:00|30:00|1-16|1|0/0/8/8|8|16384|gpu:4|drained$",
    "debug|down|infinite|n/a|1-infinite|4K|0/8/0/8|8|16384|(null)|idle",
)
_TEXT = "\n".join(_SAID).replace("|", "\x1f") + "\n"


def test_the_lines_of_a_partition_are_one_partition() -> None:
    main, debug = parse_sinfo("Welcome to the cluster\n" + _TEXT)

    assert (main.name, main.is_default, main.is_up) == ("main", True, True)
    assert (main.time_limit_s, main.default_time_s) == (86400, 1800)
    assert (main.least_nodes, main.most_nodes) == (1, 16)
    assert (main.nodes, main.idle_cpus, main.cpus_per_node, main.memory_mib_per_node) == (7, 37, 8, 16384)
    assert main.gres == ("gpu:a100:4(S:0-1)", "gpu:4")
    assert dict(main.nodes_by_state) == {"mixed": 2, "idle": 4, "drained": 1}
    assert (debug.is_default, debug.is_up, debug.time_limit_s, debug.default_time_s) == (False, False, None, None)
    assert (debug.most_nodes, debug.nodes) == (None, 4096)


def test_a_node_that_does_not_answer_is_not_free() -> None:
    assert parse_sinfo(_TEXT)[0].idle_nodes == 3


def test_a_job_that_names_two_partitions_waits_in_both() -> None:
    assert count_waiting("main\nmain,debug\nmain\n") == {"main": 3, "debug": 1}
    assert count_waiting("") == {}


@given(st.text(alphabet=st.characters() | st.sampled_from("\x1f\n/*-:0K")))
def test_no_answer_makes_the_reader_fail(text: str) -> None:
    parse_sinfo(text)
    parse_sinfo("\x1f".join([text.replace("\n", "").replace("\x1f", "")] * 11) + "\n")
    count_waiting(text)
