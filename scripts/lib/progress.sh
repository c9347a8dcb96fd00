# What the launcher's steps share: one status line a step, the output in a log, a clear end.
# All of it goes to stderr: stdout belongs to the tool.

say() { printf 'weft: %s\n' "$*" >&2; }

die() {
    say "$*"
    exit 1
}

# One line of a log, free of control characters, as long as the terminal is wide.
last_line() {
    local room=$((${COLUMNS:-100} - $2))
    tail -c 400 "$1" 2>/dev/null | tr '\r' '\n' | tr -cd '[:print:]\n' | tail -n 1 | cut -c "1-$room"
}

# took_last STEP OTHERWISE: how long the step took here when it last did, in words.
took_last() {
    local seconds
    if seconds=$(cat "$home/times/$1" 2>/dev/null); then echo "$seconds s the last time"; else echo "$2"; fi
}

# step TITLE LOG COMMAND...: runs the command with its output in .weft/logs/LOG.log. A function as COMMAND must chain
# its commands with &&: where the caller tests the outcome, bash ignores errexit in it.
step() {
    local title=$1 log=$logs/$2.log time=$home/times/$2 start=$SECONDS status=0 last
    last=$(took_last "$2" "")
    shift 2
    # A process group of its own, so that an interrupt can end all that the command has started.
    set -m
    "$@" >"$log" 2>&1 </dev/null &
    set +m
    local pid=$!
    trap 'kill -- "-$pid" 2>/dev/null; say "interrupted"; exit 130' INT TERM
    if [ -t 2 ]; then
        while kill -0 "$pid" 2>/dev/null; do
            printf '\r\033[Kweft: %s %d s%s  %s' "$title" $((SECONDS - start)) "${last:+ ($last)}" \
                "$(last_line "$log" 60)" >&2
            sleep 0.5
        done
        printf '\r\033[K' >&2
    else
        say "$title ...${last:+ ($last)}"
    fi
    wait "$pid" || status=$?
    trap - INT TERM
    if [ "$status" -ne 0 ]; then
        tail -n 25 "$log" >&2
        say "$title failed after $((SECONDS - start)) s; the whole output: ${log#"$PWD/"}"
        return "$status"
    fi
    say "$title: done in $((SECONDS - start)) s"
    # What had next to nothing to do says little of how long the step takes.
    if [ $((SECONDS - start)) -ge 5 ] || [ ! -f "$time" ]; then
        mkdir -p "$home/times"
        echo $((SECONDS - start)) >"$time"
    fi
}

# stamped NAME KEY: whether the step NAME was done for this very KEY; stamp NAME KEY notes that it is.
stamped() { [ "$(cat "$home/stamps/$1" 2>/dev/null)" = "$2" ]; }
stamp() {
    mkdir -p "$home/stamps"
    printf '%s\n' "$2" >"$home/stamps/$1"
}
