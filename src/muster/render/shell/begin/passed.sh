# Sets the variables $@, which are passed on by name: their values are not in the script. `muster run` hands them over
# in its environment, `muster submit` in a file that only its owner can read and that the job removes after reading.
# Without either, the values of this job's own environment are used.
muster_pass() {
    local name entry place file missing=()
    file=$muster_run_dir/passed
    if [ ! -f "$file" ] && [ -n "${SLURM_JOB_ID:-}" ] && ! compgen -v MUSTER_PASSED_ >/dev/null; then
        place=$(scontrol show job "$SLURM_JOB_ID" 2>/dev/null | sed -n 's/^ *Command=\(.*\)\/job\.sh$/\1/p' | head -n 1)
        file=$place${SLURM_ARRAY_TASK_ID:+/task-$SLURM_ARRAY_TASK_ID}/passed
    fi
    muster_passed=$file
    if [ -O "$file" ]; then
        while IFS= read -r -d '' entry; do export "MUSTER_PASSED_$entry"; done <"$file"
        [ -n "${muster_may_run_again:-}" ] || rm -f "$file"
    fi
    for name in "$@"; do
        entry=MUSTER_PASSED_$name
        if [ -n "${!entry+set}" ]; then
            export "$name=${!entry}"
            unset "$entry"
        elif [ -z "${!name+set}" ]; then
            missing+=("$name")
        fi
    done
    [ "${#missing[@]}" -eq 0 ] || printf 'muster: warning: %s\n\nhint: %s\n' \
        "the job passes ${missing[*]} on to its ranks, but nothing handed over a value: the ranks start without" \
        'muster submit hands values over; by hand: sbatch --export=ALL FILE, in a shell where the variable is set' >&2
}

# Removes the file after the last attempt. An attempt that Slurm ended may be put back into the queue, so its file
# stays.
muster_passed_on() {
    [ -n "${muster_interrupted:-}${muster_goes_on:-}" ] || rm -f "$muster_passed"
}
