// Writes newer_versions.txt, the bytes that Apache Kafka 4.4 makes of requests and answers which kio has no schema for:
//     java -cp 'lib/*' NewerVersions.java > newer_versions.txt
// where lib/ holds kafka-clients 4.4.0 and slf4j-api.

import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class NewerVersions {
    static void write(String name, int version, String kind, Message message) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, (short) version));
        message.write(new ByteBufferAccessor(buffer), cache, (short) version);
        System.out.println(name + " " + version + " " + kind + " " + HexFormat.of().formatHex(buffer.array()));
    }

    public static void main(String[] arguments) {
        write("api_versions", 5, "request", new ApiVersionsRequestData()
            .setClientSoftwareName("a-client").setClientSoftwareVersion("1.0").setClusterId("c").setNodeId(3));
        ApiVersionsResponseData versions = new ApiVersionsResponseData().setErrorCode((short) 129).setThrottleTimeMs(11);
        versions.apiKeys().add(new ApiVersionsResponseData.ApiVersion()
            .setApiKey((short) 18).setMinVersion((short) 0).setMaxVersion((short) 5));
        write("api_versions", 5, "response", versions);
        write("delete_groups", 3, "request", new DeleteGroupsRequestData().setGroupsNames(List.of("g", "h")));
        DeleteGroupsResponseData deleted = new DeleteGroupsResponseData().setThrottleTimeMs(11);
        deleted.results().add(new DeleteGroupsResponseData.DeletableGroupResult()
            .setGroupId("g").setErrorCode((short) 68).setErrorMessage("no"));
        write("delete_groups", 3, "response", deleted);
        Uuid topicId = new Uuid(1, 2);
        write("txn_offset_commit", 6, "request", new TxnOffsetCommitRequestData()
            .setTransactionalId("x").setGroupId("g").setProducerId(4000).setProducerEpoch((short) 2)
            .setGenerationIdOrMemberEpoch(7).setMemberId("m").setGroupInstanceId("i").setTopics(List.of(
                new TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic().setTopicId(topicId).setPartitions(List.of(
                    new TxnOffsetCommitRequestData.TxnOffsetCommitRequestPartition().setPartitionIndex(3)
                        .setCommittedOffset(77).setCommittedLeaderEpoch(5).setCommittedMetadata("k"))))));
        TxnOffsetCommitResponseData committed = new TxnOffsetCommitResponseData().setThrottleTimeMs(11);
        committed.topics().add(new TxnOffsetCommitResponseData.TxnOffsetCommitResponseTopic()
            .setTopicId(topicId).setPartitions(List.of(
                new TxnOffsetCommitResponseData.TxnOffsetCommitResponsePartition()
                    .setPartitionIndex(3).setErrorCode((short) 69))));
        write("txn_offset_commit", 6, "response", committed);
    }
}
