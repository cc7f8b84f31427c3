"""Both ranks sum numbers in C for 20 ms every 10 s."""

import time

from pair import done, goes, meet


def train():
    while goes():
        sum(range(1000000))
        time.sleep(10)


train()
meet()
done()
