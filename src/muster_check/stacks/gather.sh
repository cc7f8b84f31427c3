# Reports every rank of this node whose environment has the words $1 or $2 (NAME=VALUE), or only rank $4, of each role: its
# identity, what the kernel counts of it, and its stack by py-spy ($3; -: this node has no py-spy), or by itself where it was started with
# --stacks-ready. Reports $5 times, $6 seconds apart. With $7 = 1 the last report holds torch's and NCCL's own records. With
# $8 above 0 the third report and the later ones hold the stacks of $8 ranks alone, in turn. $9 and the words after it are
# options of py-spy. A rank is the first Python among the processes with its RANK.
export PATH="${PATH:+$PATH:}/usr/bin:/bin"
muster_mark=$1 muster_other_mark=$2 muster_spy=$3 muster_only=$4 muster_rounds=$5 muster_gap=$6 muster_records=$7 muster_at_once=$8
shift 8
read -r muster_host </proc/sys/kernel/hostname
muster_machine=$(uname -m)

# Prints one line for each rank: "PID RANK WORLD_SIZE STATE BELOW CPU_TICKS IO_BYTES RSS_KIB THREADS CHILDREN". BELOW are the
# processes that it has started; the numbers are of the rank and of these. Of a rank that does not run Python: "0 RANK
# WORLD_SIZE - - PROGRAM".
muster_ranks() {
    awk -v page="$(getconf PAGESIZE 2>/dev/null || echo 4096)" '
    function count(pid,    text, fields, file) {
        file = "/proc/" pid "/stat"
        text = ""
        getline text < file
        close(file)
        name[pid] = text
        sub(/^[^(]*\(/, "", name[pid])
        sub(/\)[^)]*$/, "", name[pid])
        gsub(/[ ,]/, "_", name[pid])
        sub(/^.*\) /, "", text)
        split(text, fields, " ")
        state[pid] = fields[1]
        cpu[pid] = fields[12] + fields[13] + fields[14] + fields[15]
        threads[pid] = fields[18]
        rss[pid] = fields[22]
        file = "/proc/" pid "/io"
        while ((getline text < file) > 0)
            if (text ~ /^(rchar|wchar|read_bytes):/) { split(text, fields, " "); io[pid] += fields[2] }
        close(file)
    }
    # A node without ranks gives an empty line, which names no process.
    NF { parent[$1] = $2; rank[$1] = $3; size[$1] = $4; python[$1] = $5; order[++many] = $1 }
    END {
        for (i = 1; i <= many; i++) {
            pid = order[i]
            count(pid)
            if (!python[pid] || state[pid] == "") continue
            above = parent[pid]
            # Each way up is bounded: a number may be used again while the processes are read.
            for (up = 0; up < many && above in rank && !(python[above] && rank[above] == rank[pid]); up++)
                above = parent[above]
            if (!(above in rank)) is_rank[pid] = 1
        }
        for (i = 1; i <= many; i++) {
            owner = pid = order[i]
            for (up = 0; up < many && !(owner in is_rank) && (owner in parent); up++) owner = parent[owner]
            if (!(owner in is_rank)) continue
            all_cpu[owner] += cpu[pid]
            all_io[owner] += io[pid]
            all_rss[owner] += rss[pid]
            if (pid == owner || state[pid] == "Z") continue
            children[owner] = children[owner] "," name[pid] ":" state[pid]
            below[owner] = below[owner] "," pid
        }
        # A rank without a Python: the innermost of its processes is told.
        for (pid in is_rank) is_told[rank[pid]] = 1
        for (i = 1; i <= many; i++) if ((pid = order[i]) in rank && (parent[pid] in rank) && rank[parent[pid]] == rank[pid]) is_outer[parent[pid]] = 1
        for (i = 1; i <= many; i++) {
            pid = order[i]
            if (is_told[rank[pid]] || is_outer[pid] || state[pid] == "" || state[pid] == "Z") continue
            is_told[rank[pid]] = 1
            print 0, rank[pid], size[pid], "-", "-", name[pid]
        }
        for (pid in is_rank)
            printf "%s %s %s %s %s %.0f %.0f %.0f %d %s\n", pid, rank[pid], size[pid], state[pid] == "" ? "?" : state[pid],
                below[pid] == "" ? "-" : substr(below[pid], 2), all_cpu[pid], all_io[pid], all_rss[pid] * page / 1024, threads[pid], children[pid] == "" ? "-" : substr(children[pid], 2)
    }'
}

