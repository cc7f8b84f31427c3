"""Rank 0 works for 3 ms every 3 s in an event loop."""

import asyncio

from pair import RANK, compute, done, goes, meet


async def serve():
    while goes():
        compute(0.003)
        await asyncio.sleep(3)


if RANK == 0:
    asyncio.run(serve())
meet()
done()
