# The instance: this checkout's own root (a hard-linked copy of the base) with its extension and package in it.
# Files of the root are shared with the base by hard link: replace them, never write into them.

choose_runtime() { # and the version of PostgreSQL: both are fixed when the instance is made
    if [ -s "$instance/runtime" ]; then
        runtime=$(< "$instance/runtime")
        postgres=$(cat "$instance/postgres" 2> /dev/null || echo 17)
    else
        postgres=${GRAPHRAG_POSTGRES:-17}
        case $postgres in
            17 | 18) ;;
            *) die "GRAPHRAG_POSTGRES is \"$postgres\": it may be 17 or 18" ;;
        esac
        runtime=${GRAPHRAG_RUNTIME:-}
        [ -n "$runtime" ] || { ! docker info > /dev/null 2>&1 || runtime=docker; }
        [ -n "$runtime" ] || { [ "$(id -u)" -ne 0 ] && runtime=bubblewrap || runtime=chroot; }
        case $runtime in
            chroot | bubblewrap | docker) ;;
            *) die "GRAPHRAG_RUNTIME is \"$runtime\": it may be chroot, bubblewrap or docker" ;;
        esac
        [ "$runtime" != docker ] || [ "$postgres" = 17 ] || die "the image has PostgreSQL 17: set GRAPHRAG_RUNTIME"
        mkdir -p "$instance"
        chmod 700 "$instance"
        printf '%s\n' "$checkout" > "$instance/checkout"
        printf '%s\n' "$postgres" > "$instance/postgres"
        printf '%s\n' "$runtime" > "$instance/runtime"
    fi
}

check_namespaces() { # an ordinary user needs namespaces for the server, and user ids of his own in them to build the base
    local said user
    [ "$runtime" = bubblewrap ] && command -v bwrap > /dev/null || return 0 # need_host_tools names a missing bwrap
    said=$(bwrap --unshare-user --ro-bind / / true 2>&1) ||
        die "bubblewrap cannot make namespaces here ($said). Allow it to ordinary users (depending on the system, sysctl kernel.unprivileged_userns_clone=1 or kernel.apparmor_restrict_unprivileged_userns=0), or run this as root, or where a Docker engine answers"
    user=$(id -un)
    [ -d "$base" ] || { grep -qs "^$user:" /etc/subuid && grep -qs "^$user:" /etc/subgid; } ||
        die "$user has no subordinate ids in /etc/subuid and /etc/subgid. Run, with ranges that are free there: sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $user"
}

as_admin() { # CMD...: inside $root, as the owner of its files
    if [ "$runtime" = bubblewrap ]; then
        bwrap --unshare-user --uid 0 --gid 0 --bind "$root" / --dev /dev --ro-bind /proc /proc --tmpfs /tmp \
            --clearenv --setenv PATH /usr/sbin:/usr/bin --setenv LANG C.UTF-8 --setenv HOME /root -- "$@"
    else
        chroot "$root" env -i PATH=/usr/sbin:/usr/bin LANG=C.UTF-8 HOME=/root "$@"
    fi
}

as_server() { # CMD...: inside $root, as the user postgres, who can write the cluster's folders and nothing else
    local variable environment=("PATH=/usr/lib/postgresql/$postgres/bin:/usr/bin:/usr/lib/pg_graphrag/venv/bin" LANG=C.UTF-8 HOME=/srv/pg_graphrag)
    # What a provider may refer to (graphrag.set_provider, api_key_env), and the way to it.
    for variable in $(compgen -e | grep -E '_API_KEY$|^(https?|no)_proxy$' || true); do
        environment+=("$variable=${!variable}")
    done
    # For tests: a folder of the host, which may be in memory, for throwaway clusters.
    local clusters=/srv/pg_graphrag/clusters bind=()
    if [ "$runtime" = bubblewrap ]; then
        [ -z "${GRAPHRAG_CLUSTERS:-}" ] || bind=(--bind "$GRAPHRAG_CLUSTERS" "$clusters")
        bwrap --unshare-user --uid "$(postgres_id 3)" --gid "$(postgres_id 4)" \
            --ro-bind "$root" / --dev /dev --ro-bind /proc /proc --tmpfs /tmp \
            --bind "$root/srv" /srv --bind "$root/run/postgresql" /run/postgresql ${bind[@]+"${bind[@]}"} \
            -- env -i "${environment[@]}" "$@"
    else
        [ -z "${GRAPHRAG_CLUSTERS:-}" ] ||
            bind=(unshare --mount sh -ec 'mount --bind "$1" "$2"; shift 2; exec "$@"' sh "$GRAPHRAG_CLUSTERS" "$root$clusters")
        ${bind[@]+"${bind[@]}"} chroot "$root" setpriv --reuid="$(postgres_id 3)" --regid="$(postgres_id 4)" \
            --clear-groups env -i "${environment[@]}" "$@"
    fi
}

