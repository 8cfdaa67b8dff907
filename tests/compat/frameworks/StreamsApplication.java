/* Counts words with Kafka Streams, exactly once: from the topic "words" to "counts". Arguments: the broker's address, the
 * directory of the state, the group protocol. It says how its state changes, and what no handler took.
 */
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

public class StreamsApplication {
    public static void main(String[] words) {
        Properties settings = new Properties();
        settings.put("application.id", "counting");
        settings.put("bootstrap.servers", words[0]);
        settings.put("state.dir", words[1]);
        settings.put("group.protocol", words[2]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("commit.interval.ms", 200);
        settings.put("num.stream.threads", 2);
        settings.put("replication.factor", 1);
        settings.put("auto.offset.reset", "earliest");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("words")
            .groupBy((key, word) -> word)
            .count()
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to("counts");
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(problem -> {
            System.out.println("uncaught " + problem);
            for (Throwable cause = problem.getCause(); cause != null; cause = cause.getCause())
                System.out.println("cause " + cause);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
