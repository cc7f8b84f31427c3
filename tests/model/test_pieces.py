"""Guards that Open MPI's pieces of lines become the lines that the ranks wrote, however they were cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.pieces import Pieces

TEXT = st.text(st.characters(codec="ascii", exclude_characters="\r\n[]"), max_size=12).map(str.encode)


def joined(stream: bytes, *, chunk: int = 7) -> bytes:
    pieces = Pieces()
    parts = [pieces.feed(stream[at : at + chunk]) for at in range(0, len(stream), chunk)]
    return b"".join([*parts, pieces.end()])


@pytest.mark.parametrize(
    ("stream", "lines"),
    [
        (b"[1,3]<stdout>:hello\n", b"3: hello\n"),
        (b"[1,3]<stdout>:hello[1,3]<stdout>: world[1,3]<stdout>:\n", b"3: hello world\n"),
        (b"[1,0]<stdout>:a[1,1]<stdout>:b\n[1,0]<stdout>:c\n", b"1: b\n0: ac\n"),
        (b"[1,12]<stderr>: [0]: indented\n", b"12:  [0]: indented\n"),
        (b"mpirun's own words, with [1,3]<stdout>: in them\n", b"mpirun's own words, with [1,3]<stdout>: in them\n"),
        (b"[3] MPICH's\n3: srun's\n", b"[3] MPICH's\n3: srun's\n"),
        (b"[1,0]<stdout>:a[1,0]<stderr>:b\n[1,0]<stdout>:c\n", b"0: b\n0: ac\n"),
        (b"[1,2]<stdout>:no end", b"2: no end\n"),
        (b"[1,2]<stdout>:never[1,1]<stdout>:x\n", b"1: x\n2: never\n"),
    ],
)
def test_what_open_mpi_cut_is_whole_again(stream: bytes, lines: bytes) -> None:
    assert joined(stream) == lines


@given(pieces=st.lists(st.tuples(st.integers(0, 3), TEXT, st.booleans()), max_size=30), chunk=st.integers(1, 50))
def test_every_rank_gets_back_what_it_wrote(pieces: list[tuple[int, bytes, bool]], chunk: int) -> None:
    wrote = dict.fromkeys(range(4), b"")
    stream = b""
    for rank, text, ends in [*pieces, *((rank, b"end", True) for rank in range(4))]:
        wrote[rank] += text + b"\n" * ends
        stream += b"[1,%d]<stdout>:" % rank + text + b"\n" * ends
    read = dict.fromkeys(range(4), b"")
    for line in joined(stream, chunk=chunk).splitlines(keepends=True):
        label, _, said = line.partition(b": ")
        read[int(label)] += said
    assert read == wrote


def test_a_line_that_never_ends_does_not_fill_the_memory() -> None:
    pieces = Pieces()
    assert pieces.feed(b"[1,0]<stdout>:" + b"x" * (1 << 21)).startswith(b"0: xxx")
