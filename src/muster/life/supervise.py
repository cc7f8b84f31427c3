"""Steers one job by the machine of its life: events go in, and what `decide` says is done. Nothing is decided here.

The script of the job becomes this program, so it keeps the script's pid, by which Slurm signals it. It starts the same
script again as "bash FILE attempt NUMBER RUN OWN [LOST]", once for each attempt, in its own process group: Ctrl-C
reaches both, and who ends the group ends all. Standard library only, Python 3.6. The file is long:
events and actions each have a method here.
"""

import os
import signal
import time
from threading import Thread
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from muster.life import asking, machine
from muster.life.attempt import RunningAttempt, ScriptEnd
from muster.life.chain import LinkChain
from muster.life.deputy import keep_deputy
from muster.life.loop import ENDINGS, Loop, start_aside, write
from muster.life.machine import FirstCause, LifePhase, LifeState, LifeTerms
from muster.life.rules import Rules
from muster.life.saves import FIRST_SEARCH_S, Saves
from muster.life.written import RunFiles

# An answer that did not come in this time is asked for again by the machine.
_PATIENCE_S = machine.ANSWER_S - 8


class Supervisor(Loop):
    """One link of a job: its attempts, its files, and the machine that decides."""

    def __init__(self, rules: Rules, environment: Mapping[str, str]) -> None:
        super().__init__()
        self.rules = rules
        self.environment = dict(environment)
        self.began = time.monotonic()
        self.files = RunFiles(rules.run if rules.logs else "")
        self.words_of_slurm = _target_of(2)
        self.output = _target_of(1)
        self.log = ""
        self.state = LifeState()
        self.hosts = asking.expand(environment.get("SLURM_JOB_NODELIST", ""))
        self.terms = self._make_terms()
        self.running: Optional[RunningAttempt] = None
        self.lost: Tuple[str, ...] = ()
        self.passed_over: Tuple[str, ...] = ()
        """Nodes that live, and do not see the folder of the run."""
        self.attempt_began = int(time.time())
        self.is_first = True
        self.chain = LinkChain(rules, self.files, environment, self.say)
        self.saves = Saves(rules, self.files, self.say)
        self.deputy: Optional[Thread] = None
        self._acts: Dict[type, Callable[[Any], None]] = {
            machine.StartRanks: self._do_start_ranks,
            machine.EndStep: self._do_end_step,
            machine.AskFor: self._do_ask_for,
            machine.NoteEnd: self._do_note_end,
            machine.QueueNext: lambda _: self.chain.queue_next(),
            machine.WithdrawNext: lambda _: self.chain.withdraw_next(),
            machine.CloseJob: self._do_close_job,
            machine.EndScript: self._do_end_script,
        }

    def _make_terms(self) -> LifeTerms:
        rules = self.rules
        nodes = rules.nodes - rules.spares
        before = self.files.attempts()
        if rules.spares and before:
            # A job that lost a node before it went back into the queue has one node less: its ranks keep theirs.
            nodes = len(asking.expand(before[-1][1])) or nodes
        return LifeTerms(
            ranks=nodes * (1 if rules.agents else rules.tasks),
            nodes=nodes,
            restarts=rules.restarts,
            spares=rules.spares,
            link=rules.link if rules.links else 0,
            links=rules.links,
            checkpoints=bool(rules.checkpoint),
            grace_s=rules.grace_s + (1 if rules.agents else 0),
            is_shared=rules.is_shared,
            hears_all=rules.tells == "srun",
        )

    # Events

    def run(self) -> int:
        """Play the job's life to its end, and return the status of the script."""
        self.listen((*ENDINGS, signal.SIGUSR1), self._hear)
        self._begin()
        while self.status is None:
            self._wait()
        self._finish()
        return self.status

    def tell(self, event: Any) -> None:
        """Give an event to the machine, and do what it says."""
        if self.status is not None:
            return
        self.state, actions = machine.decide(self.terms, self.state, event, time.monotonic() - self.began)
        for action in actions:
            is_done = self.attempt(type(action).__name__, self._acts[type(action)], action)
            if not is_done and isinstance(action, machine.StartRanks):
                self.post(lambda: self.tell(machine.StepEnded(1)))

    def _hear(self, number: int) -> None:
        if number == signal.SIGUSR1:
            self._save()
        else:
            self.tell(machine.ToldToEnd(128 + number))

    def _wait(self, at_most: Optional[float] = None) -> None:
        now = time.monotonic() - self.began
        until = [end_s for end_s in (self.state.until, self.saves.find_time(self.began)) if end_s is not None]
        until.append(now + 60.0 if at_most is None else at_most - self.began)
        self.wait(max(0.0, min(until) - now))
        if self.status is None:
            if self.saves.is_due(time.monotonic() - self.began, self.began):
                self._save()
            self.tell(machine.TimePassed())

    def take(self, text: str) -> None:
        """Tell the machine what the running attempt tells; one that is over says nothing more."""
        number, word, rest = [*text.split(" ", 2), "", ""][:3]
        running = self.running
        if running is None or running.has_ended or number != str(running.attempt):
            return
        for event in running.heard(word, rest):
            self.tell(event)

    # The beginning and the end

    def _begin(self) -> None:
        rules = self.rules
        self.saves.begin()
        checkpoint = self._search_first() if rules.checkpoint else ""
        over = self.chain.claim() if rules.links else ""
        before = self.chain.before() if rules.links and not over else ""
        was_searched = self.saves.searched
        idle = self.files.count_idle_links(rules.link, self.saves.checkpoint) if rules.links and was_searched else 0
        has_begun = self.files.last_attempt(rules.own) is not None
        if rules.links and not over:
            self.chain.begin()
        attempts = self.files.attempts()
        number = attempts[-1][0] + 1 if attempts else 1
        self.tell(machine.LinkBegins(self.hosts, number, over, has_begun, before, checkpoint, idle))

    def _search_first(self) -> Optional[str]:
        """Return the newest whole checkpoint before the first start; None: the disk did not say in ten minutes.

        Meanwhile signals are heard: a job that is told to end waits no longer; ranks are told to save when they run.
        """
        until = time.monotonic() + FIRST_SEARCH_S
        answers: List[str] = []
        # A thread asks: a file system that is away holds even a look at the folder's name.
        self._ask(lambda: self.saves.search(FIRST_SEARCH_S), answers.append, FIRST_SEARCH_S)
        while not answers and not self.state.told and time.monotonic() < until:
            self._wait(until)
        return answers[0] if answers else None

    def _finish(self) -> None:
        if self.running is not None:
            self.running.kill()
        # Ranks that Slurm has ended, and other links, need what was passed on by name.
        is_over = self.state.decision in ("done", "end") or bool(self.files.over())
        if is_over and not self.state.told and self.files.folder:
            try:
                os.unlink(os.path.join(self.files.folder, "passed"))
            except OSError:
                pass

    def say(self, text: str) -> None:
        """Say something where the output of the running attempt goes."""
        try:
            if self.log:
                with open(self.log, "ab") as file:
                    write(file.fileno(), text)
                return
        except OSError:
            pass  # the script of the attempt has not made the folder yet
        write(2, text)

    # Actions of the machine

    def _do_start_ranks(self, action: machine.StartRanks) -> None:
        if self.running is not None:
            self.running.kill()
        self.attempt_began = int(time.time())
        rules = self.rules
        environment = dict(self.environment)
        environment.update(self.chain.environment())
        environment.update(self.saves.environment(action.checkpoint))
        if rules.spares:
            environment.update(_placed(action.hosts, rules.tasks, environment))
            environment.pop("SLURM_NO_KILL", None)
            self._start_deputy()
        if action.beside:
            environment["SLURM_OVERLAP"] = "1"
        words = [rules.file, "attempt", str(action.attempt), rules.run, self.chain.own_word]
        if not self.is_first:
            words.append(" ".join(self.lost))
        self.is_first = False
        if rules.keeps and action.attempt > 1:
            self.log = os.path.join(rules.run, "logs", "attempt-%d" % action.attempt, "batch.log")
        self.saves.saved_words = ""
        self.running = RunningAttempt(action.attempt, action.hosts, rules, self.writer, self.post, self._attempt_ended)
        self.running.start(words, environment)
        if self.saves.is_asked:
            self._save()

    def _attempt_ended(self, running: RunningAttempt, end: ScriptEnd) -> None:
        """Tell the machine what the end of an attempt means."""
        if running is not self.running:
            return
        self.read()
        running.has_ended = True
        if self.saves.rule and not self.state.saved:
            reason = self.saves.told_by_slurm(end.is_preempted, self.state.told)
            if reason:
                self.tell(machine.RanksSave(reason))
        for event in running.events_of_end(end):
            self.tell(event)

    def _do_end_step(self, action: machine.EndStep) -> None:
        first = self.state.first
        is_of_rank = first is None or first.kind in ("rank", "memory") or not (first.words or first.kind)
        # The script itself asks the other ranks to end when one fails.
        if self.running is not None and not (action.by == "TERM" and is_of_rank):
            start_aside(self.running.end, action.by)

    def _do_ask_for(self, action: machine.AskFor) -> None:
        ask = {
            "Slurm": self._ask_slurm,
            "nodes": lambda: self._ask_nodes(action.hosts),
            "disk": self._ask_disk,
            "output": self._ask_output,
            "link before": self._ask_link_before,
        }[action.of]
        attempt = self.state.attempt
        self._ask(ask, lambda event: self.tell(event) if self.state.attempt == attempt else None, _PATIENCE_S)

    def _ask(self, ask: Callable[[], Any], take: Callable[[Any], None], patience_s: float) -> None:
        """Ask in a thread until there is an answer, or the patience is over; the loop takes the answer."""

        def answer() -> None:
            until = time.monotonic() + patience_s
            reply = ask()
            while reply is None and time.monotonic() < until:
                time.sleep(3)
                reply = ask()
            if reply is not None:
                self.post(lambda: take(reply))

        start_aside(answer)

    def _ask_slurm(self) -> Any:
        job = asking.ask_job(self.rules.job)
        if job is None:
            return None
        hosts = asking.expand(job.nodes) if self.rules.spares else self.hosts
        # Slurm looks at its limits every 30 seconds, and starts no step meanwhile in a job whose time is over.
        return machine.SlurmSays(job.state, hosts, 0 < job.end <= time.time(), job.preempted)

    def _ask_nodes(self, hosts: Tuple[str, ...]) -> Any:
        mark = self.running.mark() if self.running is not None else ""
        words = asking.ask_nodes(hosts, mark=mark, folder=self.rules.run if self.rules.spares else "")
        return None if words is None else machine.NodesSay(*words)

    def _ask_disk(self) -> Any:
        checkpoint = self.saves.search()
        return None if checkpoint is None else machine.Newest(checkpoint)

    def _ask_output(self) -> Any:
        return machine.OutputSays(self.chain.is_cancelled(self.words_of_slurm), self.files.over())

    def _ask_link_before(self) -> Any:
        state = asking.ask_old_job(self.chain.job_before)
        if state is not None:
            self.chain.note_end_of_link_before(state)
        return None if state is None else machine.LinkBefore(state.rstrip("+"))

    def _do_note_end(self, action: machine.NoteEnd) -> None:
        """Say what happened and what is done, and write it down: one line in RUN/ends."""
        state, cause = self.state, action.cause or FirstCause("")
        is_well = action.decision in ("done", "saved")
        reason = self.saves.saved_words if state.saved not in ("", "asked") and not state.told else action.why
        running = self.running
        left_out = tuple(host for host in (running.hosts if running else ()) if host not in state.hosts)
        self.lost = tuple(host for host in left_out if host not in state.blind)
        self.passed_over = tuple(host for host in left_out if host in state.blind)
        text = (self.saves.saved_words or action.why) if is_well else self._cause_text(cause)
        text = "" if action.decision == "done" else text
        deed = ("they ended well" if action.decision == "saved" else "") if is_well else self._done_text(action, reason)
        if action.decision == "next" and cause.kind != "node":
            hosts = running.hosts if running else ()
            text = self.chain.reason_of_slurm(self.words_of_slurm, hosts) or text
        if not is_well:
            if running is None:
                self._say_not_started(action, cause, text, reason)
            else:
                self.say("muster: attempt %d ended: %s; %s" % (action.attempt, text, deed))
        kind = cause.kind if cause.kind in ("rank", "node", "unsaid") and not is_well else ""
        status = state.status if is_well or running is None else running.status
        failing = running.failing(cause) if running is not None and not is_well else cause
        rank = "" if failing.rank is None or kind != "rank" else failing.rank
        host = failing.host if kind else ""
        words = failing.words if kind and kind not in ("node", "unsaid") else ""
        self.files.add(
            "ends", action.attempt, self.attempt_began, int(time.time()), status, rank, host, action.decision,
            text, deed, kind, words,
        )  # fmt: skip

    def _cause_text(self, cause: FirstCause) -> str:
        if self.lost and cause.kind != "rank" and (cause.kind or not cause.host):
            return "%s failed" % " ".join(self.lost)
        if self.running is not None:
            return self.running.cause_text(cause)
        idle_words = "link %d and link %d saved nothing" % (self.rules.link - 2, self.rules.link - 1)
        return idle_words if cause.kind == "idle" else "nothing was started"

    def _say_not_started(self, action: machine.NoteEnd, cause: FirstCause, text: str, why: str) -> None:
        """Say why no ranks start; RUN/attempts has a line for it too, which no script writes."""
        self.files.add(
            "attempts", action.attempt, self.attempt_began, self.environment["SLURM_JOB_NODELIST"], "", self.rules.own
        )
        hint = "submit it again"
        if self.state.checkpoint is None and not self.state.told:
            hint = "where %s is gone for good, make it again: the job then begins from nothing" % self.rules.checkpoint
        elif cause.kind == "idle":
            hint = "a longer time limit, or a checkpoint more often, before %s is written within one link"
            hint %= self.rules.checkpoint
        deed = "goes on in its next link" if action.decision == "next" else "does not go on"
        self.say("muster: error: no ranks start, the job %s, %s: %s\n\nhint: %s" % (deed, why, text, hint))

    def _done_text(self, action: machine.NoteEnd, why: str) -> str:
        if action.decision == "again":
            count = "(restart %d of %d)" % (self.state.restarts, self.terms.restarts)
            if not self.lost + self.passed_over:
                return "the same ranks start again " + count
            news = [" ".join(self.lost) + " is lost"] if self.lost else []
            news += [" ".join(self.passed_over) + " does not see the folder of the run"] if self.passed_over else []
            return "%s; the same ranks start again on %s %s" % ("; ".join(news), ",".join(self.state.hosts), count)
        if action.decision == "next":
            return why + "; the job goes on in its next link"
        return ("not started again: " if self.running else "not started: ") + why

    def _do_close_job(self, action: machine.CloseJob) -> None:
        self.chain.close(action.why)
        if action.is_last:
            self.say("muster: %s: the job does not go on" % action.why)

    def _do_end_script(self, action: machine.EndScript) -> None:
        if not self.running and action.status == 0:
            self.say("muster: link %d of the job does nothing: %s" % (self.rules.link, self.state.why))
        self.status = action.status

    # Beside the machine

    def _save(self) -> None:
        """Tell the ranks to save; before there are ranks, as soon as there are."""
        running = self.running
        has_begun = self.state.phase in (LifePhase.RUNS, LifePhase.ENDS_STEP)
        if running is None or running.has_ended or not has_begun:
            self.saves.is_asked = True
            return
        hosts, number = running.hosts, self.state.attempt

        def tell() -> None:
            reason = self.saves.tell_ranks(hosts, number, lambda: not running.has_ended)
            if reason:
                self.post(lambda: self.tell(machine.RanksSave(reason)))

        self.saves.is_asked = False
        start_aside(tell)

    def _start_deputy(self) -> None:
        """Have a deputy on another node: a job with spare nodes outlives the host of its script."""
        others = [host for host in self.hosts if host != self.rules.host]
        if not others or (self.deputy is not None and self.deputy.is_alive()):
            return
        words = asking.on_nodes(
            others[-1:], "/bin/bash", "-c", asking.node_text("deputy"), "muster", self.rules.host, self.output,
            "requeue" if self.rules.may_requeue else "end", self.files.folder, name="muster-deputy",
        )  # fmt: skip
        self.deputy = start_aside(keep_deputy, words, others[-1], self.say)


def _placed(hosts: Sequence[str], tasks: int, environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables of a job that has these nodes alone."""
    names, count = ",".join(hosts), str(len(hosts))
    placed = {"MUSTER_PLACED": "1", "SLURM_JOB_NODELIST": names, "SLURM_NODELIST": names}
    placed.update({"SLURM_JOB_NUM_NODES": count, "SLURM_NNODES": count})
    if environment.get("SLURM_TASKS_PER_NODE"):
        placed["SLURM_TASKS_PER_NODE"] = "%d(x%s)" % (tasks, count)
    return placed


def _target_of(descriptor: int) -> str:
    try:
        return os.readlink("/proc/self/fd/%d" % descriptor)
    except OSError:
        return ""


def main(words: Sequence[str]) -> int:
    """Steer the job that this process stands in."""
    return Supervisor(Rules(words, os.environ), os.environ).run()
