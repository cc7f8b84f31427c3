"""How the text of a help page is laid out."""

from __future__ import annotations

from muster.cli.help_page import _wrapped


def test_an_empty_line_stands_between_paragraphs_and_an_example_keeps_its_shape() -> None:
    text = "One two three\nfour.\n\nFive:\n    muster run x\n    muster run y\nsix"

    assert list(_wrapped(text, 14)) == [
        "One two three",
        "four.",
        "",
        "Five:",
        "    muster run",
        "    x",
        "    muster run",
        "    y",
        "six",
    ]
