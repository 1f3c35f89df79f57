# The pages of an instance: pg-graphrag serve beside its server, in the background until `down`. Its token is in a file of the instance.

pages_run() {
    [ "$runtime" != docker ] || { docker_runs; return; } # with the options of docker/compose.yaml
    local pid_file=$root/srv/pg_graphrag/pages.pid pid
    [ -s "$pid_file" ] || return 1
    read -r pid < "$pid_file"
    # After a reboot the number may be another process's.
    { tr '\0' ' ' < "/proc/$pid/cmdline"; } 2> /dev/null | grep -q 'pg-graphrag serve '
}

cmd_serve() { # OPTIONS... of pg-graphrag serve, where it does not run yet; say where it is
    need_server
    if ! pages_run; then
        start_pages "$@"
    elif [ $# -gt 0 ]; then
        say 'the pages run already, with the options that they were started with'
    fi
    printf '%s#token=%s\n' "$(pages_address)" "$(inside cat /srv/pg_graphrag/pages.token < /dev/null)"
}

start_pages() {
    local port pid log=$root/srv/pg_graphrag/pages.log
    choose_port pages_port
    # shellcheck disable=SC2016 # the root's own shell expands it
    inside sh -c 'cd && { setsid pg-graphrag serve --token-file pages.token "$@" > pages.log 2>&1 < /dev/null & } && echo $! > pages.pid' \
        sh --port "$port" "$@" < /dev/null > /dev/null 2>&1 9>&-
    read -r pid < "$root/srv/pg_graphrag/pages.pid"
    for _ in {1..480}; do
        ! (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null || return 0
        # Not pages_run: while a process becomes another program, it has no command line.
        kill -0 "$pid" 2> /dev/null || break
        sleep 0.25
    done
    tail -n 20 "$log" >&2
    die "the pages did not start ($log)"
}

stop_pages() {
    [ "$runtime" != docker ] && pages_run || return 0
    local pid
    read -r pid < "$root/srv/pg_graphrag/pages.pid"
    kill "$pid"
    for _ in {1..160}; do
        pages_run || return 0
        sleep 0.25
    done
    kill -KILL "$pid"
}

pages_address() { printf 'http://127.0.0.1:%s/' "$(< "$instance/pages_port")"; }
