"""The table of a sweep: what is in the file is what the rows have, or the line that is wrong is named."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.errors import RequestError, UnknownName
from muster.look.table import read_table


def read(folder: Path, content: str | bytes) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    (folder / "t.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    table = read_table("t.csv", str(folder))
    return table.columns, table.rows


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("lr,seed\n0.1,1\n0.2,2\n", (("0.1", "1"), ("0.2", "2"))),
        ("lr, seed\r\n0.1, 1\r\n", (("0.1", "1"),)),
        (b"\xef\xbb\xbflr,seed\n0.1,1", (("0.1", "1"),)),
        ('lr,seed\n"a, ""b""","x\ny"\n', (('a, "b"', "x\ny"),)),
        ("lr,seed\n\n,\n\n", (("", ""),)),
        ("lr,seed\nü,$(id) 'x'\n", (("ü", "$(id) 'x'"),)),
        # Only a line feed ends a line: these are letters of a value to a table, though not to Python's splitlines.
        ("lr,seed\na\x0bb,c\u2028d\x85\n", (("a\x0bb", "c\u2028d\x85"),)),
    ],
)
def test_a_value_is_what_stands_in_the_file(tmp_path: Path, content: str | bytes, rows: object) -> None:
    assert read(tmp_path, content) == (("lr", "seed"), rows)


@given(
    st.lists(
        st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=2, max_size=2),
        min_size=1,
    )
)
def test_what_pythons_own_writer_writes_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    file = tmp_path_factory.mktemp("t") / "t.csv"
    with file.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([["a", "b"], *rows])
    assert read_table("t.csv", str(file.parent)).rows == tuple(map(tuple, rows))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "the file is empty"),
        ("\n\n", "the file is empty"),
        ("lr,seed\n", "it names columns, but no row follows"),
        ("lr,lr\n1,2\n", "t.csv:1: there are two columns lr"),
        ("lr,\n1,2\n", "t.csv:1: '' cannot be a column"),
        ("learning rate\n1\n", "t.csv:1: 'learning rate' cannot be a column"),
        ("lr;seed\n1;2\n", "t.csv:1: the columns are separated by ';'"),
        ("0.1,1\n0.2,2\n", "t.csv:1: '0.1' cannot be a column"),
        ("job_id\n1\n", "t.csv:1: {job_id} is filled in by every job"),
        ("lr,seed\n1,2\n3\n", "t.csv:3: the line has 1 value, but there are 2 columns: lr, seed"),
        ("lr,seed\n1,2,3\n", "t.csv:2: the line has 3 values"),
        ('lr,seed\n"a\nb",1\n1\n', "t.csv:4: the line has 1 value"),
        ('lr,seed\n"a,1\n', "t.csv:2: this is not CSV"),
        (b"lr\n1\n\xff\n", "t.csv:3: this is not UTF-8"),
        ("lr\n1\0\n", "t.csv:2: it holds a NUL byte"),
    ],
)
def test_a_table_that_is_not_right_is_refused_with_the_line(
    tmp_path: Path, content: str | bytes, sentence: str
) -> None:
    with pytest.raises(RequestError) as refused:
        read(tmp_path, content)
    assert sentence in refused.value.message
    assert refused.value.hint


def test_a_file_that_is_not_there_is_named_with_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "grid.csv").write_text("a\n1\n")
    with pytest.raises(UnknownName, match=r"grdi\.csv") as near:
        read_table("grdi.csv", str(tmp_path))
    assert "grid.csv" in str(near.value.hint)
    with pytest.raises(RequestError, match="is a directory"):
        read_table(".", str(tmp_path))
