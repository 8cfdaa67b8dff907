/* Calls everything that the clients of Kafka 4.4 can ask a broker, once each, on one broker with nothing on it. Argument: its
 * address. A line for each call: its name, and "answered" or the class of its error. The calls of Admin are those that its
 * interface has: one that is missing here, or that the interface has no more, ends the program.
 */
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;

@SuppressWarnings({"deprecation", "removal"}) // Admin has them still
public class JavaCalls {
    private static final Duration WAIT = Duration.ofSeconds(20);
    /** Calls that ask no broker. */
    private static final Set<String> LOCAL =
        Set.of("close", "metrics", "registerMetricForSubscription", "unregisterMetricFromSubscription");
    private static final TopicPartition P0 = new TopicPartition("t", 0);
    private static final TopicPartition P1 = new TopicPartition("t", 1);

    private final String address;
    private final Admin admin;
    private final Map<String, Callable<?>> calls = new LinkedHashMap<>();
    private int broker;
    private String logDirectory;

    private JavaCalls(String address) {
        this.address = address;
        this.admin = Admin.create(settings(Map.of()));
    }

    public static void main(String[] words) throws Exception {
        JavaCalls made = new JavaCalls(words[0]);
        made.prepare();
        made.planAdmin();
        made.planClients();
        made.checkThatNoneIsMissing();
        made.calls.forEach((name, call) -> System.out.println("call " + name + " => " + outcome(call)));
        System.out.flush();
        Runtime.getRuntime().halt(0); // some clients whose calls were refused wait for the broker when they are closed
    }

    private static String outcome(Callable<?> call) {
        try {
            Object found = call.call();
            if (found instanceof KafkaFuture) ((KafkaFuture<?>) found).get(WAIT.toSeconds(), TimeUnit.SECONDS);
            return "answered";
        } catch (Throwable problem) {
            Throwable cause = problem;
            while ((cause instanceof ExecutionException || cause instanceof CompletionException
                || cause.getClass() == org.apache.kafka.common.KafkaException.class) && cause.getCause() != null)
                cause = cause.getCause();
            return cause.getClass().getSimpleName();
        }
    }

    private Map<String, Object> settings(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", address, "default.api.timeout.ms", 15000, "request.timeout.ms", 10000, "enable.metrics.push", true));
        settings.putAll(more);
        return settings;
    }

    private Producer<String, String> producer(String transactionalId) {
        Map<String, Object> settings = settings(Map.of("max.block.ms", 15000));
        if (transactionalId != null) settings.put("transactional.id", transactionalId);
        String serializer = "org.apache.kafka.common.serialization.StringSerializer";
        settings.put("key.serializer", serializer);
        settings.put("value.serializer", serializer);
        return new KafkaProducer<>(settings);
    }

    private Consumer<String, String> consumer(String group, String protocol) {
        return new KafkaConsumer<>(settings(ofConsumer(group, Map.of("group.protocol", protocol, "auto.offset.reset", "earliest"))));
    }

    private static Map<String, Object> ofConsumer(String group, Map<String, Object> more) {
        String deserializer = "org.apache.kafka.common.serialization.StringDeserializer";
        Map<String, Object> settings =
            new HashMap<>(Map.of("group.id", group, "key.deserializer", deserializer, "value.deserializer", deserializer));
        settings.putAll(more);
        return settings;
    }