# Prints in how many seconds at most the sleep of process $1 ends, which waits in the kernel's function $2.
muster_sleep_of() {
    case $2 in *nanosleep*) ;; *) return 0 ;; esac
    read -r muster_call muster_first muster_second muster_third _ <"/proc/$1/syscall" || return 0
    case $muster_machine:$muster_call in
    x86_64:230 | aarch64:115) [ "$muster_first:$muster_second" != 0x0:0x1 ] || return 0 ;;
    x86_64:35 | aarch64:101) muster_third=$muster_first muster_second=0x0 ;;
    *) return 0 ;;
    esac
    muster_end=$(dd "if=/proc/$1/mem" bs=8 count=1 "skip=$((muster_third))" iflag=skip_bytes | od -An -td8 | tr -d ' \n')
    read -r muster_up _ </proc/uptime
    # The end, or how long.
    [ -z "$muster_end" ] || printf %s "$((muster_end - (muster_second & 1) * ${muster_up%.*}))"
} 2>/dev/null

# Prints what the kernel counts of the threads of process $1, and of the processes $2 below it (PID,PID…):
# "@pulse NOW BYTES SLEEP" with the bytes that the main thread read and wrote and the seconds $3 that it still sleeps; "@thread ID NANOSECONDS TIMES CALL" for
# each thread (0: of all above 48 others): its time on a processor, how often it came there, and how it waits: r not at all, u until something comes, t
# with an end (and the milliseconds in hex, where the call says them), ? unknown; "@below PID NANOSECONDS TIMES BYTES".
muster_pulse_of() {
    muster_files=
    for muster_child in $(printf '%s' "$2" | tr ',-' '  '); do muster_files="$muster_files /proc/$muster_child/task/*/schedstat"; done
    # shellcheck disable=SC2086  # patterns of names without a space
    awk -v pid="$1" -v machine="$muster_machine" -v sleep="$3" '
    # The number of a system call and the argument with its end: p a pointer, m milliseconds; 0: it always ends.
    function table(text,    rows, row, i) {
        split(text, rows, " ")
        for (i in rows) { split(rows[i], row, ":"); ends[row[1]] = row[2] }
    }
    function bytes_of(file,    text, fields, sum) {
        sum = 0
        while ((getline text < file) > 0)
            if (text ~ /^(rchar|wchar|read_bytes|write_bytes):/) { split(text, fields, " "); sum += fields[2] }
        close(file)
        return sum
    }
    function call_of(file,    text, words, how, value) {
        text = ""
        getline text < file
        close(file)
        if (text ~ /^running/) return "r"
        if (split(text, words, " ") < 7) return "?"
        how = ends[words[1]]
        if (how == "") return "u"
        if (how == 0) return "t"
        value = words[substr(how, 2) + 1]
        if (how ~ /^p/) return value == "0x0" ? "u" : "t"
        return value ~ /ffffffff$/ ? "u" : "t" value
    }
    BEGIN {
        if (machine == "x86_64") table("35:0 230:0 219:0 202:p4 7:m3 23:p5 232:m4 281:m4 271:p3 270:p5 441:p4 128:p3")
        if (machine == "aarch64") table("101:0 115:0 128:0 98:p4 73:p3 72:p5 22:m4 441:p4 137:p3")
        getline now < "/proc/uptime"
        sub(/ .*/, "", now)
        printf "@pulse %s %.0f %s\n", now, bytes_of("/proc/" pid "/task/" pid "/io"), sleep
        for (i = 1; i < ARGC; i++) {
            split(ARGV[i], path, "/")
            text = ""
            getline text < ARGV[i]
            close(ARGV[i])
            if (split(text, counts, " ") < 3) continue
            if (path[3] != pid) {
                times[path[3]] += counts[3]
                spent[path[3]] += counts[1]
            } else if (path[5] != pid && ++many > 48) {
                others += counts[3]
                spent_others += counts[1]
            } else
                print "@thread", path[5], counts[1], counts[3], machine == "x86_64" || machine == "aarch64" ? call_of("/proc/" pid "/task/" path[5] "/syscall") : "?"
        }
        if (many > 48) printf "@thread 0 %.0f %.0f ?\n", spent_others, others
        for (child in times) printf "@below %s %.0f %.0f %.0f\n", child, spent[child], times[child], bytes_of("/proc/" child "/io")
    }' "/proc/$1/task/"*/schedstat $muster_files
} 2>/dev/null

