# Runs the node prologue $@ once on every node, before the ranks. The first local rank runs it and then makes a mark;
# the other ranks wait for the mark. The mark lies in a directory that the first rank made, and counts only if this user
# owns it. The rank that reads it last removes it.
muster_node_prologue() {
    muster_marks=/tmp/.muster-$muster_id-$muster_port
    if [ "$muster_local_rank" -eq 0 ]; then
        "$@" </dev/null
        muster_make_mark "$?"
    fi
    until muster_find_mark; do sleep 0.1 2>/dev/null || sleep 1; done
    read -r muster_status <"$muster_mark/status"
    : >"$muster_mark/read.$muster_local_rank"
    muster_count_words "$muster_mark"/read.*
    [ "$muster_count" -lt "$muster_local_size" ] || rm -rf "$muster_mark"
    if [ "$muster_status" -ne 0 ]; then
        read -r muster_here </proc/sys/kernel/hostname
        muster_stop "the node prologue failed on $muster_here with status $muster_status: $*" \
            'run it on that node by hand to see why'
    fi
}

# Makes the mark: a new directory in /tmp with the status $1 in it. Directories of other users are left alone, and
# cannot take the name beforehand: it has the number of this process.
muster_make_mark() {
    muster_marks=$muster_marks.$$ muster_try=0
    until (umask 077 && mkdir "$muster_marks.$muster_try") 2>/dev/null; do
        muster_try=$((muster_try + 1))
        [ "$muster_try" -lt 100 ] ||
            muster_stop "neither the directory $muster_marks.0 nor any up to $muster_marks.99 can be made" \
                'is /tmp full?'
    done
    (umask 077 && echo "$1" >"$muster_marks.$muster_try/new" &&
        mv -f "$muster_marks.$muster_try/new" "$muster_marks.$muster_try/status")
}

# Finds the directory of this user's mark. Result in $muster_mark.
muster_find_mark() {
    for muster_mark in "$muster_marks".*; do
        [ -L "$muster_mark" ] || [ ! -O "$muster_mark" ] || [ ! -f "$muster_mark/status" ] || return 0
    done
    return 1
}

# Counts the words $@. Result in $muster_count.
muster_count_words() { muster_count=$#; }
