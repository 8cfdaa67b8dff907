# Envoy as a TCP proxy with one worker: envoy.sh PORT HOST:PORT
exec envoy --concurrency 1 --disable-hot-restart --log-level warning --config-yaml "
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: $1}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.tcp_proxy
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: kafka
          cluster: broker
  clusters:
  - name: broker
    connect_timeout: 5s
    load_assignment:
      cluster_name: broker
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: ${2%:*}, port_value: ${2##*:}}}}
"
