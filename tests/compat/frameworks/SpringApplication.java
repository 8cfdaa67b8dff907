/* Reads the topic "orders" with three listeners of Spring Kafka. Arguments: the broker's address, the group protocol. It
 * prints each record's value after the listener had it.
 */
import java.util.Map;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.listener.ConcurrentMessageListenerContainer;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.MessageListener;

public class SpringApplication {
    public static void main(String[] words) throws InterruptedException {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", words[0],
            "group.id", "spring",
            "group.protocol", words[1],
            "auto.offset.reset", "earliest",
            "key.deserializer", StringDeserializer.class,
            "value.deserializer", StringDeserializer.class);
        ContainerProperties properties = new ContainerProperties("orders");
        properties.setAckMode(ContainerProperties.AckMode.BATCH);
        properties.setMessageListener((MessageListener<String, String>) record -> System.out.println("had " + record.value()));
        var container = new ConcurrentMessageListenerContainer<>(new DefaultKafkaConsumerFactory<>(settings), properties);
        container.setConcurrency(3);
        Runtime.getRuntime().addShutdownHook(new Thread(container::stop));
        container.start();
        Thread.currentThread().join();
    }
}
