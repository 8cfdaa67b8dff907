# Kroxylicious without filters: kroxylicious.sh PORT NODE_PORT HOST:PORT
# It speaks Kafka's protocol, and tells clients that the broker is at NODE_PORT. KROXYLICIOUS is the folder of its jars.
exec java -cp "$KROXYLICIOUS/*" Kroxylicious.java <<END
virtualClusters:
- name: bench
  targetCluster: {bootstrapServers: "$3"}
  gateways:
  - name: plain
    portIdentifiesNode:
      bootstrapAddress: 127.0.0.1:$1
      nodeStartPort: $2
      nodeIdRanges: [{name: broker, start: 0, end: 0}]
END
