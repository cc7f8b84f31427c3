"""Both ranks work for 5 ms every 2 s."""

import time

from pair import compute, done, goes, meet


def step():
    while goes():
        compute(0.005)
        time.sleep(2)


step()
meet()
done()
