// Prints what Kafka writes to __transaction_state, a line for each state: the state, " = ", the bytes in hexadecimal.
//
//   JARS=$(.venv/bin/python -c 'from tests.compat.apache_kafka.tools import jars_4; print(jars_4())')
//   java -cp "$JARS/*" tests/compat/apache_kafka/TransactionRecords.java > tests/broker/txn/transaction_records_4.4.txt

import java.util.HashSet;
import java.util.HexFormat;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.coordinator.transaction.TransactionLog;
import org.apache.kafka.coordinator.transaction.TransactionState;
import org.apache.kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.server.common.TransactionVersion;

public class TransactionRecords {
    private static final long UPDATED_MS = 1_700_000_000_001L;
    private static final int TIMEOUT_MS = 60_000;

    public static void main(String[] arguments) {
        Set<TopicPartition> none = Set.of();
        Set<TopicPartition> one = Set.of(new TopicPartition("t", 7));
        for (int level = 0; level <= 2; level++) {
            print(level, 7, 0, -1, -1, 0, TransactionState.EMPTY, none, -1);
            print(level, 7, 3, 7, -1, 0, TransactionState.ONGOING, one, UPDATED_MS - 1);
            if (level == 0) {
                continue;  // Kafka 4.4 cannot write the others in version 0 of the value.
            }
            print(level, 7, 3, 7, -1, 2, TransactionState.ONGOING, one, UPDATED_MS - 1);
            print(level, 7, 4, 7, -1, 2, TransactionState.PREPARE_COMMIT, one, UPDATED_MS - 1);
            print(level, 7, 32767, 7, 8, 2, TransactionState.PREPARE_ABORT, one, UPDATED_MS - 1);
            print(level, 8, 0, 7, -1, 2, TransactionState.COMPLETE_ABORT, none, UPDATED_MS - 1);
            print(level, 7, 4, 7, -1, 2, TransactionState.COMPLETE_COMMIT, none, UPDATED_MS);
        }
    }

    private static void print(
            int level, long id, int epoch, long previousId, long nextId, int clientVersion, TransactionState state,
            Set<TopicPartition> partitions, long startedMs) {
        TxnTransitMetadata metadata = new TxnTransitMetadata(
            id, previousId, nextId, (short) epoch, (short) -1, TIMEOUT_MS, state, new HashSet<>(partitions), startedMs,
            UPDATED_MS, TransactionVersion.fromFeatureLevel((short) clientVersion));
        byte[] value = TransactionLog.valueToBytes(metadata, TransactionVersion.fromFeatureLevel((short) level));
        String names = partitions.isEmpty() ? "-" : partitions.iterator().next().toString();
        System.out.printf(
            "%d %d %d %d %d %d %d %s %s %d %d = %s%n", level, id, epoch, previousId, nextId, clientVersion, TIMEOUT_MS,
            state.name(), names, UPDATED_MS, startedMs, HexFormat.of().formatHex(value));
    }
}
