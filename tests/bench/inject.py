"""Run by ranks: flips one bit after another in what collectives left, and counts how many the check places rightly."""

import random
import sys

import torch

import muster
from muster_bench.ranks.collectives import COLLECTIVES, Members, make_case, round_count
from muster_bench.ranks.values import PERIOD

DTYPES = ("float32", "float16", "bfloat16", "float64", "int8", "int32", "int64")
WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def flip(buffer: torch.Tensor, index: int, bit: int) -> None:
    """Turn one bit of one element over; done twice nothing has happened."""
    width = 8 * buffer.element_size()
    mask = 1 << bit if bit < width - 1 else -(1 << bit)
    bits = buffer.view(WHOLE[buffer.element_size()])
    bits[index] = int(bits[index]) ^ mask


def main(rounds: int) -> None:
    with muster.world() as world:
        shared, own = random.Random(7), random.Random(world.rank)  # noqa: S311
        members = Members(None, tuple(range(world.size)), world.rank)
        injected = found = 0
        for turn in range(rounds):
            collective = sorted(COLLECTIVES)[turn % len(COLLECTIVES)]
            kind = COLLECTIVES[collective]
            dtype = getattr(torch, DTYPES[turn // len(COLLECTIVES) % len(DTYPES)])
            size = shared.choice((8, 64, 4096, 8 * PERIOD, 1 << 17, (1 << 18) + 8))
            count = round_count(collective, size, world.size, torch.empty(0, dtype=dtype).element_size())
            case = make_case(collective, members, count, dtype, world.device, shared.choice(kind.places) == "in")
            case.run()
            clean = case.wrong()
            if clean.number:
                raise SystemExit(f"{collective} {dtype} {count}: {clean} without an injection")
            last = case.output.numel() - 1
            for index in (0, last, own.randint(0, last), own.randint(0, last)):
                bit = own.randrange(8 * case.output.element_size())
                flip(case.output, index, bit)
                wrong = case.wrong()
                flip(case.output, index, bit)
                injected += 1
                found += wrong.number == 1 and (wrong.first == index)
        world.barrier()
        sys.stdout.write(f"injected {injected} found {found}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
