"""What a reader of strange scripts missed: waits, lost failures, unused sizes; each by the shortest script."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from muster_lint.look import lint_source
from muster_lint.read import source_of

_HEAD = "#!/bin/bash\n#SBATCH --time=60\n"
_ONE = _HEAD + "#SBATCH --nodes=1\n#SBATCH --cpus-per-task=4\n"
_SERVE = _ONE + "set -e\nvllm serve m --port $PORT > s.log 2>&1 &\nPID=$!\n"
_ASK = "\npython ask.py\n"

_FOUND = {
    "wait-without-end": (
        ("until", _SERVE + "until curl -s h; do sleep 3; done" + _ASK),
        ("while not", _SERVE + "while ! nc -z localhost $PORT; do\n  echo waiting\n  sleep 1\ndone" + _ASK),
        (
            "a lone break",
            _SERVE + "while true; do\n  if curl -s h; then\n    echo up\n    break\n  fi\n  sleep 2\ndone" + _ASK,
        ),
        ("a code", _SERVE + "while [ \"$(curl -s -o x -w '%{c}' h)\" != 200 ]; do sleep 1; done" + _ASK),
        ("its log", _SERVE + "while ! grep -q complete s.log; do sleep 1; done" + _ASK),
        (
            "a code in a variable",
            _SERVE + "while true; do\n  s=$(curl -s -o x h)\n  [ $s = 200 ] && break\n  sleep 1\ndone" + _ASK,
        ),
        ("in a function", _SERVE + "f() {\n  until curl -s $1; do sleep 1; done\n}\nf h" + _ASK),
        ("a file that nobody here makes", _ONE + "while [ ! -f ready ]; do sleep 1; done" + _ASK),
    ),
}
_SILENT = {
    "wait-without-end": (
        ("a count", _SERVE + "n=0\nuntil curl -s h; do sleep 3; n=$((n+1)); [ $n -gt 50 ] && exit 1; done" + _ASK),
        ("its process", _SERVE + "until curl -s h; do kill -0 $PID || exit 1; sleep 3; done" + _ASK),
        ("its process by ps", _SERVE + "while ! curl -s h; do ps -p $PID || exit 1; sleep 3; done" + _ASK),
        ("a limit around it", _SERVE + 'timeout 600 bash -c "until curl -s h; do sleep 3; done"' + _ASK),
        ("the end of a process", _SERVE + "while kill -0 $PID; do sleep 60; done" + _ASK),
        ("a deadline", _SERVE + "E=$((SECONDS+9))\nuntil curl -s h || [ $SECONDS -gt $E ]; do sleep 3; done" + _ASK),
        ("a lock that goes", _SERVE + "while [ -f lock ]; do sleep 3; done" + _ASK),
        ("a signal", _SERVE + "trap 'exit 1' CHLD\nuntil curl -s h; do sleep 3; done" + _ASK),
        ("a loop that works", _SERVE + "until curl -s h; do python next.py; sleep 3; done" + _ASK),
    ),
}


def _cases(table: Mapping[str, tuple[tuple[str, str], ...]]) -> list[object]:
    return [pytest.param(rule, text, id=f"{rule}: {name}") for rule, rows in table.items() for name, text in rows]


def _rules(text: str) -> set[str]:
    return {each.rule for each in lint_source(source_of("job.sh", text))}


@pytest.mark.parametrize(("rule", "text"), _cases(_FOUND))
def test_what_a_reader_missed_is_found(rule: str, text: str) -> None:
    assert rule in _rules(text)


@pytest.mark.parametrize(("rule", "text"), _cases(_SILENT))
def test_what_is_right_is_not_blamed(rule: str, text: str) -> None:
    assert rule not in _rules(text)
