"""The links of a job that goes on in further jobs: each is queued by the one before, and waits for its end.

RUN/links has one line for each link: its number, its job, and when it was queued. RUN/over says that nothing is left to
do. "sbatch FILE link N RUN" queues link N. Standard library only, Python 3.6.
"""

import os
import re
import time
from threading import Event, Thread
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from muster.life import asking, told
from muster.life.loop import start_aside
from muster.life.rules import Rules
from muster.life.written import RunFiles

_ARRAY = ("COUNT", "MIN", "MAX", "STEP")


class LinkChain:
    """This link, and the next one; a job without links has none of it."""

    def __init__(
        self, rules: Rules, files: RunFiles, environment: Mapping[str, str], say: Callable[[str], None]
    ) -> None:
        self._rules, self._files, self._environment, self._say = rules, files, environment, say
        self.job_before = ""
        self.own_word = rules.own if rules.links else ""
        self._queueing: Optional[Thread] = None
        self._is_needless = Event()

    def claim(self) -> str:
        """Return why nothing is left to do: two jobs never are the same link; empty: this one is it."""
        over = self._files.over()
        if over:
            return over
        job = self._files.claim("link-%d" % self._rules.link, self._rules.own)
        return "" if job == self._rules.own else "link %d is job %s" % (self._rules.link, job)

    def before(self) -> str:
        """Return what the last attempt of the links before wrote down of its end; keep which job that was."""
        others = [(number, job) for number, _, job in self._files.attempts() if job != self._rules.own]
        if not others:
            self.job_before = self._files.links().get(self._rules.link - 1, "")
            return ""
        last, self.job_before = others[-1]
        return self._files.decision(last)

    def begin(self) -> None:
        """Write down that this job is this link, and keep what later links need."""
        rules = self._rules
        self._files.note_link(rules.link, rules.own)
        if rules.task and rules.link == 1:
            names = ["SLURM_ARRAY_TASK_" + name for name in _ARRAY]
            self._files.put("array", "".join("%s=%s\n" % (name, self._environment.get(name, "")) for name in names))
        if not rules.ahead and not os.path.exists(self._script()):
            try:
                with open(rules.file, encoding="utf-8", errors="surrogateescape") as file:
                    self._files.put("job.sh", file.read())
            except OSError:
                pass

    def environment(self) -> Dict[str, str]:
        """Return what the first link said of the whole array: a later link is an array of one task."""
        if not (self._rules.links and self._rules.task and self._rules.link > 1):
            return {}
        return dict(line.partition("=")[::2] for line in self._files.lines("array") if "=" in line)

    def _script(self) -> str:
        whole = re.sub(r"/task-[^/]*$", "", self._rules.run) + "/job.sh"
        return whole if os.path.exists(whole) else os.path.join(self._rules.run, "job.sh")

    def note_end_of_link_before(self, state: str) -> None:
        """Write down how the last attempt of the link before ended: it could not do so itself."""
        goes_on = state in ("", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "COMPLETED")
        last = self._files.last_attempt(self.job_before)
        if not goes_on or last is None:
            return
        began = next((row[1] for row in self._files.rows("attempts") if row[0] == str(last) and len(row) > 1), "0")
        cause = "job %s ended (%s)" % (self.job_before, state or "Slurm does not say how")
        self._files.add("ends", last, began, int(time.time()), 143, "", "", "next", cause, "the job goes on", "", "")

    # The next link

    def queue_next(self) -> None:
        """Queue the next link, unless it is queued; at the end of this one a try that had no answer is looked after."""
        if self._rules.ahead or self._next():
            return
        if self._queueing is None:
            self._queueing = start_aside(self._queue, "new", (10, 20, 40, 80, 160))
            return
        self._stop_queueing()
        if not self._next():
            self._is_needless.clear()
            self._queue("look", (5, 10))

    def withdraw_next(self) -> None:
        """Cancel the next link, if it is queued."""
        self._stop_queueing()
        job = self._next()
        if job:
            asking.run(["scancel", "--quiet", job], 30.0)

    def _stop_queueing(self) -> None:
        self._is_needless.set()
        if self._queueing is not None:
            self._queueing.join(130)

    def _next(self) -> str:
        return self._files.links().get(self._rules.link + 1, "")

    def _queue(self, first_try: str, pauses: Any) -> None:
        """Queue it. new: nobody has tried; look: an earlier try may have had no answer, and the controller the job."""
        rules, mode, left = self._rules, first_try, list(pauses)
        next_link = rules.link + 1
        while True:
            answer = self._find() if mode == "look" else ""
            answer = answer or self._submit(next_link)
            name = re.search(r"^([0-9]+)(;.*)?$", answer, re.MULTILINE)
            if name:
                self._files.note_link(next_link, name.group(1) + ("_" + rules.task if rules.task else ""))
                return
            if answer.strip() and not re.search("ontact|imed out|emporarily", answer):
                left = []
            if not left:
                words = answer.strip() or "sbatch did not answer"
                self._say("muster: warning: the next link of this job is not queued: " + words)
                return
            if self._is_needless.wait(left.pop(0)):
                return
            mode = "look"

    def _submit(self, link: int) -> str:
        rules, script = self._rules, self._script()
        words = ["sbatch", "--parsable", "--dependency=afterany:" + rules.own, "--open-mode=append"]
        words += ["--array=" + rules.task] if rules.task else []
        try:
            with open(script, encoding="utf-8", errors="replace") as file:
                has_output = any(line.startswith("#SBATCH") and " --output" in line for line in file)
        except OSError as error:
            return str(error)
        words += [] if has_output else ["--output=%s/logs/batch.log" % rules.run]
        environment = {
            name: value for name, value in self._environment.items()
            if name == "SLURM_CONF" or not name.startswith(("SLURM_", "SBATCH_", "MUSTER_"))
        }  # fmt: skip
        place = self._environment.get("SLURM_SUBMIT_DIR", "")
        answer = asking.run([*words, script, "link", str(link), rules.run], 60.0, environment, place)
        return answer.out + answer.errors

    def _find(self) -> str:
        """Return the job that waits for the end of this one and has the same name and comment."""
        answer = asking.run(["squeue", "--me", "--noheader", "--format=%A|%i|%j|%k|%E"], 60.0).out
        likeness: Dict[str, str] = {}
        waiting: List[str] = []
        for line in answer.splitlines():
            fields = line.split("|")
            if len(fields) < 5:
                continue
            likeness[fields[0]] = fields[2] + "|" + fields[3]
            if fields[4].startswith("afterany:%s(" % self._rules.own):
                waiting.append(fields[0])
        likeness_of_job = likeness.get(self._rules.job, "")
        alike = sorted(int(job) for job in waiting if likeness[job] == likeness_of_job and job.isdigit())
        return str(alike[0]) if alike else ""

    # What Slurm wrote

    def is_cancelled(self, output: str) -> bool:
        """Return whether somebody cancelled this job: Slurm says so in the job's own output, and adds no reason."""
        mark = re.compile(r"JOB %s ON \S* CANCELLED AT \S* \*\*\*" % self._rules.job)
        return any(mark.search(line) for line in told.read_end(output))

    def reason_of_slurm(self, output: str, hosts: Sequence[str] = ()) -> str:
        """Return why Slurm ended this job, in words; empty: it does not say. Slurm's line names no failed node."""
        mark = re.compile(r"JOB %s ON \S* CANCELLED AT" % self._rules.job)
        lines = [line for line in told.read_end(output) if mark.search(line)]
        last = lines[-1] if lines else ""
        if "DUE TO TIME LIMIT" in last:
            return "the time limit was reached"
        if "DUE TO NODE FAILURE" in last:
            return "%s failed" % (", ".join(asking.ask_down(hosts)) or "a node of the job")
        return "it was preempted" if "DUE TO PREEMPTION" in last else ""

    def close(self, why: str) -> None:
        """Write down that the job is over, for good."""
        if self._rules.links and not self._files.has("over"):
            self._files.put("over", why + "\n")
