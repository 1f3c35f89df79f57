# The base: a Debian root file system with PostgreSQL, its extensions, the Python environment and the models.
# Built once per content of docker/, in the cache, shared by all checkouts. Nothing ever runs a server in it.

base_inputs=(docker/packages.txt docker/requirements.lock docker/models.lock
    docker/fetch-models docker/install-python bin/lib/base.sh)

debian_suite() { # -> the Debian that has PostgreSQL $postgres with its extensions
    case $postgres in
        17) echo trixie ;;
        18) echo sid ;;
    esac
}

base_path() { # -> path of the base that belongs to this checkout and PostgreSQL
    local hash
    hash=$({ echo "$runtime $(debian_suite)"; cd "$checkout"; cat "${base_inputs[@]}"; } | sha256sum)
    printf %s "$cache/base-${hash:0:12}"
}

ensure_base() { # build $base unless it is there; the name appears only when it is complete
    base=$(base_path)
    [ ! -d "$base" ] || return 0
    mkdir -p "$cache"
    exec 8> "$base.lock"
    flock -n 8 || { say "waiting for another build of $base"; flock 8; }
    if [ ! -d "$base" ]; then
        need_host_tools
        say "building the server's root file system in $base (once; about two minutes)"
        remove_tree "$base.tmp"
        bootstrap_debian "$base.tmp"
        install_python "$base.tmp"
        mv -T "$base.tmp" "$base"
    fi
    exec 8>&-
}

need_host_tools() { # install as root, or name, the host tools that are missing
    local packages=() tool
    for tool in mmdebstrap:mmdebstrap setpriv:util-linux; do
        command -v "${tool%%:*}" > /dev/null || packages+=("${tool##*:}")
    done
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || packages+=(debian-archive-keyring)
    if [ "$runtime" = bubblewrap ]; then
        command -v bwrap > /dev/null || packages+=(bubblewrap)
        command -v newuidmap > /dev/null || packages+=(uidmap)
    fi
    [ ${#packages[@]} -gt 0 ] || return 0
    command -v apt-get > /dev/null || die "needs these tools, which this system packages itself: ${packages[*]}"
    [ "$(id -u)" -eq 0 ] || die "some tools are missing. Run: sudo apt-get update && sudo apt-get install ${packages[*]}"
    say "installing with apt-get: ${packages[*]}"
    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "${packages[@]}"; } \
        < /dev/null > "$cache/apt.log" 2>&1 || { tail -n 20 "$cache/apt.log" >&2; die "apt-get failed ($cache/apt.log)"; }
}

bootstrap_debian() { # FOLDER: Debian with docker/packages.txt, for PostgreSQL $postgres
    local options=(--quiet --variant=minbase --aptopt="$1.apt.conf"
        --include="$(sed "s/-17\b/-$postgres/" "$checkout/docker/packages.txt" | paste -sd,)")
    # Proxies of the host's apt hold for this one too, and whether a mirror may stand still.
    { ! command -v apt-config > /dev/null ||
        apt-config dump | grep -Ei '^Acquire::(https?::(Proxy|Verify|CaInfo)|Check-Valid-Until)' || true; } \
        > "$1.apt.conf"
    if [ "$(id -u)" -eq 0 ]; then
        mmdebstrap --mode=root "${options[@]}" "$(debian_suite)" "$1" < /dev/null
        rm -rf "$1/var/lib/postgresql/$postgres" "$1/etc/postgresql/$postgres"
    else
        mkdir "$1"
        mmdebstrap --mode=unshare --format=tar "${options[@]}" "$(debian_suite)" - < /dev/null |
            tar -x --no-same-owner --exclude='./dev/*' --exclude="./var/lib/postgresql/$postgres" \
                --exclude="./etc/postgresql/$postgres" -C "$1"
        chmod -R u+rwX "$1"
    fi
    # mmdebstrap wrote the host's options here; they may hold a proxy's password.
    rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap" "$1.apt.conf"
    mkdir -p "$1/run/postgresql" "$1/srv" "$1/dev/shm" "$1/usr/src/pg_graphrag"
    chmod 1777 "$1/dev/shm"
}

install_python() ( # FOLDER: venv and models, by pip inside the new root, with the host's CA bundle and pip configuration
    root=$1
    files=$root/usr/src/pg_graphrag
    cp "$checkout"/docker/{requirements.lock,models.lock,fetch-models,install-python} "$files"
    copy_name_service
    [ "$(ca_bundle)" = /dev/null ] ||
        cp -L --remove-destination "$(ca_bundle)" "$root/etc/ssl/certs/ca-certificates.crt"
    copy_pip_configuration
    # A mirror of the models: an address, or a folder that the root cannot see.
    models=${GRAPHRAG_MODELS:-}
    case $models in
        '' | http://* | https://*) ;;
        *) cp -rL "$models" "$files/models"; models=/usr/src/pg_graphrag/models ;;
    esac
    say "installing the Python packages and the models"
    as_admin env PIP_CERT=/etc/ssl/certs/ca-certificates.crt GRAPHRAG_MODELS="$models" "${pip_environment[@]}" \
        /usr/src/pg_graphrag/install-python < /dev/null
    rm -rf "$root/etc/pip.conf" "$root/root/.config" "$root/root/.netrc" "${files:?}"/*
)

copy_name_service() { # into $root, as the host has it now
    local file
    for file in /etc/resolv.conf /etc/hosts; do
        [ ! -e "$file" ] || cp -L --remove-destination "$file" "$root/etc/"
    done
}

ca_bundle() { # -> the host's CA bundle: people sit behind proxies with a CA of their own
    local bundle
    for bundle in "${PIP_CERT:-}" "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /dev/null; do
        [ ! -r "$bundle" ] || { echo "$bundle"; return; }
    done
}

copy_pip_configuration() { # files at their places in $root; PIP_* and proxies into $pip_environment
    local file variable name
    mkdir -p "$root/root/.config/pip"
    for file in "$HOME/.pip/pip.conf" "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" "${PIP_CONFIG_FILE:-}"; do
        [ ! -s "$file" ] || without_local_paths < "$file" > "$root/root/.config/pip/pip.conf"
    done
    [ ! -s /etc/pip.conf ] || without_local_paths < /etc/pip.conf > "$root/etc/pip.conf"
    [ ! -s "$HOME/.netrc" ] || install -m 600 "$HOME/.netrc" "$root/root/.netrc"
    pip_environment=()
    for name in INDEX_URL EXTRA_INDEX_URL FIND_LINKS TRUSTED_HOST PROXY DEFAULT_TIMEOUT RETRIES; do
        variable=PIP_$name
        [ -z "${!variable:-}" ] || pip_environment+=("$variable=$(without_local_paths <<< "${!variable}")")
    done
    for variable in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
        [ -z "${!variable:-}" ] || pip_environment+=("$variable=${!variable}")
    done
}

without_local_paths() { # local indexes and wheel folders of the host cannot be seen from inside the root
    sed -E 's@(^|[=[:space:]])(file:|/)[^[:space:]]*@\1@g'
}

remove_tree() { # FOLDER: also one that an interrupted run left half built
    [ ! -e "$1" ] || { chmod -R u+rwX "$1" 2> /dev/null || true; rm -rf --one-file-system "$1"; }
}
