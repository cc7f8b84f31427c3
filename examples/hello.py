"""Say hello from every rank, and prove that the ranks reach each other: the first thing to run on a new cluster.

    python hello.py                                        one process
    muster run --ntasks-per-node 4 python hello.py         four ranks on this machine, or in this allocation
    muster run -N 2 -g 4 python hello.py                   two nodes with four GPUs each

A hello world that only prints proves that processes start. This one sends data around: a sum whose result is known,
over all ranks and within each node. `muster.world()` has by then also checked that no two ranks share a GPU.
"""

import torch
import torch.distributed as dist

import muster


def main() -> None:
    with muster.world() as world:
        world.describe()  # who is where, and every variable that changes how ranks speak to each other

        # Your own program goes here. Tensors belong on world.device; dist is plain torch.distributed.
        number = torch.tensor([float(world.rank)], device=world.device)
        dist.all_reduce(number)
        on_node = torch.ones(1, device=world.device)
        dist.all_reduce(on_node, group=world.node_group)

        expected = world.size * (world.size - 1) / 2
        if number.item() != expected or on_node.item() != world.local_size:
            raise SystemExit(f"rank {world.rank}: the sum of all ranks is {number.item():g}, not {expected:g}")
        world.barrier()
        world.print(f"hello: every rank was heard (ranks: {world.size}, hosts: {world.nodes})")


if __name__ == "__main__":
    main()
