"""A log broker that speaks Kafka's protocol and keeps Kafka's files, without a JVM."""

from highwater.common.compiled import install_finder

install_finder()
