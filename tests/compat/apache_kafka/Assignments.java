// Prints what Kafka's assignors make of groups: each line that it reads, and after " | " and " | " the targets of
// range and of uniform, in the order of the members.
//
//   JARS=$(.venv/bin/python -c 'from tests.compat.apache_kafka.tools import jars_4; print(jars_4())')
//   .venv/bin/python -m tests.broker.group.assignors.lives |
//       java -cp "$JARS/*" tests/compat/apache_kafka/Assignments.java > tests/broker/group/assignors/targets_4.4.txt

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class Assignments {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        StringBuilder told = new StringBuilder();
        while (lines.hasNextLine()) {
            String line = lines.nextLine();
            told.append(line)
                .append(" | ").append(target(new RangeAssignor(), line))
                .append(" | ").append(target(new UniformAssignor(), line)).append('\n');
        }
        System.out.print(told);
    }

    private static String target(ConsumerGroupPartitionAssignor assignor, String line) {
        String[] fields = line.split(";", -1);
        Map<Uuid, Integer> counts = new HashMap<>();
        for (String each : words(fields[1])) {
            String[] pair = each.split(":");
            counts.put(topic(pair[0]), Integer.parseInt(pair[1]));
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (int at = 2; at + 3 < fields.length; at += 4) {
            String memberId = fields[at];
            Set<Uuid> subscribed = new HashSet<>();
            for (String each : words(fields[at + 2])) {
                subscribed.add(topic(each));
            }
            Map<Uuid, Set<Integer>> assigned = new TreeMap<>();
            for (String each : words(fields[at + 3])) {
                String[] pair = each.split(":");
                for (String partition : pair[1].split(",")) {
                    assigned.computeIfAbsent(topic(pair[0]), __ -> new TreeSet<>()).add(Integer.parseInt(partition));
                    owners.computeIfAbsent(topic(pair[0]), __ -> new HashMap<>())
                        .put(Integer.parseInt(partition), memberId);
                }
            }
            Optional<String> instanceId = fields[at + 1].isEmpty() ? Optional.empty() : Optional.of(fields[at + 1]);
            members.put(memberId, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instanceId, subscribed, new Assignment(assigned)));
        }
        SubscriptionType type = SubscriptionType.valueOf(fields[0]);
        Map<String, MemberAssignment> target = assignor.assign(new GroupSpecImpl(members, type, owners), describer(counts))
            .members();
        List<String> shown = new ArrayList<>();
        for (String memberId : members.keySet()) {
            shown.add(target.containsKey(memberId) ? shown(target.get(memberId).partitions()) : "");
        }
        return String.join(";", shown);
    }

    private static SubscribedTopicDescriber describer(Map<Uuid, Integer> counts) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                return counts.getOrDefault(topicId, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return Set.of();
            }
        };
    }

    private static String shown(Map<Uuid, Set<Integer>> partitions) {
        List<String> topics = new ArrayList<>();
        for (Map.Entry<Uuid, Set<Integer>> each : new TreeMap<>(partitions).entrySet()) {
            List<String> numbers = new ArrayList<>();
            for (int partition : new TreeSet<>(each.getValue())) {
                numbers.add(Integer.toString(partition));
            }
            topics.add("T" + each.getKey().getLeastSignificantBits() + ":" + String.join(",", numbers));
        }
        return String.join(" ", topics);
    }

    private static Uuid topic(String name) {
        return new Uuid(0L, Long.parseLong(name.substring(1)));
    }

    private static String[] words(String text) {
        return text.isEmpty() ? new String[0] : text.split(" ");
    }
}