# Waits until process $1, at which py-spy looked, is back where it waited.
muster_let_rest() {
    muster_tries=0
    while [ "$((muster_tries += 1))" -le 10 ]; do
        muster_text=
        read -r muster_text <"/proc/$1/stat" || return 0
        case ${muster_text##*) } in [Rt]*) sleep 0.02 ;; *) return 0 ;; esac
    done
} 2>/dev/null

# Prints the open file that the system call of process $1 is about, where the first word of the call is one.
muster_file_of() {
    read -r _ muster_word _ <"/proc/$1/syscall" || return 0
    case $muster_word in 0x? | 0x?? | 0x???) readlink "/proc/$1/fd/$((muster_word))" ;; esac
} 2>/dev/null

# Whether py-spy holds process $1: another look is under way, and no debugger.
muster_is_looked_at() {
    muster_tracer=$(awk '$1 == "TracerPid:" { print $2 }' "/proc/$1/status" 2>/dev/null)
    muster_name=
    read -r muster_name 2>/dev/null <"/proc/${muster_tracer:-0}/comm" || :
    # A tracer that has gone since then was not a debugger either.
    [ "$muster_name" = py-spy ] || [ -z "$muster_name" ]
}

# Prints the stack of process $1 by py-spy. $2: its state; the words after it are options of py-spy.
muster_spied() {
    muster_spied_pid=$1
    # A process that is stopped, or stuck in the kernel, does not answer a tracer: its memory is read without stopping
    # it.
    case $2 in [TtD]) muster_how=--nonblocking ;; *) muster_how= ;; esac
    shift 2
    # shellcheck disable=SC2086  # nothing, or one option
    timeout 10 "$muster_spy" dump --json $muster_how "$@" --pid "$muster_spied_pid" 2>&1 </dev/null
}

# Prints the number of the descriptor of process $1 that is the file in memory whose name begins with $2, and that name.
muster_memory_file() {
    # shellcheck disable=SC2012  # the names of descriptors are numbers
    ls -l "/proc/$1/fd" 2>/dev/null | sed -n "s,^.* \\([0-9]*\\) -> /memfd:\\($2[^ ]*\\).*,\\1 \\2,p" | head -n 1
}

# Waits until the file $1 is larger than $2 bytes and does not grow any more, for two seconds at most.
muster_wait_for_file() {
    muster_size=$2
    muster_tries=0
    while [ "$((muster_tries += 1))" -le 40 ]; do
        sleep 0.05
        muster_before=$muster_size
        muster_size=$(wc -c <"$1") || return 1
        [ "$muster_size" -le "$2" ] || [ "$muster_size" -ne "$muster_before" ] || return 0
    done
    return 1
}

# Prints the stacks that process $1 shows by itself on signal 57. A process that does not catch the signal would be
# ended by it: that is looked at first. A process that is stopped, state $2, does not run its handler.
muster_shows_itself() {
    case $2 in [TtD]) return 1 ;; esac
    muster_caught=$(awk '$1 == "SigCgt:" { print $2 }' "/proc/$1/status" 2>/dev/null)
    case $muster_caught in ?[13579bdf]??????????????) ;; *) return 1 ;; esac
    muster_stacks=$(muster_memory_file "$1" muster-stacks)
    [ -n "$muster_stacks" ] || return 1
    muster_stacks=/proc/$1/fd/${muster_stacks%% *}
    muster_begin=$(wc -c <"$muster_stacks") || return 1
    [ "$muster_begin" -lt 1000000 ] || { : >"$muster_stacks" && muster_begin=0; }
    kill -57 "$1" && muster_wait_for_file "$muster_stacks" "$muster_begin" && tail -c "+$((muster_begin + 1))" "$muster_stacks"
} 2>/dev/null

