"""The checkpoints of a job, and how its ranks are told to save: what is looked for, told and written down.

Standard library only, Python 3.6.
"""

import os
import signal
import sys
import time
from threading import Lock
from typing import Callable, Dict, List, Optional, Sequence

from muster.life import asking
from muster.life.rules import Rules
from muster.life.written import RunFiles

_SEARCH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "rank", "checkpoint.py")
_SEARCH_S = 50.0
FIRST_SEARCH_S = 600.0
"""Ranks that are told of no checkpoint may begin from nothing: before the first start a slow disk gets more time."""

_ASK_S = 60.0
_WORDS = {
    "cancel": "before it was cancelled", "limit": "before the time limit", "preemption": "on preemption",
    "asked": "when asked to",
}  # fmt: skip


class Saves:
    """What a job with checkpoints, or with ranks that save before its end, knows of them."""

    def __init__(self, rules: Rules, files: RunFiles, say: Callable[[str], None]) -> None:
        self._rules, self._files, self._say = rules, files, say
        self.rule = bool(rules.save_s)
        self.checkpoint = ""
        """The newest whole checkpoint, as `TIME PATH`; empty: there is none."""
        self.searched = False
        """Whether the folder was there, and could be searched."""
        self.is_asked = False
        """Whether ranks that have not begun are to be told."""
        self.saved_words = ""
        self._end: Optional[float] = None
        self._asked_at = 0.0
        self._text = self._lacked = ""
        self._told_at: Optional[float] = None
        self._searches, self._tells = Lock(), Lock()

    def begin(self) -> None:
        """Ask when the job's time is over."""
        if not self.rule:
            return
        try:
            # Muster may be another version, or elsewhere, when the ranks are to save.
            self._text = asking.node_text("processes", self._rules.signals)
        except OSError as error:
            self._say("muster: warning: no rank can be told to save: %s" % error)
        self._ask_end()

    def _ask_end(self) -> None:
        answer = asking.ask_job(self._rules.job)
        self._asked_at = time.monotonic()
        self._end = None if answer is None else answer.end

    def find_time(self, began: float) -> Optional[float]:
        """Return when the clock tells the ranks to save, in seconds since `began`; None: the clock does not."""
        if not (self.rule and self._rules.by_clock) or self._told_at is not None or self._end == 0:
            return None
        if self._end is None:  # Slurm has not answered yet
            return self._asked_at + _ASK_S - began
        left = float(self._end - self._rules.save_s - time.time())
        return max(0.0, left) + time.monotonic() - began

    def is_due(self, now: float, began: float) -> bool:
        """Return whether the time has come; a limit that was moved is asked for again."""
        at = self.find_time(began)
        if at is None or at > now + 0.5:
            return False
        if self._end is None:
            self._ask_end()
            return False
        answer = asking.ask_job(self._rules.job)
        if answer is not None and answer.end - self._rules.save_s > time.time() + 1:
            self._end = answer.end
            return False
        self._told_at = now
        return True

    def environment(self, checkpoint: str) -> Dict[str, str]:
        """Return what each rank is told of it."""
        values: Dict[str, str] = {}
        if self._rules.checkpoint:
            values["MUSTER_CHECKPOINT"] = checkpoint.partition(" ")[2]
        if self.rule:
            values["MUSTER_SAVE_RUN"] = self._run()
            values["MUSTER_END"] = str(int(self._end)) if self._end else ""
        return values

    def _run(self) -> str:
        return "%s.%d" % (self._rules.job, os.getpid())

    def search(self, patience_s: float = _SEARCH_S) -> Optional[str]:
        """Return the newest whole checkpoint; empty: there is none; None: that is not known.

        A newer one that is half written is named and passed over.
        """
        folder = self._rules.checkpoint
        looks = [os.path.join(self._files.folder, "looks")] if self._files.folder else []
        self.searched = False
        if not os.path.exists(folder):
            # A disk that is away has no checkpoint to show: an empty folder was one that nobody has made yet.
            if not self.checkpoint and self._files.lines("looks") in ([], ["{}"]):
                return ""
            self._lack("%s is not there, and had checkpoints before" % folder)
            return None
        with self._searches:
            search = asking.run([sys.executable, "-I", "-S", _SEARCH, folder, *looks], patience_s)
        if search.status != 0:
            self._lack("%s cannot be searched" % folder)
            return None
        self.searched, self.checkpoint, self._lacked = True, "", ""
        for line in search.out.splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "half":
                self._say("muster: the checkpoint %s; it is passed over" % rest)
            elif kind == "whole":
                self.checkpoint = rest
        return self.checkpoint

    def _lack(self, words: str) -> None:
        """Say why the newest checkpoint is not known, once."""
        if words != self._lacked:
            self._say("muster: warning: " + words)
        self._lacked = words

    def told_by_slurm(self, is_preempted: bool, told: int) -> str:
        """Return the reason where Slurm itself has told the ranks: it sends SIGTERM to all processes that it ends."""
        if is_preempted:
            self.saved_words = "the job was preempted"
            return "preemption"
        if told == 143:
            self.saved_words = "the job was told to end"
            return "ended"
        return ""

    def tell_ranks(self, hosts: Sequence[str], attempt: int, runs: Callable[[], bool]) -> str:
        """Tell the ranks to save; return the reason where one handles the signal, and write down how many did."""
        number = int(getattr(signal, "SIG" + self._rules.save_signal))
        words = asking.on_nodes(hosts, "/bin/sh", "-c", self._text, "muster", self._run(), str(number))
        ranks = told = 0
        counts: List[List[str]] = []
        with self._tells:
            # Ranks that have just started may have no handler yet.
            for pause in (1, 2, 4, 8, 0):
                answer = asking.run(words, 60.0)
                counts = [line.split()[1:3] for line in answer.out.splitlines() if line.startswith("@told ")]
                ranks, told = (sum(int(count[place]) for count in counts) for place in (0, 1))
                if told or not runs():
                    break
                time.sleep(pause)
        reason = self._reason()
        if told:
            sentence = "%d of %d ranks got SIG%s %s" % (told, ranks, self._rules.save_signal, _WORDS[reason])
            self.saved_words = sentence
            self._say("muster: " + sentence)
        elif not counts:
            sentence = "no node answered: no rank is known to have been told to save %s" % _WORDS[reason]
            error = next(iter(answer.errors.splitlines()), "")
            self._say("muster: warning: %s%s" % (sentence, " (%s)" % error if error else ""))
        else:
            name = self._rules.save_signal
            sentence = "no rank handles SIG%s: none was told to save %s" % (name, _WORDS[reason])
            hint = "the script has to set a handler for SIG%s, or --save-signal names another signal" % name
            self._say("muster: warning: %s\n\nhint: %s" % (sentence, hint))
        self._files.add("saves", attempt, int(time.time()), reason, ranks, told, self._rules.save_signal, sentence)
        return reason if told else ""

    def _reason(self) -> str:
        """Return why: the job is to be cancelled, or preempted, or its time comes to an end, or somebody asked."""
        # muster cancel --save leaves this file.
        if self._rules.run and os.path.exists(os.path.join(self._rules.run, "cancel")):
            return "cancel"
        answer = asking.ask_job(self._rules.job)
        if answer is not None and answer.preempted:
            return "preemption"
        is_near = answer is not None and answer.end and answer.end - time.time() <= self._rules.save_s + 90
        return "limit" if is_near else "asked"
