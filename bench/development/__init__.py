"""Programs that only developers of Highwater run; the wheel leaves this folder out.

micro: steps of the broker's hot path in microseconds (`make bench-micro`). gate_proof: how often the gate notices a
slower broker (`make gate-proof`). generator_cost: the load generator beside its client's bare loop
(`python -m highwater.bench.development.generator_cost`). beside_kafka: the broker beside Apache Kafka, many
workloads and one page (`make bench-broker`). request_cost: what a request costs the broker in CPU time, beside another
version or a compiled one (`python -m highwater.bench.development.request_cost`). They may import the broker; the
instrument itself must not.
"""
