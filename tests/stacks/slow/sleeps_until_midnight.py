"""Both ranks sleep until a time of the day."""

import time

from pair import SECONDS, done, meet


def wait_for_night():
    time.sleep(SECONDS)


wait_for_night()
meet()
done()
