# The instance as a container, where a Docker engine answers: the same packages, scripts and settings, by docker/compose.yaml.

compose() {
    GRAPHRAG_PASSWORD=$(< "$instance/password") GRAPHRAG_PORT=$(< "$instance/port") \
        GRAPHRAG_PAGES_PORT=$(< "$instance/pages_port") GRAPHRAG_CA_BUNDLE=$(ca_bundle) \
        docker compose --project-name "graphrag-${instance##*/}" --file "$checkout/docker/compose.yaml" "$@"
}

docker_up() {
    make_password
    docker_runs || { choose_port; choose_port pages_port; }
    compose up --detach --build --wait >&2
}

docker_runs() { [ -s "$instance/port" ] && [ -s "$instance/pages_port" ] && [ -n "$(compose ps --quiet --status running)" ]; }
