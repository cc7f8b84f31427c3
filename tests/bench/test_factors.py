"""The bus-bandwidth factors are those of nccl-tests, exactly, for 1 to 1024 ranks."""

from collections.abc import Callable

import pytest

from bench.results import row
from muster.errors import UnknownName
from muster_bench.factors import COLLECTIVES, bus_factor

# As the document of nccl-tests writes them: (numerator, denominator) for n ranks.
PUBLISHED: dict[str, Callable[[int], tuple[int, int]]] = {
    "all_reduce": lambda n: (2 * (n - 1), n),
    "all_gather": lambda n: (n - 1, n),
    "reduce_scatter": lambda n: (n - 1, n),
    "all_to_all": lambda n: (n - 1, n),
    "broadcast": lambda n: (1, 1),
    "send_recv": lambda n: (1, 1),
}


def test_every_collective_has_a_published_factor() -> None:
    assert set(PUBLISHED) == set(COLLECTIVES)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_factors_equal_the_published_ones_for_1_to_1024_ranks(collective: str) -> None:
    for ranks in range(1, 1025):
        above, below = PUBLISHED[collective](ranks)
        factor = bus_factor(collective, ranks)
        assert factor.numerator * below == above * factor.denominator


def test_a_factor_of_0_gives_no_bandwidth_instead_of_0() -> None:
    from msgspec.structs import replace

    alone = replace(row(10, 1, 2, 1 << 20), ranks=1)
    assert alone.busbw_gb_s is None
    assert alone.algbw_gb_s > 0


def test_an_unknown_collective_is_named() -> None:
    with pytest.raises(UnknownName, match="allreduce"):
        bus_factor("allreduce", 2)
