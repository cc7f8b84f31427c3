#!/bin/sh
# Makes Slurm say each of these reasons, as root in a lab of four hosts; prints "CODE JOB" lines.
provoke() {
    code=$1
    shift
    printf '%s %s\n' "$code" "$(sbatch --parsable --time=5 --output=/dev/null "$@" --wrap 'sleep 300')"
}
ended() {
    sbatch --parsable --wait --time=5 "$@" 2>/dev/null
}

scontrol create PartitionName=full Nodes=node1 >/dev/null
scontrol create PartitionName=down Nodes=node2 State=DOWN >/dev/null
scontrol create PartitionName=inactive Nodes=node2 >/dev/null
scontrol create PartitionName=short Nodes=node2 MaxTime=1 >/dev/null
scontrol create PartitionName=small Nodes=node[2-3] MaxNodes=1 >/dev/null
scontrol create PartitionName=arrays Nodes=node2 >/dev/null
scontrol create PartitionName=drained Nodes=node4 >/dev/null
scontrol create reservation ReservationName=later StartTime=now+2hours Duration=60 Users=root Nodes=node3 >/dev/null
scontrol update NodeName=node4 State=DRAIN Reason=provoked

echo "NonZeroExitCode $(ended --output=/dev/null --wrap false)"
failed=$(ended --output=/dev/null --wrap false)
holder=$(sbatch --parsable --time=5 --output=/dev/null --partition=full --exclusive --wrap 'sleep 300')
echo "None $holder"
while [ "$(squeue --noheader --jobs="$holder" --format=%T)" != RUNNING ]; do sleep 0.2; done

provoke Resources --partition=full
provoke Priority --partition=full
provoke Dependency --dependency="afterok:$holder"
provoke DependencyNeverSatisfied --dependency="afterok:$failed"
provoke BeginTime --begin=now+1hour
provoke JobHeldUser --hold
held=$(sbatch --parsable --time=5 --output=/dev/null --begin=now+1hour --wrap true)
scontrol hold "$held"
echo "JobHeldAdmin $held"
provoke PartitionDown --partition=down
provoke PartitionInactive --partition=inactive --begin=now+2
scontrol update PartitionName=inactive State=INACTIVE
provoke PartitionTimeLimit --partition=short
provoke PartitionNodeLimit --partition=small --nodes=2
provoke Reservation --reservation=later
provoke ReqNodeNotAvail --partition=drained --nodelist=node4
provoke JobArrayTaskLimit --partition=arrays --array=1-2%1
