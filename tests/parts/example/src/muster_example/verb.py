"""muster hello: print a greeting."""

from __future__ import annotations

from muster.cli.command_line import CommandLine, Words


def main(words: Words) -> int:
    """Print a greeting."""
    print(f"hello, {words.first or 'you'}")
    return 0


COMMAND = CommandLine(name="hello", start=main, summary="Print a greeting.", operands="[NAME]", most=1)
