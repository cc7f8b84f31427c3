# Reads the exit status from one line of srun, if the line reports the end of a task. Result in $seen.
muster_status_in() {
    local what
    local -A signals=([Hangup]=1 [Interrupt]=2 [Quit]=3 ['Illegal instruction']=4 ['Trace/breakpoint trap']=5
        [Aborted]=6
        ['Bus error']=7 ['Floating point exception']=8 [Killed]=9 ['Out Of Memory']=9 ['User defined signal 1']=10
        ['Segmentation fault']=11 ['User defined signal 2']=12 ['Broken pipe']=13 ['Alarm clock']=14 [Terminated]=15
        ['CPU time limit exceeded']=24 ['File size limit exceeded']=25)
    [[ $1 != 'srun: interrupt '* ]] || seen=130
    [[ $1 =~ ^srun:\ error:\ [^:]+:\ tasks?\ [0-9,-]+:\ (.+)$ ]] || return 0
    what=${BASH_REMATCH[1]%' (core dumped)'}
    [[ $what != 'Exited with exit code '* ]] || seen=${what##* }
    [ -z "${signals[$what]:-}" ] || seen=$((128 + ${signals[$what]}))
}
