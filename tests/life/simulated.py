"""A simulated Slurm with a training in it, which plays one random order of events against the machine of `muster.life`.

It behaves as Slurm 22.05 does on the lab, not as the machine would like it: srun says 0 for a rank that was lost with
its host; the step of a dead host stands, and its srun too, whatever
signal it gets, until Slurm calls the host down, and it holds the nodes; a scancel while the controller is
away is lost; a killed slurmstepd leaves srun waiting for ever; the script dies with its host, and writes nothing; Slurm
hears of a dead host when SlurmdTimeout is over, often after a peer has failed. It tells what the supervisor tells
(`muster.life.attempt`): under srun each failing task as it fails, under agents the first agent, and the rank and its
words when the step has ended; a status of 0 after counting. What it finds wrong is in `wrong`.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from muster.life import machine
from muster.life.machine import LifeState, LifeTerms, decide

__all__ = ["FAULTS", "World"]

FAULTS = (
    "rank fails", "rank is killed", "host dies", "rank hangs", "rank leaves with 0", "stepd is killed", "cancel",
    "cancel --save", "requeue", "controller away", "batch host dies", "node back", "limit moved", "checkpoint torn",
    "memory is over", "disk away",
)  # fmt: skip
_KILL_WAIT_S = 30.0
_STEPS = 120
# A dead node without a spare: so long Slurm may take to end the job, and one question more.
_STILL_S = 2000.0
_LONGEST_S = 400_000.0


@dataclass
class Rank:
    """One process of the training."""

    number: int
    host: str
    state: str = "runs"
    """runs, done (it said 0), failed, gone (with its host or its slurmstepd)."""

    deaf: bool = False
    stands: bool = False


@dataclass
class Step:
    """One srun, with its ranks."""

    attempt: int
    job: int
    hosts: tuple[str, ...]
    ranks: list[Rank]
    began: float
    first_step: int
    has_ended: bool = False
    status: int = 0
    last_end: float = 0.0
    faults: list[tuple[float, str, int | str]] = field(default_factory=list)
    """When, what, and of which rank or host: the truth."""

    first: machine.RankEnded | None = None
    """The failure that is told first."""

    lost_nodes: list[str] = field(default_factory=list)
    """The nodes of which srun says that they failed."""

    is_over_memory: bool = False


@dataclass
class Job:
    """One job of Slurm: a link, which may be put back into the queue."""

    number: int
    link: int
    hosts: tuple[str, ...] = ()
    state: str = "PENDING"
    limit_at: float = 0.0
    told: bool = False
    is_cancelled: bool = False
    ended_at: float = 0.0
    runs: int = 0
    after: int | None = None


class World:
    """Hosts, jobs, ranks, the shared disk, and the script of the job that runs."""

    def __init__(self, seed: int, decide_: Callable[..., Any] = decide) -> None:
        self.dice = dice = random.Random(seed)
        self.decide = decide_
        self.nodes = dice.randint(1, 3)
        self.per_node = dice.randint(1, 2)
        self.spares = dice.choice((0, 0, 1, 2))
        self.links = dice.choice((0, 0, 3, 6))
        self.restarts = dice.choice((0, 1, 3)) + self.spares
        self.checkpoints = dice.random() < 0.8
        self.saves = dice.random() < 0.6
        self.can_requeue = dice.random() < 0.7
        self.watches = dice.random() < 0.8
        self.hears_all = dice.random() < 0.6
        self.accounts = dice.random() < 0.7
        """Whether Slurm remembers for ever how a job ended."""
        self.has_forgotten = False
        self.talk = dice.random() < 0.7
        self.timeout_s = dice.choice((10.0, 120.0, 300.0))
        self.limit_s = dice.choice((200.0, 600.0, 6000.0))
        self.grace_s = dice.choice((2.0, 10.0, 60.0))
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self.hosts = {f"node{number}": True for number in range(1, self.nodes + self.spares + 3)}
        self.down: set[str] = set()
        self.away_until = 0.0
        self.held: dict[str, set[str]] = {}
        """By dead host: the nodes that a step on that host holds."""
        self.jobs: dict[int, Job] = {}
        self.numbers = count(1)
        self.job: Job | None = None
        self.step: Step | None = None
        self.old_steps: list[Step] = []
        self.state: LifeState | None = None
        self.terms = LifeTerms(1, 1)
        # The shared disk.
        self.attempts: list[tuple[int, int]] = []
        self.ends: dict[int, str] = {}
        self.over = ""
        self.link_jobs: dict[int, int] = {}
        self.progress: dict[int, int] = {}
        """By link: the checkpoint at which it began."""
        self.saved = [0]
        self.disk_away_until = 0.0
        self.is_cancelled = False
        self.user_is_done = False
        self.wrong: list[str] = []
        self.trace: list[str] = []
        self.last_work = 0.0

    # The clock

    def at(self, delay_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay_s, next(self._order), act))

    def say(self, text: str) -> None:
        self.trace.append(f"{self.now:9.1f} {text}")

    def play(self) -> list[str]:
        """Play the order to its end; return what is wrong with it."""
        first = self._queue(1)
        self.at(0, lambda: self._begin(first))
        for _ in range(self.dice.randint(1, 6)):
            self.at(self.dice.choice((5.0, 60.0, 300.0, 900.0)) * self.dice.random(), self._strike)
        while self._events:
            self.now, _, act = heapq.heappop(self._events)
            if self.now > _LONGEST_S:
                self.wrong.append("it stands still: simulated time is over")
                break
            act()
        if self.job is not None or any(job.state == "PENDING" for job in self.jobs.values()):
            self.wrong.append("a job is left over")
        return self.wrong

    # Slurm

    def _queue(self, link: int, after: int | None = None) -> Job:
        job = Job(next(self.numbers), link, after=after)
        self.jobs[job.number] = job
        self.link_jobs[link] = job.number
        return job

    def _free(self) -> list[str]:
        return [host for host, is_up in self.hosts.items() if is_up and host not in self.down]

    def _begin(self, job: Job) -> None:
        """Start a job's script on its nodes; nodes come back, so that it can start."""
        if job.state != "PENDING":
            return
        if self.job is not None or self.now < self.away_until:
            self.at(10, lambda: self._begin(job))
            return
        wanted = self.nodes + self.spares
        while len(self._free()) < wanted:
            self._restore(next(host for host in self.hosts if host not in self._free()))
        job.hosts, job.state, job.told = tuple(self.dice.sample(self._free(), wanted)), "RUNNING", False
        job.runs += 1
        job.limit_at = self.now + self.limit_s
        self.job = job
        self.last_work = self.now
        run = job.runs
        self.say(f"job {job.number} (link {job.link}) runs on {job.hosts}")
        if self.dice.random() < 0.05:
            self._fault_controller_away()
        if self.saves:
            self.at(self.limit_s - 60, lambda: self._near_limit(job, run))
        self.at(self.limit_s, lambda: self._limit(job, run))
        self._begin_script(job)

    def _near_limit(self, job: Job, run: int) -> None:
        if self.job is job and job.runs == run and job.state == "RUNNING":
            self._save("limit")

    def _limit(self, job: Job, run: int) -> None:
        if self.job is job and job.runs == run and job.state == "RUNNING":
            if self.now < job.limit_at or self.now < self.away_until:
                self.at(max(job.limit_at - self.now, 5), lambda: self._limit(job, run))
                return
            self._end_job(job, "TIMEOUT")

    def _end_job(self, job: Job, state: str) -> None:
        """Slurm ends a job: SIGTERM to its steps and its script, and SIGKILL after KillWait."""
        if self.job is not job or job.told:
            return
        job.told = True
        self.say(f"Slurm ends job {job.number}: {state}")
        job.state = "COMPLETING"
        self._signal_step("TERM", by_slurm=True)
        self._tell(machine.ToldToEnd(143))
        self.at(_KILL_WAIT_S, lambda: self._kill_job(job, job.runs, state))

    def _kill_job(self, job: Job, run: int, state: str) -> None:
        if self.job is job and job.runs == run:
            self._signal_step("KILL", by_slurm=True)
            self._leave(job, state)

    def _leave(self, job: Job, state: str) -> None:
        """The job is over for Slurm, or goes back into the queue."""
        # Where nothing may start again, the watch reports, and the ranks stay.
        is_left = (not self.watches or not self.terms.restarts) and any(
            rank.state == "gone" and self.hosts[rank.host] for rank in (self.step.ranks if self.step else ())
        )
        if self.now - self.last_work > _STILL_S and not is_left:
            self.wrong.append(f"job {job.number} stood still for {self.now - self.last_work:.0f} s")
        if self.step is not None:
            # All processes of a job end with it on the hosts that are there.
            for rank in self.step.ranks:
                if rank.state == "runs":
                    rank.state = "gone"
        self.step, self.job, self.state = None, None, None
        self.old_steps.clear()
        self.held.clear()
        if state == "REQUEUED":
            job.state = "PENDING"
            self.say(f"job {job.number} is back in the queue")
            self.at(120, lambda: self._begin(job))
            return
        job.state, job.ended_at = state, self.now
        self.say(f"job {job.number} is {state}")
        for other in self.jobs.values():
            if other.after == job.number and other.state == "PENDING":
                self.at(1 + 30 * self.dice.random(), partial(self._begin, other))

    # The script

    def _begin_script(self, job: Job) -> None:
        self.terms = LifeTerms(
            ranks=self.nodes * self.per_node,
            nodes=self.nodes,
            restarts=self.restarts,
            spares=self.spares,
            link=job.link if self.links else 0,
            links=self.links,
            checkpoints=self.checkpoints,
            grace_s=self.grace_s,
            hears_all=self.hears_all,
        )
        self.state = LifeState()
        self._look_first(job, job.runs, self.now + 600)

    def _look_first(self, job: Job, run: int, until: float) -> None:
        """The script begins when its disk has answered, or is given up."""
        if self.job is not job or job.runs != run or self.state is None:
            return
        checkpoint = self._newest()
        if checkpoint is None and not self.state.told and self.now < until:
            self.at(3, lambda: self._look_first(job, run, until))
            return
        earlier = [number for number, of in self.attempts if of != job.number]
        self._tell(
            machine.LinkBegins(
                hosts=job.hosts,
                attempt=len(self.attempts) + 1,
                over=self.over,
                has_begun=any(of == job.number for _, of in self.attempts),
                before=self.ends.get(earlier[-1], "") if earlier else "",
                checkpoint=checkpoint,
                idle_links=self._idle_links(job.link),
            )
        )

    def _newest(self) -> str | None:
        """Return the newest checkpoint as the script finds it; None: it finds out nothing."""
        if not self.checkpoints:
            return ""
        return str(self.saved[-1]) if self.now >= self.disk_away_until else None

    def _fault_disk_away(self) -> None:
        self.disk_away_until = self.now + self.dice.choice((30.0, 300.0, 3000.0)) * self.dice.random()

    def _idle_links(self, link: int) -> int:
        """Return how many of the two links before began where the training still is."""
        self.progress.setdefault(link, self.saved[-1])
        return sum(self.progress.get(link - back) == self.saved[-1] for back in (1, 2))

    def _tell(self, event: Any) -> None:
        """Give an event to the machine, and do what it says."""
        if self.state is None or self.job is None or event is None:
            return
        self.say(f"  event {event}" if not isinstance(event, machine.TimePassed) else "  time")
        self.state, actions = self.decide(self.terms, self.state, event, self.now)
        if self.state.until is not None:
            job, run, until = self.job, self.job.runs, self.state.until
            self.at(until - self.now, lambda: self._time(job, run))
        for action in actions:
            self.say(f"    {action}")
            getattr(self, f"_do_{type(action).__name__.lower()}")(action)

    def _time(self, job: Job, run: int) -> None:
        if self.job is job and job.runs == run and self.state is not None:
            until = self.state.until
            if until is not None and until <= self.now:
                self._tell(machine.TimePassed())

    def _later(self, event: Any, delay_s: float | None = None, step: Step | None = None) -> None:
        """Tell the script of this run of the job something after a while; nothing of a step that is another's."""
        if self.job is None:
            return
        job, run = self.job, self.job.runs

        def tell() -> None:
            if self.job is job and job.runs == run and (step is None or self.step is step):
                self._tell(event)

        self.at(self.dice.random() if delay_s is None else delay_s, tell)

    def _do_startranks(self, action: machine.StartRanks) -> None:
        assert self.job is not None
        living = [
            rank for step in (*self.old_steps, *([self.step] if self.step else [])) for rank in step.ranks
            if rank.state == "runs" and self.hosts[rank.host]
        ]  # fmt: skip
        if living:
            self.wrong.append(f"work twice at a time: ranks {[rank.number for rank in living]} still run")
        if self.is_cancelled and not self.has_forgotten:
            self.wrong.append("ranks start after a cancellation")
        if self.checkpoints and action.checkpoint != str(self.saved[-1]):
            self.wrong.append(f"the newest checkpoint is {self.saved[-1]}, and ranks begin at {action.checkpoint}")
        if self.over:
            self.wrong.append("ranks start where nothing is left to do")
        if self.step is not None:
            self.old_steps.append(self.step)
        first = self.saved[-1] if self.checkpoints else 0
        ranks = [
            Rank(number, action.hosts[number // self.per_node], deaf=self.dice.random() < 0.2)
            for number in range(self.nodes * self.per_node)
        ]
        self.step = step = Step(action.attempt, self.job.number, action.hosts, ranks, self.now, first)
        self.attempts.append((action.attempt, self.job.number))
        if self.dice.random() < 0.03 or (
            any(host in nodes for nodes in self.held.values() for host in action.hosts) and not action.beside
        ):
            # "Requested nodes are busy": a step that does not end holds them.
            for rank in ranks:
                rank.state = "waits"
            self._later(machine.StepWaits(), step=step)
        elif any(not self.hosts[host] for host in action.hosts):
            for rank in ranks:
                rank.state = "gone"
            self.at(20, lambda: self._srun_ends(step, 1))
            step.faults.append((self.now, "host", next(host for host in action.hosts if not self.hosts[host])))
        else:
            for rank in ranks:
                self.at(self._left(step, rank), partial(self._rank_is_done, step, rank))
            self._save_on(step)

    def _left(self, step: Step, rank: Rank) -> float:
        """Return how long a rank works: ranks that talk end together."""
        return (_STEPS - step.first_step) * 3 + (0.0 if self.talk else 60 * self.dice.random()) + rank.number * 0.01

    def _save_on(self, step: Step) -> None:
        if self.step is step and any(rank.state == "runs" and self.hosts[rank.host] for rank in step.ranks):
            self.last_work = self.now
        if self.step is step and self._works(step):
            done = min(_STEPS, step.first_step + int((self.now - step.began) / 3))
            if self.checkpoints and done // 10 * 10 > self.saved[-1]:
                self.saved.append(done // 10 * 10)
        if self.step is step and not step.has_ended:
            self.at(5, lambda: self._save_on(step))

    def _works(self, step: Step) -> bool:
        return all(rank.state == "runs" and not rank.stands and self.hosts[rank.host] for rank in step.ranks)

    # What the script does

    def _do_endstep(self, action: machine.EndStep) -> None:
        if self.step is None:
            return
        if action.by == "starter":
            # The srun is killed; its ranks are Slurm's, and it ends them where its controller answers.
            self._signal_step("KILL")
            step = self.step
            for rank in step.ranks:
                if rank.state == "gone":
                    self.held[rank.host] = set(step.hosts)  # nobody tells Slurm that its slurmstepd is gone
            self.at(1, lambda: self._srun_ends(step, 137))
        else:
            self._signal_step(action.by)

    def _signal_step(self, name: str, *, by_slurm: bool = False) -> None:
        if self.step is None or (self.now < self.away_until and not by_slurm):
            return
        step = self.step
        self._signal_ranks(step, name)
        if any(rank.state == "waits" for rank in step.ranks):
            self.at(1, lambda: self._srun_ends(step, 1))

    def _signal_ranks(self, step: Step, name: str) -> None:
        for rank in step.ranks:
            if rank.state == "runs" and self.hosts[rank.host] and (name == "KILL" or not rank.deaf):
                status = 137 if name == "KILL" else 143
                if name == "KILL":
                    self._rank_ends(step, rank, status)
                else:
                    self.at(2 * self.dice.random(), partial(self._rank_ends, step, rank, 143))

    def _do_askfor(self, action: machine.AskFor) -> None:
        if action.of == "link before" and self.state is not None and self.state.told:
            self.wrong.append("a job that was told to end asks how the link before ended")
        delay_s = 5 * self.dice.random()
        if action.of in {"Slurm", "nodes", "link before"} and self.now < self.away_until:
            return
        if action.of == "disk" and self.now < self.disk_away_until:
            return
        if action.of == "Slurm":
            self._later_answer(self._slurm_says, delay_s)
        elif action.of == "nodes":
            self._later_answer(lambda: self._nodes_say(action.hosts), delay_s)
        elif action.of == "disk":
            self._later_answer(lambda: machine.Newest(str(self.saved[-1])), delay_s)
        elif action.of == "link before":
            self._later_answer(self._link_before, delay_s)
        else:
            self._later_answer(self._reason, delay_s / 10)

    def _later_answer(self, answer: Callable[[], Any], delay_s: float) -> None:
        assert self.job is not None
        job, run = self.job, self.job.runs
        self.at(delay_s, lambda: self._tell(answer()) if self.job is job and job.runs == run else None)

    def _slurm_says(self) -> machine.SlurmSays:
        assert self.job is not None
        return machine.SlurmSays(self.job.state, self.job.hosts, self.now >= self.job.limit_at)

    def _nodes_say(self, hosts: tuple[str, ...]) -> machine.NodesSay:
        # The step that asks ends what the attempt before has left on the nodes.
        for step in (*self.old_steps, *([self.step] if self.step and self.step.has_ended else [])):
            for rank in step.ranks:
                if rank.state == "runs" and self.hosts[rank.host]:
                    rank.state = "gone"
        return machine.NodesSay(tuple(host for host in hosts if not self.hosts[host]))

    def _link_before(self) -> machine.LinkBefore:
        assert self.job is not None
        others = [number for _, number in self.attempts if number != self.job.number]
        before = self.jobs[others[-1] if others else self.link_jobs[self.job.link - 1]]
        if self.now <= before.ended_at + 300 or self.accounts:
            return machine.LinkBefore(before.state)
        self.has_forgotten = True
        return machine.LinkBefore("")

    def _reason(self) -> machine.OutputSays:
        assert self.job is not None
        return machine.OutputSays(self.job.is_cancelled, self.over)

    def _do_noteend(self, action: machine.NoteEnd) -> None:
        self.ends[action.attempt] = action.decision
        step = self.step
        if step is None or step.attempt != action.attempt:
            return
        if action.decision == "done" and any(rank.state != "done" for rank in step.ranks):
            self.wrong.append(f"it is called done, and the ranks are {[rank.state for rank in step.ranks]}")
        self._check_cause(step, action.cause)

    def _check_cause(self, step: Step, cause: machine.FirstCause | None) -> None:
        if cause is None or not step.faults:
            return
        # What happens within two seconds may be told in either order. Another fault may be told before a silent one:
        # a rank that ends well too early, one whose slurmstepd is gone, and a host, until Slurm or a step finds it.
        loud = [when_s for when_s, kind, _ in step.faults if kind in {"rank", "hang"}]
        near = [
            (kind, of)
            for when_s, kind, of in step.faults
            if not loud or when_s <= loud[0] + 2 or kind in {"host", "memory"}
        ]
        if not self.talk and cause.status == 0:
            return
        if not self.hears_all and "onnect" in cause.words:
            return  # agents and mpirun tell of the first failure alone, and these words say of it that it is another's
        of_host: list[tuple[str, Any]] = [("host", rank.host) for rank in step.ranks if rank.number == cause.rank]
        truths: dict[str, list[tuple[str, Any]]] = {
            "rank": [(kind, cause.rank) for kind in ("rank", "left", "gone")]
            + (of_host if cause.status in {0, 137} else []),
            "node": [("host", cause.host)],
            "hang": [("hang", "")],
            "memory": [("memory", "")],
            "unsaid": [("host", cause.host)]
            + [("gone", rank.number) for rank in step.ranks if rank.host == cause.host],
        }
        if cause.kind and not any(truth in near for truth in truths[cause.kind]):
            self.wrong.append(f"the cause that is named is {cause}, and the truth is {step.faults}")

    def _do_queuenext(self, action: machine.QueueNext, tries: int = 0) -> None:
        del action
        if self.job is None or self.job.link + 1 in self.link_jobs:
            return
        job = self.job
        if self.now < self.away_until:
            if tries < 5:
                self.at(
                    10 * 2**tries,
                    lambda: self._do_queuenext(machine.QueueNext(), tries + 1) if self.job is job else None,
                )
            return
        self._queue(job.link + 1, after=job.number)

    def _do_withdrawnext(self, action: machine.WithdrawNext) -> None:
        del action
        if self.job is None or self.now < self.away_until:
            return
        number = self.link_jobs.get(self.job.link + 1)
        if number is not None and self.jobs[number].state == "PENDING":
            self.jobs[number].state = "CANCELLED"

    def _do_closejob(self, action: machine.CloseJob) -> None:
        self.over = self.over or action.why
        if "link before" in action.why and self._link_before().state not in {"CANCELLED", "FAILED"}:
            self.wrong.append(f"it is over, and nothing says so: {action.why}")
        if action.why == "the script is done" and "done" not in self.ends.values():
            self.wrong.append("it is over as done, and no attempt was")

    def _do_endscript(self, action: machine.EndScript) -> None:
        job, run = self.job, self.job.runs if self.job else 0
        assert job is not None
        if action.status == 0 and self.step is not None and self.state is not None and self.state.decision == "done":
            self.user_is_done = True
        self.state = None

        def leave() -> None:
            if self.job is job and job.runs == run and not job.told:
                self._leave(job, "COMPLETED" if action.status == 0 else "FAILED")

        self.at(0.1, leave)

    # The ranks

    def _rank_is_done(self, step: Step, rank: Rank) -> None:
        if self.step is not step or rank.state != "runs" or rank.stands or not self.hosts[rank.host]:
            return
        if self.talk and any(other.state in {"failed", "gone"} or other.stands for other in step.ranks):
            return
        rank.state = "done"
        self._report(step, rank, 0)

    def _rank_ends(self, step: Step, rank: Rank, status: int, words: str = "") -> None:
        if rank.state != "runs":
            return
        rank.state = "failed"
        self._report(step, rank, status, words)
        self._peers_notice(step, rank)

    def _report(self, step: Step, rank: Rank, status: int, words: str = "") -> None:
        """The end of a rank: srun tells it, if the script is there; srun ends with its last rank."""
        step.status, step.last_end = step.status or status, self.now
        if status:
            self._tell_failure(step, machine.RankEnded(rank.number, rank.host, status, words))
        self.at(1.1, lambda: self._srun_may_end(step))

    def _tell_failure(self, step: Step, ended: machine.RankEnded) -> None:
        if not self.hears_all:
            if step.first is None:
                step.first = ended
                self._later(machine.StepFails(1), self.dice.random(), step)
            return
        job, run = self.job, self.job.runs if self.job else 0

        def tell() -> None:
            if self.step is step and self.job is job and job is not None and job.runs == run:
                step.first = step.first or ended
                self._tell(self._left_ranks(step))
                self._tell(ended._replace(words=""))

        self.at(self.dice.random(), tell)

    @staticmethod
    def _left_ranks(step: Step) -> machine.RanksLeft | None:
        done = [rank for rank in step.ranks if rank.state == "done"]
        return machine.RanksLeft(tuple(rank.number for rank in done), done[0].host) if done else None

    def _srun_may_end(self, step: Step) -> None:
        ended = (rank.state in {"done", "failed"} or rank.host in self.down for rank in step.ranks)
        if all(ended) and self.now > step.last_end + 1:
            self._srun_ends(step, step.status)

    def _srun_ends(self, step: Step, status: int) -> None:
        if step.has_ended or self.step is not step or self.job is None:
            return
        step.has_ended = True
        for host in step.hosts:
            if not self.hosts[host] and host not in self.down:
                # Slurm calls the step RUNNING while the host does not answer.
                self.held[host] = set(step.hosts)
        for event in self._events_of_end(step, status):
            self._tell(event)

    def _events_of_end(self, step: Step, status: int) -> list[Any]:
        if status == 0:
            silent = next((rank for rank in step.ranks if rank.state != "done"), None)
            if silent is None:
                return [machine.EndsCounted(), machine.StepEnded(0)]
            words = f"how ranks on {silent.host} ended is not known"
            is_lost = silent.host in self.down and self.dice.random() < 0.7
            unsaid = machine.NodeFailed(silent.host, words) if is_lost else machine.EndsUnknown(silent.host, words)
            return [machine.StepFails(1), unsaid, machine.StepEnded(1)]
        events: list[Any] = [self._left_ranks(step) if self.hears_all else None]
        events += [step.first or machine.StepFails(status), *map(machine.NodeFailed, step.lost_nodes)]
        if step.is_over_memory:
            events.append(machine.StepFails(status, "Slurm ended the ranks: they used too much memory"))
        return [each for each in (*events, machine.StepEnded(status)) if each is not None]

    def _peers_notice(self, step: Step, rank: Rank) -> None:
        """Ranks that talk lose the connection, sooner or later or never."""
        if not self.talk or self.dice.random() < 0.2:
            return
        for other in step.ranks:
            if other is not rank:
                self.at(
                    1.5 + self.dice.choice((1.0, 30.0)) * self.dice.random(),
                    partial(self._peer_fails, step, other),
                )

    def _peer_fails(self, step: Step, rank: Rank) -> None:
        if self.step is step and not rank.stands and self.hosts[rank.host]:
            self._rank_ends(step, rank, 1, "ConnectionError: Connection reset by peer")

    # Faults

    def _strike(self) -> None:
        fault = self.dice.choice(FAULTS)
        self.say(f"fault: {fault}")
        getattr(self, "_fault_" + fault.replace(" --", "_").replace(" ", "_"))()

    def _victim(self) -> tuple[Step, Rank] | None:
        step = self.step
        ranks = [rank for rank in step.ranks if rank.state == "runs" and self.hosts[rank.host]] if step else []
        return (step, self.dice.choice(ranks)) if step is not None and ranks else None

    def _note_fault(self, step: Step, kind: str, of: int | str) -> None:
        step.faults.append((self.now, kind, of))

    def _fault_rank_fails(self) -> None:
        if (found := self._victim()) is not None:
            step, rank = found
            words = self.dice.choice(
                ("ValueError: 7", "RuntimeError: step 8", "", "ConnectionError: Connection refused")
            )
            # Its own words are those of a peer that is lost: another fault explains them better.
            self._note_fault(step, "left" if "refused" in words else "rank", rank.number)
            self._rank_ends(step, rank, self.dice.choice((1, 7)), words)

    def _fault_rank_is_killed(self) -> None:
        if (found := self._victim()) is not None:
            step, rank = found
            self._note_fault(step, "rank", rank.number)
            self._rank_ends(step, rank, 137)

    def _fault_rank_hangs(self) -> None:
        if (found := self._victim()) is not None:
            step, rank = found
            rank.stands, rank.deaf = True, self.dice.random() < 0.5
            self._watch(step, machine.HangSeen("ranks do not go on"))

    def _watch(self, step: Step, alarm_event: machine.HangSeen) -> None:
        """The watch finds that ranks stand, where there is one: only then it is known."""

        def alarm() -> None:
            if self.step is step and not step.has_ended and self.state is not None:
                self._tell(alarm_event)
                if self.state is not None and self.state.first is not None and self.state.first.kind == "hang":
                    self._note_fault(step, "hang", "")

        if self.watches:
            self.at(20 + 40 * self.dice.random(), alarm)

    def _fault_rank_leaves_with_0(self) -> None:
        if (found := self._victim()) is not None:
            step, rank = found
            rank.state = "done"
            if self.talk:
                self._note_fault(step, "left", rank.number)
            self._report(step, rank, 0)
            self._peers_notice(step, rank)

    def _fault_stepd_is_killed(self) -> None:
        if (found := self._victim()) is not None:
            step, rank = found
            rank.state = "gone"
            self._note_fault(step, "gone", rank.number)
            self._peers_notice(step, rank)
            self._watch(step, machine.HangSeen("a rank has no process"))

    def _fault_memory_is_over(self) -> None:
        if (found := self._victim()) is not None:
            step, _ = found
            self._note_fault(step, "memory", "")
            step.is_over_memory = True
            self._signal_ranks(step, "KILL")

    def _fault_host_dies(self) -> None:
        if self.job is not None:
            others = [host for host in self.job.hosts if host != self.job.hosts[0] and self.hosts[host]]
            if others:
                self._kill_host(self.dice.choice(others))

    def _fault_batch_host_dies(self) -> None:
        if self.job is not None and self.hosts[self.job.hosts[0]]:
            self._kill_host(self.job.hosts[0])

    def _kill_host(self, host: str) -> None:
        job, step = self.job, self.step
        assert job is not None
        self.say(f"{host} dies")
        self.hosts[host] = False
        if host == job.hosts[0]:
            self.state = None  # the script dies with its host
        if step is not None:
            lost = [rank for rank in step.ranks if rank.host == host and rank.state in {"runs", "done", "failed"}]
            if host in step.hosts:
                self._note_fault(step, "host", host)
            for rank in lost:
                if rank.state == "runs":
                    rank.state = "gone"
                    self._peers_notice(step, rank)
        run = job.runs
        self.at(self.timeout_s * (1 + 0.3 * self.dice.random()), lambda: self._slurm_notices(host, job, run))

    def _slurm_notices(self, host: str, job: Job, run: int) -> None:
        if self.now < self.away_until:
            self.at(self.away_until - self.now + 1, lambda: self._slurm_notices(host, job, run))
            return
        if self.hosts[host] or host in self.down:
            return
        self.down.add(host)
        self.say(f"Slurm says that {host} is down")
        if self.job is not job or job.runs != run or job.told or host not in job.hosts:
            return
        if self.spares and host != job.hosts[0]:
            job.hosts = tuple(each for each in job.hosts if each != host)
            self._step_loses(host)
        elif self.spares and not self.can_requeue:
            self._leave(job, "NODE_FAIL")  # a user, or the limit
        else:
            if self.state is not None and self.dice.random() < 0.7:
                self._step_loses(host)
            after = "REQUEUED" if self.can_requeue else "NODE_FAIL"
            if host == job.hosts[0]:
                self._leave(job, after)
            else:
                self._end_job(job, after)

    def _step_loses(self, host: str) -> None:
        """srun hears that a node is down: it tells, or waits for the other ranks; its status knows nothing."""
        step = self.step
        if step is None or step.has_ended or host not in step.hosts:
            return
        if self.dice.random() < 0.8:
            step.lost_nodes.append(host)
            self._later(machine.NodeFailed(host), 0.1, step)
        if all(rank.state in {"done", "failed"} or rank.host == host for rank in step.ranks):
            self.at(2, lambda: self._srun_ends(step, step.status))

    def _fault_node_back(self) -> None:
        dead = [
            host for host, is_up in self.hosts.items() if not is_up and (self.job is None or host != self.job.hosts[0])
        ]
        if dead:
            self._restore(self.dice.choice(dead))

    def _restore(self, host: str) -> None:
        self.hosts[host] = True
        self.down.discard(host)
        self.held.pop(host, None)
        # Its slurmd tells that the job's processes are gone.
        if self.job is not None and host in self.job.hosts and host != self.job.hosts[0]:
            step = self.step
            if step is not None and host in step.hosts and not step.has_ended:
                for rank in step.ranks:
                    if rank.host == host and rank.state == "gone":
                        rank.state = "failed"
                        self._report(step, rank, 137)

    def _fault_cancel(self) -> None:
        if self.job is not None and not self.job.told and self.now >= self.away_until:
            self.is_cancelled = True
            self.job.is_cancelled = self.state is not None
            if self.dice.random() < 0.5:
                self.over = self.over or "the job was cancelled"  # muster cancel
            if self.hosts[self.job.hosts[0]]:
                self._end_job(self.job, "CANCELLED")
            else:
                self._leave(self.job, "CANCELLED")

    def _fault_cancel_save(self) -> None:
        if self.job is not None and self.state is not None and self.saves and self.step is not None:
            self._save("cancel")
            self.at(60, partial(self._cancel_after_save, self.job, self.job.runs))

    def _cancel_after_save(self, job: Job, run: int) -> None:
        """`muster cancel --save` cancels a job whose ranks have not ended when the time of --save-before is over."""
        if self.job is job and job.runs == run and self.state is not None and self.state.saved == "cancel":
            self._fault_cancel()
            self.at(10, partial(self._cancel_after_save, job, run))  # again, where the controller is away

    def _save(self, reason: str) -> None:
        """Ranks that handle the signal save, and end well."""
        step = self.step
        if step is None or self.state is None or step.has_ended or self.now < self.away_until:
            return
        ready = [rank for rank in step.ranks if rank.state == "runs" and self.hosts[rank.host] and not rank.stands]
        if not ready:
            return
        self._later(machine.RanksSave(reason), 0.1, step)
        if self._works(step) and self.checkpoints:
            done = min(_STEPS, step.first_step + int((self.now - step.began) / 3))
            self.at(3, lambda: self.saved.append(done) if done > self.saved[-1] and self.step is step else None)
        for rank in ready:
            self.at(4 + rank.number * 0.01, partial(self._rank_saved, step, rank))

    def _rank_saved(self, step: Step, rank: Rank) -> None:
        if self.step is step and rank.state == "runs" and self.hosts[rank.host] and not rank.stands:
            rank.state = "done"
            self._report(step, rank, 0)

    def _fault_requeue(self) -> None:
        if self.job is not None and self.can_requeue and self.now >= self.away_until and not self.job.told:
            if self.hosts[self.job.hosts[0]]:
                self._end_job(self.job, "REQUEUED")
            else:
                self._leave(self.job, "REQUEUED")

    def _fault_controller_away(self) -> None:
        self.away_until = self.now + self.dice.choice((20.0, 120.0, 900.0)) * self.dice.random()

    def _fault_limit_moved(self) -> None:
        if self.job is not None:
            self.job.limit_at += 60

    def _fault_checkpoint_torn(self) -> None:
        """The newest turns out half written: the one before it is the newest whole one."""
        if len(self.saved) > 2 and self.step is not None and self.saved[-2] >= self.step.first_step:
            self.saved.pop()
