/* Makes the record batches in this folder with Apache Kafka's own encoder, so that tests can compare ours with it:
 *
 *     java -cp 'DIRECTORY_OF_KAFKA_3.9_JARS/*' MakeRecordBatches.java OUTPUT_DIRECTORY
 */
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;

public class MakeRecordBatches {
    public static void main(String[] arguments) throws Exception {
        for (CompressionType type : CompressionType.values()) {
            ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
            MemoryRecordsBuilder builder = new MemoryRecordsBuilder(buffer, RecordBatch.MAGIC_VALUE_V2,
                Compression.of(type).build(), TimestampType.CREATE_TIME, 1000L, RecordBatch.NO_TIMESTAMP, 42L,
                (short) 3, 17, false, false, 5, 1 << 20);
            for (int i = 0; i < 1500; i++) {
                byte[] key = i % 7 == 0 ? null : ("key " + i).getBytes();
                byte[] value = i % 11 == 0 ? null : ("{\"record\": " + i + ", \"square\": " + (long) i * i + "}").getBytes();
                Header[] headers = i % 5 == 0
                    ? new Header[] {new RecordHeader("trace", ("t" + i).getBytes()), new RecordHeader("none", (byte[]) null)}
                    : new Header[0];
                builder.append(1_700_000_000_000L + (i * 37) % 1000, key, value, headers);
            }
            MemoryRecords records = builder.build();
            byte[] bytes = new byte[records.sizeInBytes()];
            records.buffer().get(bytes);
            Files.write(Path.of(arguments[0], type.name + ".batch"), bytes);
        }
    }
}
