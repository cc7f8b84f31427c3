"""Both ranks print a line every 12 s."""

import time

from pair import compute, done, goes, meet


def train():
    number = 0
    while goes():
        compute(0.02)
        number += 1
        print("step", number, flush=True)
        time.sleep(12)


train()
meet()
done()
