# Ends what the step $2 of the job $1 has left on this node: a slurmstepd that was killed leaves its ranks.
for file in $(grep -lszx "SLURM_JOB_ID=$1" $(grep -lszx "SLURM_STEP_ID=$2" /proc/[0-9]*/environ)); do
    file=${file%/environ} && kill -KILL "${file#/proc/}"
done
