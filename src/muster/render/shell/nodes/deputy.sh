# Waits while the script of this job is heard from, on its host $1. Then, if Slurm says that the job has lost that host,
# puts the job back into the queue ($3: requeue) or ends it. $2: the output of the job; $4: its run directory. In one
# silence Slurm is asked eight times at most, within an hour.
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
    if [ "$3" = requeue ]; then
        printf 'muster: %s, the host of the script, is lost: the job goes back into the queue\n' "$1" >>"$2"
        exec scontrol requeue "$SLURM_JOB_ID"
    fi
    printf 'muster: %s, the host of the script, is lost: the job ends, because it may not go back into the queue\n' \
        "$1" >>"$2"
    [ -z "$4" ] || IFS=$'\t' read -r number began _ < <(tail -n 1 "$4/attempts")
    [ -z "$4" ] || printf '%s\t%s\t%(%s)T\t143\t\t%s\tend\t%s failed\t%s\tnode\t\n' "$number" "$began" -1 "$1" "$1" \
        'not started again: the host of the script is lost, and the job may not go back into the queue' >>"$4/ends"
    exec scancel "$SLURM_JOB_ID"
done
