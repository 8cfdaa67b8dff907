"""Makes kafka-3.9.1-properties.tsv from Apache Kafka's own description of its properties.

    java -cp 'lib/*' kafka.server.KafkaConfig > broker.html
    java -cp 'lib/*' org.apache.kafka.storage.internals.log.LogConfig > topic.html
    python kafka-properties.py broker.html topic.html > kafka-3.9.1-properties.tsv

where lib/ holds org.apache.kafka:kafka_2.13:3.9.1 with its dependencies, as Maven copies them.
"""

import html
import re
import sys
from pathlib import Path

ENTRY = re.compile(r'<h4><a id="([^"]+)".*?</h4>.*?<tbody>(.*?)</tbody>', re.DOTALL)
CELL = re.compile(r"<th>(.*?):</th><td>(.*?)</td>", re.DOTALL)

sys.stdout.write("# scope, name, type, default, valid values: Apache Kafka 3.9.1; made by kafka-properties.py\n")
for scope, path in zip(("broker", "topic"), sys.argv[1:], strict=True):
    for name, table in ENTRY.findall(Path(path).read_text()):
        cells = {key: html.unescape(value) for key, value in CELL.findall(table)}
        default = re.sub(r" \(.*\)$", "", cells["Default"]).replace('""', "")
        sys.stdout.write("\t".join((scope, name, cells["Type"], default, cells["Valid Values"])) + "\n")
