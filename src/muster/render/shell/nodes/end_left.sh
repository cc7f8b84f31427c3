# Ends the processes of this job on this node whose mark begins with $1: what the end of their step has left. A job that
# a rank has submitted inherits the mark.
for file in $(grep -lszF -e "MUSTER_MARK=$1" /proc/[0-9]*/environ); do
    [ -O "$file" ] && grep -qszxF -e "SLURM_JOB_ID=$SLURM_JOB_ID" "$file" &&
        file=${file%/environ} && kill -KILL "${file#/proc/}"
done
