"""The commands for people, one file each; broker/cli.py loads a file when its command is run.

All but dump-log speak Kafka's protocol through confluent-kafka, so they work on any cluster that does. Option names
are those of Apache Kafka's tools. Exit codes: 0 done, 1 the broker said no (or what was looked at is damaged), 2 the
command was not understood or no broker answers, 130 interrupted.
"""