    /** A topic with records, two groups with offsets and no members, a transactional id, the broker's id and directory. */
    private void prepare() throws Exception {
        admin.createTopics(List.of(new NewTopic("t", 2, (short) 1), new NewTopic("gone", 1, (short) 1))).all().get();
        try (Producer<String, String> producer = producer(null)) {
            for (int number = 0; number < 100; number++) producer.send(new ProducerRecord<>("t", number % 2, null, "value"));
        }
        for (String group : List.of("classic group", "other group"))
            admin.alterConsumerGroupOffsets(group, Map.of(P0, new OffsetAndMetadata(1))).all().get();
        try (Producer<String, String> producer = producer("an id")) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("t", 0, null, "value"));
            producer.commitTransaction();
        }
        broker = admin.describeCluster().nodes().get().iterator().next().id();
        logDirectory = admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker).keySet().iterator().next();
    }

    private void planAdmin() {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "t");
        AclBinding acl = new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL),
            new AccessControlEntry("User:somebody", "*", AclOperation.READ, AclPermissionType.ALLOW));
        AclBindingFilter anyAcl = new AclBindingFilter(ResourcePatternFilter.ANY, AccessControlEntryFilter.ANY);
        ClientQuotaEntity user = new ClientQuotaEntity(Map.of("user", "somebody"));
        calls.put("createTopics", () -> admin.createTopics(List.of(new NewTopic("new", 1, (short) 1))).all());
        calls.put("listTopics", () -> admin.listTopics().names());
        calls.put("describeTopics", () -> admin.describeTopics(List.of("t")).allTopicNames());
        calls.put("createPartitions", () -> admin.createPartitions(Map.of("new", NewPartitions.increaseTo(2))).all());
        calls.put("deleteTopics", () -> admin.deleteTopics(TopicCollection.ofTopicNames(List.of("gone"))).all());
        calls.put("describeCluster", () -> admin.describeCluster().nodes());
        calls.put("describeConfigs", () -> admin.describeConfigs(List.of(topic)).all());
        calls.put("incrementalAlterConfigs", () -> admin.incrementalAlterConfigs(Map.of(topic, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "3600000"), AlterConfigOp.OpType.SET)))).all());
        calls.put("listConfigResources", () -> admin.listConfigResources().all());
        calls.put("listClientMetricsResources", () -> admin.listClientMetricsResources().all());
        calls.put("createAcls", () -> admin.createAcls(List.of(acl)).all());
        calls.put("describeAcls", () -> admin.describeAcls(anyAcl).values());
        calls.put("deleteAcls", () -> admin.deleteAcls(List.of(anyAcl)).all());
        calls.put("alterClientQuotas", () -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
            user, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e6))))).all());
        calls.put("describeClientQuotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities());
        calls.put("alterUserScramCredentials", () -> admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(
            "somebody", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "their password"))).all());
        calls.put("describeUserScramCredentials", () -> admin.describeUserScramCredentials().all());
        calls.put("describeLogDirs", () -> admin.describeLogDirs(List.of(broker)).allDescriptions());
        calls.put("describeReplicaLogDirs",
            () -> admin.describeReplicaLogDirs(List.of(new TopicPartitionReplica("t", 0, broker))).all());
        calls.put("alterReplicaLogDirs",
            () -> admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica("t", 0, broker), logDirectory)).all());
        calls.put("deleteRecords", () -> admin.deleteRecords(Map.of(P1, RecordsToDelete.beforeOffset(5))).all());
        calls.put("listOffsets", () -> admin.listOffsets(Map.of(P0, OffsetSpec.latest(), P1, OffsetSpec.maxTimestamp())).all());
        calls.put("electLeaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(P0)).partitions());
        calls.put("alterPartitionReassignments", () -> admin.alterPartitionReassignments(
            Map.of(P0, Optional.of(new NewPartitionReassignment(List.of(broker))))).all());
        calls.put("listPartitionReassignments", () -> admin.listPartitionReassignments().reassignments());
        planGroups();
        calls.put("describeProducers", () -> admin.describeProducers(List.of(P0)).all());
        calls.put("listTransactions", () -> admin.listTransactions().all());
        calls.put("describeTransactions", () -> admin.describeTransactions(List.of("an id")).all());
        calls.put("fenceProducers", () -> admin.fenceProducers(List.of("an id")).all());
        calls.put("abortTransaction", () -> admin.abortTransaction(new AbortTransactionSpec(P0, 7777, (short) 0, 0)).all());
        calls.put("forceTerminateTransaction", () -> admin.forceTerminateTransaction("an id").result());
        calls.put("describeFeatures", () -> admin.describeFeatures().featureMetadata());
        calls.put("updateFeatures", () -> admin.updateFeatures(
            Map.of("group.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)),
            new UpdateFeaturesOptions().validateOnly(true)).all());
        calls.put("clientInstanceId", () -> admin.clientInstanceId(WAIT));
        calls.put("createDelegationToken", () -> admin.createDelegationToken().delegationToken());
        calls.put("renewDelegationToken", () -> admin.renewDelegationToken(new byte[] {1}).expiryTimestamp());
        calls.put("expireDelegationToken", () -> admin.expireDelegationToken(new byte[] {1}).expiryTimestamp());
        calls.put("describeDelegationToken", () -> admin.describeDelegationToken().delegationTokens());
        calls.put("describeMetadataQuorum", () -> admin.describeMetadataQuorum().quorumInfo());
        calls.put("unregisterBroker", () -> admin.unregisterBroker(4711).all());
        calls.put("unregisterController", () -> all(admin.unregisterController(4711, new UnregisterControllerOptions())));
        calls.put("addRaftVoter", () -> admin.addRaftVoter(
            4711, Uuid.randomUuid(), Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 1))).all());
        calls.put("removeRaftVoter", () -> admin.removeRaftVoter(4711, Uuid.randomUuid()).all());
    }

    private void planGroups() {
        calls.put("listGroups", () -> admin.listGroups().all());
        calls.put("listConsumerGroups", () -> admin.listConsumerGroups().all());
        calls.put("describeConsumerGroups", () -> admin.describeConsumerGroups(List.of("classic group")).all());
        calls.put("describeClassicGroups", () -> admin.describeClassicGroups(List.of("classic group")).all());
        calls.put("listConsumerGroupOffsets", () -> admin.listConsumerGroupOffsets("classic group").all());
        calls.put("alterConsumerGroupOffsets",
            () -> admin.alterConsumerGroupOffsets("classic group", Map.of(P0, new OffsetAndMetadata(2))).all());
        calls.put("deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets("classic group", Set.of(P0)).all());
        calls.put("deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of("other group")).all());
        calls.put("describeShareGroups", () -> admin.describeShareGroups(List.of("a share group")).all());
        calls.put("listShareGroupOffsets", () -> admin.listShareGroupOffsets(
            Map.of("a share group", new ListShareGroupOffsetsSpec())).all());
        calls.put("alterShareGroupOffsets", () -> admin.alterShareGroupOffsets("a share group", Map.of(P0, 1L)).all());
        calls.put("deleteShareGroupOffsets", () -> admin.deleteShareGroupOffsets("a share group", Set.of("t")).all());
        calls.put("deleteShareGroups", () -> admin.deleteShareGroups(List.of("a share group")).all());
        calls.put("describeStreamsGroups", () -> admin.describeStreamsGroups(List.of("a streams group")).all());
        calls.put("listStreamsGroupOffsets", () -> admin.listStreamsGroupOffsets(
            Map.of("a streams group", new ListStreamsGroupOffsetsSpec())).all());
        calls.put("alterStreamsGroupOffsets", () -> admin.alterStreamsGroupOffsets(
            "a streams group", Map.of(P0, new OffsetAndMetadata(1))).all());
        calls.put("deleteStreamsGroupOffsets", () -> admin.deleteStreamsGroupOffsets("a streams group", Set.of(P0)).all());
        calls.put("deleteStreamsGroups", () -> admin.deleteStreamsGroups(List.of("a streams group")).all());
    }

    private void planClients() {
        Producer<String, String> producer = producer("another id");
        calls.put("producer.initTransactions", () -> done(producer::initTransactions));
        calls.put("producer.partitionsFor", () -> producer.partitionsFor("t"));
        calls.put("producer.send", () -> {
            producer.beginTransaction();
            return producer.send(new ProducerRecord<>("t", 0, null, "value")).get();
        });
        calls.put("producer.sendOffsetsToTransaction", () -> done(() -> producer.sendOffsetsToTransaction(
            Map.of(P0, new OffsetAndMetadata(3)), new ConsumerGroupMetadata("a transaction's group"))));
        calls.put("producer.commitTransaction", () -> done(producer::commitTransaction));
        calls.put("producer.abortTransaction", () -> {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("t", 0, null, "value")).get();
            return done(producer::abortTransaction);
        });
        calls.put("producer.clientInstanceId", () -> producer.clientInstanceId(WAIT));
        for (String protocol : List.of("classic", "consumer")) planConsumer(protocol);
        calls.put("share consumer.poll", () -> {
            var consumer = new KafkaShareConsumer<String, String>(settings(ofConsumer("a share group", Map.of())));
            consumer.subscribe(List.of("t"));
            for (long end = System.nanoTime() + WAIT.toNanos(); System.nanoTime() < end;)
                if (consumer.poll(Duration.ofMillis(500)).count() > 0) return "some";
            throw new java.util.concurrent.TimeoutException();
        });
    }

    private void planConsumer(String protocol) {
        Consumer<String, String> consumer = consumer("group of " + protocol, protocol);
        String prefix = protocol + " consumer.";
        calls.put(prefix + "poll", () -> {
            consumer.subscribe(List.of("t"));
            return somethingOf(consumer);
        });
        calls.put(prefix + "commitSync", () -> done(consumer::commitSync));
        calls.put(prefix + "committed", () -> consumer.committed(Set.of(P0)));
        calls.put(prefix + "position", () -> consumer.position(P0));
        calls.put(prefix + "partitionsFor", () -> consumer.partitionsFor("t"));
        calls.put(prefix + "listTopics", () -> consumer.listTopics());
        calls.put(prefix + "offsetsForTimes", () -> consumer.offsetsForTimes(Map.of(P0, 0L)));
        calls.put(prefix + "beginningOffsets", () -> consumer.beginningOffsets(List.of(P0)));
        calls.put(prefix + "endOffsets", () -> consumer.endOffsets(List.of(P0)));
        calls.put(prefix + "clientInstanceId", () -> consumer.clientInstanceId(WAIT));
        if (protocol.equals("consumer"))
            calls.put(prefix + "subscribe to a pattern", () -> {
                consumer.unsubscribe();
                consumer.subscribe(new SubscriptionPattern("t.*"));
                for (long end = System.nanoTime() + WAIT.toNanos(); System.nanoTime() < end;) {
                    consumer.poll(Duration.ofMillis(500));
                    if (consumer.assignment().contains(P0)) return "assigned";
                }
                throw new java.util.concurrent.TimeoutException();
            });
        if (protocol.equals("classic"))
            calls.put("removeMembersFromConsumerGroup", () -> admin.removeMembersFromConsumerGroup(
                "group of classic", new RemoveMembersFromConsumerGroupOptions()).all());
        calls.put(prefix + "close", () -> done(consumer::close));
    }

    private static Object somethingOf(Consumer<String, String> consumer) throws Exception {
        for (long end = System.nanoTime() + WAIT.toNanos(); System.nanoTime() < end;)
            if (consumer.poll(Duration.ofMillis(500)).count() > 0) return "some";
        throw new java.util.concurrent.TimeoutException();
    }

    private static Object all(Object result) throws Exception {
        return result.getClass().getMethod("all").invoke(result);
    }

    private static String done(Runnable call) {
        call.run();
        return "done";
    }

    private void checkThatNoneIsMissing() {
        Collection<String> wanted = new TreeSet<>();
        Arrays.stream(Admin.class.getMethods())
            .filter(method -> Modifier.isAbstract(method.getModifiers()))
            .forEach(method -> wanted.add(method.getName()));
        wanted.removeAll(LOCAL);
        Collection<String> planned = new TreeSet<>(calls.keySet());
        planned.removeIf(name -> name.contains("."));
        if (!planned.equals(wanted)) throw new IllegalStateException("planned " + planned + ", and Admin has " + wanted);
    }
}
