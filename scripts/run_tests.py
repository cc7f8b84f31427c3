"""`make test`: all tests in six processes beside each other, each with its folders and labs, and lint beside them.

    scripts/run_tests.py [--fast] [WORDS FOR PYTEST…]

`--fast`: the tests that need no cluster and no torch.

What fails in a shard runs once more there, after its other tests: real daemons on a busy machine miss a moment now and
then. What fails twice has failed. The last line counts all tests.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".cache" / "test-logs"
# The logs end with the slowest tests: that is where a shard's time went.
TESTS = [sys.executable, "-m", "pytest", "--durations=40"]
EVERYTHING = "not long and not versions and not gpu"
FAST = f"{EVERYTHING} and not lab and not torch and not wide and not programs"

# pytest keeps the tests that it has compiled: five seconds of a core in each later run.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

# Shard → folders. A test over a lab waits more than it computes, so more shards than cores end sooner, and the longest
# shard decides. A folder that is named nowhere belongs to the last.
SHARDS: Mapping[str, Sequence[str]] = {
    "launch": ("launch", "act"),
    "ranks": ("rank", "stage", "bench", "plan", "render", "images", "port"),
    "lab": ("lab", "check", "stacks"),
    "life": ("life", "follow", "rehearse"),
    "sites": ("sites", "survey", "policy", "finish"),
    "rest": (),
}
# These compute, but for two that wait for processes. Each takes three seconds of a core for itself: it loads pytest,
# Muster, and all profiles.
FAST_SHARDS: Mapping[str, Sequence[str]] = {
    "house": ("architecture", "cli", "api", "plan", "check"),
    "sites": ("sites", "lint", "policy", "slurm", "survey", "unit", "job"),
    "waits": ("act", "life"),
    "ends": ("finish", "stage", "port"),
    "rest": (),
}


def main(words: Sequence[str]) -> int:
    """Exit status: 0 if lint and every shard passed."""
    LOGS.mkdir(parents=True, exist_ok=True)
    fast = "--fast" in words
    groups = FAST_SHARDS if fast else SHARDS
    words = ["-m", FAST if fast else EVERYTHING, *(word for word in words if word != "--fast")]
    began = time.monotonic()
    with ThreadPoolExecutor() as beside:
        work: dict[Future[int], str] = {beside.submit(run_logged, "lint", ["make", "lint"]): "lint"}
        for name, folders in folders_of_shards(groups).items():
            work[beside.submit(run_shard, name, folders, words)] = name
        statuses = {work[done]: told(work[done], done.result()) for done in as_completed(work)}
    counts = sum((counts_in(log(name).read_text(errors="replace")) for name in groups), Counter[str]())
    print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if any(statuses.values()) else 0


def folders_of_shards(groups: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Shard → the folders of its tests, from the root."""
    named = {folder for folders in groups.values() for folder in folders}
    found = sorted({test.parent.name for test in (ROOT / "tests").glob("*/test_*.py")})
    return {
        name: [f"tests/{each}" for each in folders or (each for each in found if each not in named)]
        for name, folders in groups.items()
    }


def run_shard(name: str, folders: Sequence[str], words: Sequence[str]) -> int:
    """Run a shard, and what failed of it once more with new labs; return its exit status."""
    tests = [*TESTS, "-o", f"cache_dir=.pytest_cache/{name}", *words, *folders]
    status = run_logged(name, tests)
    if status == 1:
        status = run_logged(name, [*tests, "--last-failed", "--last-failed-no-failures=none"], mode="ab")
    return status


def run_logged(name: str, argv: Sequence[str], mode: str = "wb") -> int:
    """Run a program to its end, its words in a log; its exit status."""
    with log(name).open(mode) as words:
        process = subprocess.Popen(
            argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=words, stderr=subprocess.STDOUT, env=ENVIRONMENT
        )
    _running.append(process)
    return process.wait()


_running: list[subprocess.Popen[bytes]] = []


def end_all(*_: object) -> None:
    """Tell every shard to end: it takes its labs with it."""
    for process in _running:
        process.terminate()


def log(name: str) -> Path:
    """The file that takes what a shard says."""
    return LOGS / f"{name}.log"


def told(name: str, status: int) -> int:
    """Print a shard's summary lines, and all that it said where it failed; its status."""
    text = log(name).read_text(errors="replace")
    print(f"--- {name}: {f'failed with status {status}' if status else 'passed'}")
    print("\n".join(_summaries(text)) if not status else text, flush=True)
    return status


def _summaries(text: str) -> list[str]:
    """pytest's own last lines: one for the run, one more where something ran again."""
    summary = re.compile(r"=* ?\d+ (passed|failed|skipped|errors?|deselected).* in \d")
    return [line for line in text.splitlines() if summary.match(line)]


def counts_in(text: str) -> Counter[str]:
    """What passed, failed and was skipped in the end; a shard without a summary counts as one that failed."""
    runs = [
        Counter({word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", line)})
        for line in _summaries(text)
    ]
    if not runs:
        return Counter(failed=1)
    at_first, at_last = (run["failed"] + run["error"] for run in (runs[0], runs[-1]))
    return Counter(passed=runs[0]["passed"] + at_first - at_last, failed=at_last, skipped=runs[0]["skipped"])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end_all)
    # A parent may have told us to ignore these; the tests' own programs would inherit that and be deaf to theirs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    sys.exit(main(sys.argv[1:]))
