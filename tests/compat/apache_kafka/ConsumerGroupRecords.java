// Prints what Kafka writes to __consumer_offsets for consumer groups of KIP-848, or with the word "offsets" for committed
// offsets, a line for each record: a name, " = ", the key and the value in hexadecimal.
//
//   JARS=$(.venv/bin/python -c 'from tests.compat.apache_kafka.tools import jars_4; print(jars_4())')
//   java -cp "$JARS/*" tests/compat/apache_kafka/ConsumerGroupRecords.java > tests/broker/group/consumer/records_4.4.txt
//   java -cp "$JARS/*" tests/compat/apache_kafka/ConsumerGroupRecords.java offsets > tests/broker/group/offsets_4.4.txt

import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.OffsetAndMetadata;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupMemberMetadataValue;
import org.apache.kafka.coordinator.group.modern.MemberState;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.coordinator.group.modern.consumer.ResolvedRegularExpression;

public class ConsumerGroupRecords {
    private static final Uuid A = new Uuid(0, 97);
    private static final Uuid B = new Uuid(0, 98);

    public static void main(String[] arguments) {
        if (arguments.length > 0) {
            OptionalInt none = OptionalInt.empty();
            print("offset", offset(new OffsetAndMetadata(42, OptionalInt.of(5), "m", 1000, OptionalLong.empty(), A)));
            print("offset of nobody", offset(new OffsetAndMetadata(42, none, "", 1000, OptionalLong.empty(), Uuid.ZERO_UUID)));
            print("offset with an expiry",
                offset(new OffsetAndMetadata(42, OptionalInt.of(5), "m", 1000, OptionalLong.of(2000), A)));
            print("offset gone", GroupCoordinatorRecordHelpers.newOffsetCommitTombstoneRecord("g", "t", 7));
            return;
        }
        print("group", GroupCoordinatorRecordHelpers.newConsumerGroupEpochRecord("g", 7, -5L));
        print("group without a hash", GroupCoordinatorRecordHelpers.newConsumerGroupEpochRecord("g", 7, 0L));
        print("group gone", GroupCoordinatorRecordHelpers.newConsumerGroupEpochTombstoneRecord("g"));
        print("partitions gone", GroupCoordinatorRecordHelpers.newConsumerGroupSubscriptionMetadataTombstoneRecord("g"));
        print("member", GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionRecord("g", member().build()));
        print("plain member", GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionRecord("g",
            new ConsumerGroupMember.Builder("m").setClientId("c").setClientHost("/h").build()));
        print("classic member", GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionRecord("g",
            member().setClassicMemberMetadata(new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata()
                .setSessionTimeoutMs(45000)
                .setSupportedProtocols(List.of(new ConsumerGroupMemberMetadataValue.ClassicProtocol()
                    .setName("range").setMetadata(new byte[] {1, 2})))).build()));
        print("member gone", GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionTombstoneRecord("g", "m"));
        print("target", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentMetadataRecord("g", 7, 1000L));
        print("early target", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentMetadataRecord("g", 7, 0L));
        print("target gone", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentMetadataTombstoneRecord("g"));
        print("member's target", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentRecord(
            "g", "m", Map.of(A, Set.of(5))));
        print("member's empty target", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentRecord(
            "g", "m", Map.of()));
        print("member's target gone",
            GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentTombstoneRecord("g", "m"));
        print("current", GroupCoordinatorRecordHelpers.newConsumerGroupCurrentAssignmentRecord("g", member()
            .setMemberEpoch(7).setPreviousMemberEpoch(6).setState(MemberState.UNREVOKED_PARTITIONS)
            .setAssignedPartitions(Map.of(A, Map.of(5, 6))).setPartitionsPendingRevocation(Map.of(B, Map.of(0, 3)))
            .build()));
        print("current of nothing", GroupCoordinatorRecordHelpers.newConsumerGroupCurrentAssignmentRecord("g", member()
            .setMemberEpoch(-2).setPreviousMemberEpoch(6).setState(MemberState.STABLE).build()));
        print("current gone", GroupCoordinatorRecordHelpers.newConsumerGroupCurrentAssignmentTombstoneRecord("g", "m"));
        print("regex", GroupCoordinatorRecordHelpers.newConsumerGroupRegularExpressionRecord(
            "g", "a.*", new ResolvedRegularExpression(Set.of("ab"), 3L, 1000L)));
        print("regex gone", GroupCoordinatorRecordHelpers.newConsumerGroupRegularExpressionTombstone("g", "a.*"));
    }

    private static CoordinatorRecord offset(OffsetAndMetadata offset) {
        return GroupCoordinatorRecordHelpers.newOffsetCommitRecord("g", "t", 7, offset);
    }

    private static ConsumerGroupMember.Builder member() {
        return new ConsumerGroupMember.Builder("m").setInstanceId("i").setRackId("r").setClientId("c")
            .setClientHost("/h").setSubscribedTopicNames(List.of("b", "a")).setSubscribedTopicRegex("a.*")
            .setRebalanceTimeoutMs(300000).setServerAssignorName("range");
    }

    private static void print(String name, CoordinatorRecord record) {
        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        byte[] value = serde.serializeValue(record);
        System.out.printf("%s = %s %s%n", name, HexFormat.of().formatHex(serde.serializeKey(record)),
            value == null ? "-" : HexFormat.of().formatHex(value));
    }
}
