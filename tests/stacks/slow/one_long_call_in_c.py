"""Rank 0 is in one call of a C library; rank 1 waits."""

import hashlib
import os

from pair import RANK, SECONDS, done, meet


def derive():
    hashlib.pbkdf2_hmac("sha256", b"key", b"salt", int(4e5 * SECONDS))


os.nice(10)
if RANK == 0:
    derive()
meet()
done()
