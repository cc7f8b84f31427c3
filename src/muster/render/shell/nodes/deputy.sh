# Waits while the script of this job is heard from, on its host $1. Then puts the job back into the queue if Slurm says that
# the job has lost that host. $2: the output of the job. In one silence Slurm is asked eight times at most, within an hour.
export PATH="${PATH:+$PATH:}/usr/bin:/bin"
pause=15
while [ "$pause" -lt 2000 ]; do
    while read -r -t 40 _; do pause=15; done
    sleep "$pause"
    pause=$((pause * 2))
    state=$(timeout 30 scontrol --oneliner show job "$SLURM_JOB_ID") || continue
    nodes=${state#* NodeList=}
    case $state in *' JobState=RUNNING '*) ;; *) exit ;; esac
    case " $(scontrol show hostnames "${nodes%% *}" | tr '\n' ' ')" in *" $1 "*) continue ;; esac
    printf 'muster: %s, the host of the script, is lost: the job goes back into the queue\n' "$1" >>"$2"
    exec scontrol requeue "$SLURM_JOB_ID"
done
