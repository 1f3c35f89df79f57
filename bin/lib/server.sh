# The server of an instance: start, stop, and the ways to it. Its cluster lies in $root/srv/pg_graphrag.

need_instance() { # $root of the instance, whatever its base; exit code 3 if there is none
    [ -d "$instance" ] || { say "there is no server of $checkout. Run: bin/graphrag-server up"; exit 3; }
    choose_runtime
    [ "$runtime" != docker ] || return 0
    local clusters=("$instance"/root-*/srv/pg_graphrag)
    [ -d "${clusters[0]}" ] || { say "the server of $checkout was never completed. Run: bin/graphrag-server up"; exit 3; }
    root=${clusters[0]%/srv/pg_graphrag}
}

server_runs() {
    [ "$runtime" != docker ] || { docker_runs; return; }
    local pid
    read -r pid 2> /dev/null < "$root/srv/pg_graphrag/data/postmaster.pid" && is_ours "$pid"
}

is_ours() { # PID: of a process of the server's. The number may be another's by now; one that is dying has no folder any more.
    [ "/proc/$1/cwd" -ef "$root/srv/pg_graphrag/data" ] && [ "$(cat "/proc/$1/comm" 2> /dev/null)" = postgres ]
}

our_processes() {
    local process
    for process in /proc/[0-9]*; do
        ! is_ours "${process#/proc/}" || printf '%s\n' "${process#/proc/}"
    done
}

# What a server that was killed has left: processes that are at work, which keep its memory, and files with its number.
clear_away() {
    local pids=() attempt
    for attempt in {0..150}; do
        mapfile -t pids < <(our_processes)
        [ "${#pids[@]}" -gt 0 ] || break
        case $attempt in
            0 | 50) kill -s QUIT "${pids[@]}" 2> /dev/null || true ;;
            100) kill -s KILL "${pids[@]}" 2> /dev/null || true ;;
        esac
        sleep 0.1
    done
    [ "${#pids[@]}" -eq 0 ] || die "processes of the former server do not end, and a server beside them would ruin its data: ${pids[*]}"
    rm -f "$root/srv/pg_graphrag/data/postmaster.pid" "$root"/run/postgresql/.s.PGSQL.*
}

# Whether it takes connections, once it has started. One that is killed at this moment does not.
server_answers() {
    for _ in {1..600}; do
        ! as_server pg_isready --quiet --host=127.0.0.1 --port="$(< "$instance/port")" < /dev/null || return 0
        server_runs || return 1
        sleep 0.1
    done
    die "the server runs and takes no connections ($root/srv/pg_graphrag/postgresql.log)"
}

cmd_up() {
    choose_runtime
    if [ "$runtime" = docker ]; then
        docker_up
    else
        prepare
        if ! server_runs || ! server_answers; then
            [ -d "$root/srv/pg_graphrag/data" ] || make_cluster
            start_server
        fi
    fi
    cmd_status
}

make_password() {
    [ -s "$instance/password" ] ||
        (umask 077 && od -An -N 16 -t x1 /dev/urandom | tr -d ' \n' > "$instance/password")
}

make_cluster() {
    make_password
    as_server sh -c 'cd && umask 077 && cat > password' < "$instance/password"
    as_server sh -s < "$checkout/docker/make-cluster" > "$instance/initdb.log" 2>&1 ||
        { tail -n 20 "$instance/initdb.log" >&2; die "initdb failed"; }
}

start_server() {
    local log=$root/srv/pg_graphrag/postgresql.log
    clear_away
    copy_name_service
    as_server sh -c 'cd && cat > graphrag.conf' < "$checkout/docker/postgresql.conf"
    for _ in 1 2 3; do
        choose_port
        # sysv: neither a chroot nor bubblewrap has a /dev/shm in memory to rely on
        if as_server pg_ctl start --wait --silent -D /srv/pg_graphrag/data -l /srv/pg_graphrag/postgresql.log \
            -o "-p $port -c listen_addresses=127.0.0.1 -c dynamic_shared_memory_type=sysv" < /dev/null > /dev/null 2>&1 9>&-; then
            return
        fi
        tail -n 20 "$log" 2> /dev/null | grep -q 'Address already in use' || break
        rm -f "$instance/port" # somebody was quicker
    done
    tail -n 20 "$log" >&2
    die "the server did not start ($log)"
}

choose_port() { # [FILE]: the instance's own in this file while it is free
    local file=$instance/${1:-port}
    port=$(cat "$file" 2> /dev/null || true)
    while ! { [[ $port =~ ^[1-9][0-9]{3,4}$ ]] && [ "$port" -lt 65536 ]; } || (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null; do
        port=$((20000 + RANDOM % 12000)) # below the range the kernel gives to clients
    done
    printf '%s\n' "$port" > "$file"
}

cmd_down() {
    need_instance
    stop_pages
    server_runs || { say "the server of $checkout does not run"; return; }
    if [ "$runtime" = docker ]; then
        compose stop >&2
    else
        as_server pg_ctl stop --wait --silent -m fast -D /srv/pg_graphrag/data < /dev/null
    fi
    say "stopped the server of $checkout"
}

cmd_status() {
    need_instance
    printf '%-10s %s\n' runtime: "$runtime" checkout: "$checkout" folder: "$instance"
    server_runs || { echo "server:    stopped"; exit 3; }
    printf '%-10s %s\n' server: "127.0.0.1 port $(< "$instance/port"), user postgres, database graphrag"
    [ "$runtime" = docker ] ||
        printf '%-10s %s\n' socket: "$root/run/postgresql" log: "$root/srv/pg_graphrag/postgresql.log"
    ! pages_run || printf '%-10s %s\n' pages: "$(pages_address)"
    printf '%-10s %s\n' psql: "$checkout/bin/graphrag-server psql" url: "$checkout/bin/graphrag-server url"
}

need_server() {
    need_instance
    server_runs || die "the server of $checkout does not run. Run: bin/graphrag-server up"
}

cmd_url() {
    need_server
    printf 'postgresql://postgres:%s@127.0.0.1:%s/%s\n' "$(< "$instance/password")" "$(< "$instance/port")" "${1:-graphrag}"
}

cmd_psql() {
    need_server
    [ "$runtime" != docker ] || { inside psql "$@"; return; }
    # The server's own psql, started on the host by the root's own loader: it is of the right version and sees the host's files.
    local loader libraries
    loader=$(compgen -G "$root/usr/lib*/ld-linux*" | head -n 1)
    libraries=$(compgen -G "$root/usr/lib/*-linux-gnu")
    PGHOST=127.0.0.1 PGPORT=$(< "$instance/port") PGUSER=postgres PGPASSWORD=$(< "$instance/password") PGDATABASE=graphrag \
        exec "$loader" --library-path "$libraries" "$root/usr/lib/postgresql/$postgres/bin/psql" "$@"
}

cmd_exec() {
    need_instance
    inside "$@"
}

inside() { # CMD...: inside the root, as the server's user, with libpq's environment set to the server
    if [ "$runtime" = docker ]; then
        # A terminal only where there is one.
        if [ -t 0 ]; then compose exec server "$@"; else compose exec --no-TTY server "$@"; fi
    else
        # An instance that only lends its root (to the tests) has no port.
        local port=()
        [ ! -e "$instance/port" ] || port=("PGPORT=$(< "$instance/port")")
        as_server env ${port[@]+"${port[@]}"} PGUSER=postgres PGDATABASE=graphrag "$@"
    fi
}