# Prints the ports at which process $1 takes connections at every address, but MASTER_PORT.
muster_ports_of() {
    muster_port=$(tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^MASTER_PORT=//p')
    # shellcheck disable=SC2012  # the names of descriptors are numbers
    ls -l "/proc/$1/fd" | sed -n 's/^.* -> socket:\[\([0-9]*\)\]$/\1/p' |
        awk -v all=00000000000000000000000000000000 -v master="$(printf %04X "${muster_port:-0}")" '
            FNR == NR { own[$1]; next }
            $4 == "0A" && ($10 in own) { split($2, place, ":"); if (place[1] == all && place[2] != master) print "0x" place[2] }
        ' - "/proc/$1/net/tcp6"
} 2>/dev/null

# Prints what the server of torch.distributed.debug in process $1, state $2, answers to the question $3. A script starts
# such a server itself; its threads have a name of their own.
muster_ask_torch() {
    case $2 in [TtD]) return 1 ;; esac
    grep -qsx pt_workerserver "/proc/$1/task/"*/comm || return 1
    for muster_port in $(muster_ports_of "$1"); do
        # shellcheck disable=SC2016  # bash expands it
        muster_answer=$(timeout 5 bash -c 'exec 3<>"/dev/tcp/localhost/$0" && printf "POST /handler/%s HTTP/1.0\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" "$1" >&3 && cat <&3' \
            "$((muster_port))" "$3" </dev/null)
        case $muster_answer in "HTTP/1.1 200 "*) printf '%s\n' "$muster_answer" | sed '1,/^\r*$/d' && return ;; esac
    done
    return 1
} 2>/dev/null

# Prints a record as short lines: srun breaks a long one.
muster_record_lines() {
    fold -w 500 | sed 's/^/@record /'
    echo
}

# Prints the record $1 with its newest 40 collectives: a record may hold thousands.
muster_newest() {
    printf '%s\n' "$1" | awk -v key='{"collective_seq_id":' '{
        many = split($0, entries, /[{]"collective_seq_id":/)
        printf "%s", entries[1]
        for (i = many > 41 ? many - 39 : 2; i <= many; i++) printf "%s%s", key, entries[i]
    }'
}

