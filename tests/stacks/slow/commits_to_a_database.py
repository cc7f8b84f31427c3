"""Rank 0 commits a row every 4 s."""

import sqlite3
import time

from pair import RANK, done, goes, meet


def store():
    base = sqlite3.connect("rows.db")
    base.execute("create table if not exists t (n)")
    while goes():
        base.execute("insert into t values (1)")
        base.commit()
        time.sleep(4)


if RANK == 0:
    store()
meet()
done()
