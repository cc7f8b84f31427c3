"""A training whose ranks save at a signal: without torch, and in step with each other as trainings are."""

from __future__ import annotations

from pathlib import Path

__all__ = ["TRAINING", "saved_steps"]

# Each step rank 0 hears from every rank whether it was told, and tells all: what scripts do with all_reduce. It begins
# at MUSTER_CHECKPOINT. A save takes a second, in which the other ranks get the signal too. With arguments a step takes
# the first, in seconds, every tenth step is saved too, and a later attempt makes as many steps as the second says.
TRAINING = """\
import glob, json, os, signal, socket, sys, time, zipfile
rank, size, job = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["SLURM_JOB_ID"]
attempt = os.environ["MUSTER_ATTEMPT"]
told = []
signal.signal(getattr(signal, "SIG" + os.environ["MUSTER_SAVE_SIGNAL"]), lambda *_: told.append(1))
meeting = f"meeting.{job}.{attempt}"
if rank == 0:
    listener = socket.create_server(("", 0), backlog=size)
    with open(meeting + ".part", "w") as file:
        file.write(f"{socket.gethostname()} {listener.getsockname()[1]}")
    os.rename(meeting + ".part", meeting)
    others = [listener.accept()[0] for _ in range(size - 1)]
else:
    while not os.path.exists(meeting):
        time.sleep(0.05)
    host, port = open(meeting).read().split()
    hub = socket.create_connection((host, int(port)))

def any_told():
    mine = bytes([len(told) > 0])
    if rank:
        hub.sendall(mine)
        return hub.recv(1) != bytes([0])
    anyone = max([mine] + [other.recv(1) for other in others])
    for other in others:
        other.sendall(anyone)
    return anyone != bytes([0])

def save():
    if rank == 0:
        with zipfile.ZipFile(f"saved/step{step}.pt", "w") as file:
            file.writestr("state", json.dumps({"step": step}))

pause, more = (float(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else (0.05, 0)
step = 0
checkpoint = os.environ.get("MUSTER_CHECKPOINT")
if checkpoint is None and int(attempt) > 1:
    checkpoint = max(glob.glob("saved/*.pt"), key=os.path.getmtime)
if checkpoint:
    with zipfile.ZipFile(checkpoint) as file:
        step = json.loads(file.read("state"))["step"]
print("begins at", step, flush=True)
open(f"began.{job}.{attempt}.{rank}", "w").close()
last = step + more if more and step else 4000
while step < last:
    time.sleep(pause)
    step += 1
    if any_told():
        open(f"saved.{job}.{attempt}.{rank}.{step}", "w").close()
        save()
        time.sleep(1)
        break
    if more and step % 10 == 0:
        save()
"""


def saved_steps(folder: Path, job: str) -> dict[int, list[int]]:
    """Return the steps at which each rank of a job saved."""
    steps: dict[int, list[int]] = {}
    for path in folder.glob(f"saved.{job}.*"):
        *_, rank, step = path.name.split(".")
        steps.setdefault(int(rank), []).append(int(step))
    return steps