# Prints torch's record of process $1, rank $2, state $3: from the rank itself where it was started with --stacks-ready, or
# serves it (torch.distributed.debug), else from the file that torch wrote when a collective timed out.
muster_record_of() {
    muster_file=$(muster_memory_file "$1" muster-record)
    if [ -n "$muster_file" ]; then
        muster_pipe=${muster_file%-} muster_file=/proc/$1/fd/${muster_file%% *}
        muster_pipe=/proc/$1/fd/${muster_pipe##*-}
        : >"$muster_file"
        printf . >"$muster_pipe" && muster_wait_for_file "$muster_file" 0 && { printf 'json ' && cat "$muster_file"; } | muster_record_lines
        return
    fi
    # The record of all backends, and the one of NCCL.
    for muster_question in fr_trace_json dump_nccl_trace_json; do
        muster_answer=$(muster_ask_torch "$1" "$3" "$muster_question?includestacktraces=false") || continue
        case $muster_answer in *'"entries":[{'*) printf 'json [%s]' "$(muster_newest "$muster_answer")" | muster_record_lines && return ;; esac
    done
    muster_names=$(tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^TORCH_FR_DUMP_TEMP_FILE=//p; s/^TORCH_NCCL_DEBUG_INFO_TEMP_FILE=//p
        s,^XDG_CACHE_HOME=\(.*\),\1/torch/comm_lib_trace_rank_,p; s,^HOME=\(.*\),\1/.cache/torch/comm_lib_trace_rank_,p')
    muster_age=$(awk 'FNR == NR { up = $1; next } { sub(/^.*\) /, ""); print int(up - $20 / 100) }' /proc/uptime "/proc/$1/stat")
    muster_now=$(date +%s)
    for muster_file in $muster_names /tmp/nccl_trace_rank_; do
        # A file that is older than the process is of an earlier run.
        muster_written=$(stat -c %Y "$muster_file$2") || continue
        [ "$((muster_now - muster_written))" -le "$muster_age" ] || continue
        [ "$(wc -c <"$muster_file$2")" -lt 4000000 ] || continue
        { printf 'pickle ' && base64 -w0 "$muster_file$2"; } | muster_record_lines
        return
    done
} 2>/dev/null

# Prints what NCCL says of all its ranks, where process $1 holds a GPU and NCCL 2.24 or newer listens on this node. It is
# asked once.
muster_ask_nccl() {
    muster_ras=$(tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^NCCL_RAS_ADDR=//p')
    [ "$2" -gt 0 ] || [ -n "$muster_ras" ] || return
    muster_asked=1 muster_ras=${muster_ras:-localhost:28028}
    if command -v ncclras >/dev/null; then
        timeout 10 ncclras -v -h "${muster_ras%:*}" -p "${muster_ras##*:}" </dev/null
    else
        # Its protocol is lines of text.
        # shellcheck disable=SC2016  # bash expands it
        timeout 10 bash -c 'exec 3<>"/dev/tcp/$0/$1" && printf "verbose status\n" >&3 && cat <&3' "${muster_ras%:*}" "${muster_ras##*:}"
    fi | sed 's/^/@ras /'
} 2>/dev/null

# Prints how much each GPU of this node is used, "GPU, PERCENT", and how much memory of it each process holds, "GPU, PID,
# MIB": as nvidia-smi prints it.
muster_gpus_of_node() {
    [ ! -e /sys/class/kfd/kfd/topology ] || muster_amd_gpus_of_node
    command -v nvidia-smi >/dev/null || return 0
    for muster_columns in --query-gpu=uuid,utilization.gpu --query-compute-apps=gpu_uuid,pid,used_gpu_memory; do
        timeout 5 nvidia-smi "$muster_columns" --format=csv,noheader,nounits </dev/null | sed 's/^/@gpu /'
    done
} 2>/dev/null

# The same of AMD's GPUs, from the files of their driver: rocm-smi reads these files too, but it is a Python program.
muster_amd_gpus_of_node() {
    for muster_file in /sys/class/kfd/kfd/topology/nodes/*/gpu_id; do
        muster_id=0
        read -r muster_id <"$muster_file"
        [ "$muster_id" -gt 0 ] || continue
        muster_minor=$(awk '$1 == "drm_render_minor" { print $2 }' "${muster_file%gpu_id}properties")
        read -r muster_use <"/sys/class/drm/renderD$muster_minor/device/gpu_busy_percent" || continue
        printf '@gpu %s, %s\n' "$muster_id" "$muster_use"
    done
    # A process has a file for each GPU, also for those of which it holds nothing.
    for muster_file in /sys/class/kfd/kfd/proc/*/vram_*; do
        muster_bytes=0
        read -r muster_bytes <"$muster_file"
        [ "$muster_bytes" -gt 0 ] || continue
        muster_holder=${muster_file%/vram_*}
        printf '@gpu %s, %s, %s\n' "${muster_file##*_}" "${muster_holder##*/}" "$((muster_bytes / 1048576))"
    done
} 2>/dev/null

muster_asked=
muster_known="" muster_many=0
muster_round=0
while [ "$((muster_round += 1))" -le "$muster_rounds" ]; do
    [ "$muster_round" -eq 1 ] || sleep "$muster_gap"
    read -r muster_now _ </proc/uptime
    printf '@node %s %s %s %s\n' "${SLURM_NODEID:-0}" "$muster_host" "$muster_round" "$muster_now"
    [ "$muster_at_once" -eq 0 ] || [ "$((muster_round % 3))" -ne 1 ] || muster_gpus_of_node
    # The list of processes costs more than their numbers: where stacks are taken in turn, it is kept for some reports.
    [ -n "$muster_known" ] && [ "$muster_at_once" -gt 0 ] && [ "$((muster_round % 6))" -ne 0 ] || muster_known=$(muster_processes "$muster_mark" "$muster_other_mark")
    muster_list=$(printf '%s\n' "$muster_known" | muster_ranks)
    muster_before=$muster_many
    muster_many=$(printf '%s\n' "$muster_list" | grep -c '^[1-9]')
    [ "$muster_many" -ge "$muster_before" ] || muster_known=
    muster_place=0 muster_turn=$(((muster_round - 3) * muster_at_once % (muster_many + 1)))
    printf '%s\n' "$muster_list" |
        while read -r muster_pid muster_rank muster_size muster_state muster_below muster_counts; do
            [ -n "$muster_pid" ] || continue
            [ "$muster_only" = - ] || [ "$muster_only" = "${muster_rank##*.}" ] || continue
            if [ "$muster_pid" = 0 ]; then
                printf '@program %s %s %s %s\n' "$muster_rank" "$muster_size" "$muster_host" "$muster_counts"
                continue
            fi
            [ "$muster_state" != t ] || ! muster_is_looked_at "$muster_pid" || muster_state=S
            muster_waits=
            read -r muster_waits 2>/dev/null <"/proc/$muster_pid/wchan" || :
            printf '@rank %s %s %s %s %s %s\n' \
                "$muster_rank" "$muster_size" "$muster_host" "$muster_pid" "${muster_state:-?}" "${muster_waits:-0}"
            muster_place=$((muster_place + 1))
            if [ "$muster_at_once" -gt 0 ] && [ "$muster_round" -gt 2 ] && [ "$(((muster_place - muster_turn + muster_many) % (muster_many + 1)))" -ge "$muster_at_once" ]; then
                printf '@signs %s 0 \n@kept\n@end\n' "$muster_counts"
                continue
            fi
            muster_gpu=0
            # shellcheck disable=SC2010  # names of links, and none of Muster
            [ ! -e /dev/nvidiactl ] && [ ! -e /dev/kfd ] || muster_gpu=$(ls -l "/proc/$muster_pid/fd" 2>/dev/null | grep -c -e '-> /dev/nvidia[0-9]' -e '-> /dev/kfd')
            printf '@signs %s %s %s\n' "$muster_counts" "$muster_gpu" "$(muster_file_of "$muster_pid")"
            muster_pulse_of "$muster_pid" "$muster_below" "$(muster_sleep_of "$muster_pid" "$muster_waits")"
            if [ ! -x "$muster_spy" ]; then
                muster_told='py-spy is not on this host'
            else
                muster_told=$(muster_spied "$muster_pid" "$muster_state" "$@")
                # py-spy fails now and then for a process that runs fast: it is asked once more.
                case $muster_told in '['* | *'ermission denied'* | *'not permitted'*) ;; *) muster_told=$(muster_spied "$muster_pid" R "$@") ;; esac
            fi
            printf '%s\n' "$muster_told"
            case $muster_told in
                '['?*) ;;
                *) muster_shows_itself "$muster_pid" "$muster_state" || muster_ask_torch "$muster_pid" "$muster_state" dump_traceback ;;
            esac
            if [ "$muster_records" = 1 ] && [ "$muster_round" -eq "$muster_rounds" ]; then
                muster_record_of "$muster_pid" "${muster_rank##*.}" "$muster_state"
                [ -n "$muster_asked" ] || muster_ask_nccl "$muster_pid" "$muster_gpu"
            fi
            muster_let_rest "$muster_pid"
            printf '\n'
            muster_pulse_of "$muster_pid" "$muster_below" ''
            printf '@end\n'
        done
    printf '@done %s\n' "${SLURM_NODEID:-0}"
done
