"""Whether what a client of Slurm says is an answer of its daemon at all. Pure."""

from __future__ import annotations

import re

# 20.11 to 26.05: the words of the clients, for a daemon or a munge that they did not reach or did not understand.
_SILENT = (
    r"(?i)Unable to contact slurm|[Ss]ocket timed out|Connection (?:refused|timed out|reset)|No route to host"
    r"|Zero Bytes were transmitted|Insane message length|authentication error|[Mm]unge (?:encode|decode) failed"
    r"|cannot find auth plugin|Incompatible versions of client and server|controller in standby"
    r"|Message (?:send|receive) failure"
    r"|Unable to resolve|Unknown host|rate limit exceeded|Communication (?:connection failure|shutdown)"
    r"|Transport endpoint is not connected|Network is unreachable|Problem talking to the database"
    r"|resource temporarily unavailable"
)


def is_silent(stderr: str) -> bool:
    """Return whether a client says that its daemon did not answer."""
    return bool(re.search(_SILENT, stderr))


def last_words(status: int, stderr: str) -> str:
    """Return how a client ended, with the last line that it said: "ended with status 1: Connection refused"."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    ending = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    return f"{ending}: {lines[-1][:300]}" if lines else f"{ending}, without a word"
