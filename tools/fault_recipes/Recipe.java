// Java's kafka-clients as a client of `python -m tools.fault_recipes`; arguments and output are those of librdkafka_client.py.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

public class Recipe {
    static final List<String> errors = new ArrayList<>();
    static long started = System.nanoTime();

    static double seconds() {
        return (System.nanoTime() - started) / 1e9;
    }

    static String json(List<String> words) {
        return words.stream()
                .map(word -> '"' + word.replace("\\", "").replace("\"", "'").replace("\n", " ") + '"')
                .collect(Collectors.joining(",", "[", "]"));
    }

    static void report(String found) {
        System.out.printf("{\"version\": \"kafka-clients %s, Java %s\", \"errors\": %s, \"seconds\": %s%s}%n",
                AppInfoParser.getVersion(), Runtime.version().feature(), json(errors), seconds(), found);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    public static void main(String[] arguments) throws Exception {
        String role = arguments[0];
        double limit = Double.parseDouble(arguments[2]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[1]);
        if (role.equals("consume")) {
            consume(settings, limit);
        }
        settings.put("delivery.timeout.ms", "60000");
        if (role.equals("transact")) {
            settings.put("transactional.id", "recipe");
        }
        var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        started = System.nanoTime();
        if (role.equals("transact")) {
            producer.initTransactions();
            producer.beginTransaction();
        }
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int number = 0; number < 10; number++) {
            sent.add(producer.send(new ProducerRecord<>("t", "record-" + number)));
        }
        int delivered = 0;
        int failed = 0;
        for (Future<RecordMetadata> each : sent) {
            try {
                each.get((long) (1000 * Math.max(0.01, limit - seconds())), TimeUnit.MILLISECONDS);
                delivered++;
            } catch (ExecutionException error) {
                failed++;
                errors.add(error.getCause().getClass().getSimpleName());
            } catch (TimeoutException error) {
                errors.add("no outcome");
            }
        }
        if (role.equals("transact")) {
            try {
                producer.commitTransaction();
            } catch (KafkaException error) {
                errors.add(error.getClass().getSimpleName());
            }
        }
        report(", \"delivered\": " + delivered + ", \"failed\": " + failed);
    }

    static void consume(Properties settings, double limit) throws InterruptedException {
        settings.put("group.id", "recipe");
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "1000");
        var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of("t"));
        List<String> values = new ArrayList<>();
        Double first = null;
        while (seconds() < limit) {
            try {
                for (var record : consumer.poll(Duration.ofMillis(100))) {
                    first = first == null ? Double.valueOf(seconds()) : first;
                    values.add(record.value());
                }
            } catch (KafkaException error) {
                errors.add(error.getClass().getSimpleName());
                Thread.sleep(100); // it may throw at once, again and again
            }
        }
        report(", \"values\": " + json(values) + ", \"first\": " + first);
    }
}
