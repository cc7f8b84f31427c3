# Prints one line for each process of this user on this node whose environment has a RANK and the words $1 or $2
# (NAME=VALUE): "PID PARENT RANK WORLD_SIZE PYTHON CAUGHT", with 1 for Python, else 0, and the mask of the signals it
# handles. RANK is ROLE.RANK in a job of several programs.
muster_processes() {
    # shellcheck disable=SC2046  # names without a space
    grep -ls "RANK=" $(grep -ls -e "$1" -e "$2" /proc/[0-9]*/environ) /dev/null |
        while IFS=/ read -r _ _ muster_pid _; do
            [ -O "/proc/$muster_pid" ] || continue
            muster_program=$(readlink "/proc/$muster_pid/exe" 2>/dev/null)
            case ${muster_program##*/} in python* | pypy*) muster_python=1 ;; *) muster_python=0 ;; esac
            tr '\0' '\n' <"/proc/$muster_pid/environ" 2>/dev/null |
                awk -F= -v one="$1" -v other="$2" -v pid="$muster_pid" -v python="$muster_python" '
                $0 == one || $0 == other { ours = 1 }
                $1 == "RANK" { rank = $2 }
                $1 == "MUSTER_ROLE" { role = $2 "." }
                $1 == "WORLD_SIZE" { size = $2 }
                END {
                    if (!ours || rank == "") exit
                    while ((getline text < ("/proc/" pid "/status")) > 0) {
                        split(text, fields, /[ \t]+/)
                        if (fields[1] == "PPid:") parent = fields[2]
                        if (fields[1] == "SigCgt:") caught = fields[2]
                    }
                    print pid, parent + 0, role rank, size + 0, python, caught
                }'
        done
}