postgres_id() { awk -F: -v field="$1" '$1 == "postgres" { print $field }' "$root/etc/passwd"; } # 3: user, 4: group

ensure_root() { # make $root of $base; the cluster moves along when the base has changed
    local old
    root=$instance/root-${base##*-}
    if [ ! -e "$root/complete" ]; then
        ensure_base
        remove_tree "$root"
        cp -al "$base" "$root" 2> /dev/null || { remove_tree "$root"; cp -a "$base" "$root"; } # other file system
        [ "$runtime" = bubblewrap ] || make_device_nodes
        give_to_server "$root/run/postgresql"
        copy_name_service
        touch "$root/complete"
    fi
    for old in "$instance"/root-*; do
        [ "$old" != "$root" ] || continue
        if [ -d "$old/srv/pg_graphrag" ]; then
            (cmd_down) # of $old: the new root has no cluster yet
            mv -T "$old/srv/pg_graphrag" "$root/srv/pg_graphrag"
        fi
        remove_tree "$old"
    done
    [ -d "$root/srv/pg_graphrag" ] || give_to_server "$root/srv/pg_graphrag"
}

make_device_nodes() {
    local node
    for node in null:3 zero:5 random:8 urandom:9; do
        [ -c "$root/dev/${node%:*}" ] || mknod -m 666 "$root/dev/${node%:*}" c 1 "${node#*:}"
    done
}

give_to_server() { # FOLDER: make it, the server's user owns it (under bubblewrap that is who runs this)
    mkdir -p "$1"
    [ "$runtime" = bubblewrap ] || chown "$(postgres_id 3):$(postgres_id 4)" "$1"
}

source_hash() { # of what gets installed
    cd "$checkout"
    find sql extension python -type f ! -path '*/__pycache__/*' ! -path 'extension/build/*' ! -path '*.egg-info/*' \
        ! -path '*/process/plain/*' ! -path '*/client/blocking.py' -print0 |
        sort -z | xargs -0 sha256sum | sha256sum | cut -c1-12
}

install_extension() { # bring SQL and package of the checkout into $root when they changed; new sessions use them
    local hash source=$root/usr/src/pg_graphrag
    hash=$(source_hash)
    [ "$(cat "$source/installed" 2> /dev/null)" != "$hash" ] || return 0
    rm -rf "$source/new"
    mkdir "$source/new"
    (cd "$checkout" && tar -c --owner=0 --group=0 --exclude=__pycache__ --exclude=extension/build --exclude='*.egg-info' \
        extension sql python) | tar -x --no-same-owner -C "$source/new"
    as_admin make --silent -C /usr/src/pg_graphrag/new/extension install
    as_admin /usr/src/pg_graphrag/new/extension/install-package "$hash"
    rm -rf "$source/new"
    printf '%s\n' "$hash" > "$source/installed"
    say "installed extension and package of $checkout"
}

prepare() { # $root with everything in it; holds the instance's lock (descriptor 9)
    exec 9> "$instance/lock"
    flock 9
    base=$(base_path)
    check_namespaces
    ensure_root
    # A chroot has no /proc. What embeds documents looks there for the processors.
    [ "$runtime" = bubblewrap ] || [ ! -r /proc/cpuinfo ] || cat /proc/cpuinfo > "$root/proc/cpuinfo"
    install_extension
}

cmd_prepare() {
    choose_runtime
    [ "$runtime" != docker ] || die "this instance is a container: there is nothing to prepare"
    prepare
    echo "$root"
}
