// Writes older_versions.txt, the bytes that Apache Kafka 3.9 makes of requests and answers which kio has no schema for:
//     java -cp 'lib/*' OlderVersions.java > older_versions.txt
// where lib/ holds kafka-clients 3.9.1 and slf4j-api.

import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

public class OlderVersions {
    static void write(String name, int version, String kind, Message message) {
        ByteBuffer buffer = MessageUtil.toByteBuffer(message, (short) version);
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        System.out.println(name + " " + version + " " + kind + " " + HexFormat.of().formatHex(bytes));
    }

    static void write(String name, int version, Message request, Message response) {
        write(name, version, "request", request);
        write(name, version, "response", response);
    }

    public static void main(String[] arguments) {
        write("list_offsets", 0,
            new ListOffsetsRequestData().setReplicaId(-1).setTopics(List.of(new ListOffsetsRequestData.ListOffsetsTopic()
                .setName("t").setPartitions(List.of(new ListOffsetsRequestData.ListOffsetsPartition()
                    .setPartitionIndex(3).setTimestamp(-2).setMaxNumOffsets(7))))),
            new ListOffsetsResponseData().setTopics(List.of(new ListOffsetsResponseData.ListOffsetsTopicResponse()
                .setName("t").setPartitions(List.of(new ListOffsetsResponseData.ListOffsetsPartitionResponse()
                    .setPartitionIndex(3).setErrorCode((short) 3).setOldStyleOffsets(List.of(9L, 5L)))))));
        for (int version = 0; version < 2; version++) {
            CreateTopicsRequestData.CreatableTopic topic = new CreateTopicsRequestData.CreatableTopic()
                .setName("t").setNumPartitions(-1).setReplicationFactor((short) -1);
            topic.assignments().add(new CreateTopicsRequestData.CreatableReplicaAssignment()
                .setPartitionIndex(0).setBrokerIds(List.of(1, 2)));
            topic.configs().add(new CreateTopicsRequestData.CreatableTopicConfig().setName("k").setValue("v"));
            CreateTopicsRequestData request = new CreateTopicsRequestData().setTimeoutMs(1234);
            request.topics().add(topic);
            if (version == 1) {
                request.setValidateOnly(true);
            }
            CreateTopicsResponseData response = new CreateTopicsResponseData();
            response.topics().add(new CreateTopicsResponseData.CreatableTopicResult()
                .setName("t").setErrorCode((short) 36).setErrorMessage("there"));
            write("create_topics", version, request, response);
        }
        DeleteTopicsResponseData deleted = new DeleteTopicsResponseData();
        deleted.responses().add(new DeleteTopicsResponseData.DeletableTopicResult().setName("t").setErrorCode((short) 3));
        write("delete_topics", 0,
            new DeleteTopicsRequestData().setTopicNames(List.of("t", "u")).setTimeoutMs(1234), deleted);
        for (int version = 0; version < 2; version++) {
            OffsetForLeaderEpochRequestData request = new OffsetForLeaderEpochRequestData();
            request.topics().add(new OffsetForLeaderEpochRequestData.OffsetForLeaderTopic().setTopic("t")
                .setPartitions(List.of(new OffsetForLeaderEpochRequestData.OffsetForLeaderPartition()
                    .setPartition(3).setLeaderEpoch(5))));
            OffsetForLeaderEpochResponseData response = new OffsetForLeaderEpochResponseData();
            response.topics().add(new OffsetForLeaderEpochResponseData.OffsetForLeaderTopicResult().setTopic("t")
                .setPartitions(List.of(new OffsetForLeaderEpochResponseData.EpochEndOffset()
                    .setPartition(3).setErrorCode((short) 0).setLeaderEpoch(5).setEndOffset(77))));
            write("offset_for_leader_epoch", version, request, response);
        }
        write("write_txn_markers", 0,
            new WriteTxnMarkersRequestData().setMarkers(List.of(new WriteTxnMarkersRequestData.WritableTxnMarker()
                .setProducerId(4000).setProducerEpoch((short) 2).setTransactionResult(true).setCoordinatorEpoch(6)
                .setTopics(List.of(new WriteTxnMarkersRequestData.WritableTxnMarkerTopic()
                    .setName("t").setPartitionIndexes(List.of(0, 1)))))),
            new WriteTxnMarkersResponseData().setMarkers(List.of(new WriteTxnMarkersResponseData.WritableTxnMarkerResult()
                .setProducerId(4000).setTopics(List.of(new WriteTxnMarkersResponseData.WritableTxnMarkerTopicResult()
                    .setName("t").setPartitions(List.of(
                        new WriteTxnMarkersResponseData.WritableTxnMarkerPartitionResult()
                            .setPartitionIndex(1).setErrorCode((short) 3))))))));
        write("describe_acls", 0,
            new DescribeAclsRequestData().setResourceTypeFilter((byte) 2).setResourceNameFilter("t")
                .setPrincipalFilter(null).setHostFilter("*").setOperation((byte) 3).setPermissionType((byte) 1),
            new DescribeAclsResponseData().setThrottleTimeMs(11).setErrorCode((short) 54).setErrorMessage("no")
                .setResources(List.of(new DescribeAclsResponseData.DescribeAclsResource()
                    .setResourceType((byte) 2).setResourceName("t").setAcls(List.of(
                        new DescribeAclsResponseData.AclDescription().setPrincipal("User:a").setHost("*")
                            .setOperation((byte) 3).setPermissionType((byte) 3))))));
        write("create_acls", 0,
            new CreateAclsRequestData().setCreations(List.of(new CreateAclsRequestData.AclCreation()
                .setResourceType((byte) 2).setResourceName("t").setPrincipal("User:a").setHost("*")
                .setOperation((byte) 3).setPermissionType((byte) 3))),
            new CreateAclsResponseData().setThrottleTimeMs(11).setResults(List.of(
                new CreateAclsResponseData.AclCreationResult().setErrorCode((short) 54).setErrorMessage("no"))));
        write("delete_acls", 0,
            new DeleteAclsRequestData().setFilters(List.of(new DeleteAclsRequestData.DeleteAclsFilter()
                .setResourceTypeFilter((byte) 2).setResourceNameFilter("t").setPrincipalFilter("User:a")
                .setHostFilter(null).setOperation((byte) 3).setPermissionType((byte) 3))),
            new DeleteAclsResponseData().setThrottleTimeMs(11).setFilterResults(List.of(
                new DeleteAclsResponseData.DeleteAclsFilterResult().setErrorCode((short) 0).setErrorMessage(null)
                    .setMatchingAcls(List.of(new DeleteAclsResponseData.DeleteAclsMatchingAcl()
                        .setErrorCode((short) 54).setErrorMessage("no").setResourceType((byte) 2).setResourceName("t")
                        .setPrincipal("User:a").setHost("*").setOperation((byte) 3).setPermissionType((byte) 3))))));
        write("describe_configs", 0,
            new DescribeConfigsRequestData().setResources(List.of(new DescribeConfigsRequestData.DescribeConfigsResource()
                .setResourceType((byte) 2).setResourceName("t").setConfigurationKeys(List.of("k")))),
            new DescribeConfigsResponseData().setThrottleTimeMs(11).setResults(List.of(
                new DescribeConfigsResponseData.DescribeConfigsResult().setErrorCode((short) 0).setErrorMessage(null)
                    .setResourceType((byte) 2).setResourceName("t").setConfigs(List.of(
                        new DescribeConfigsResponseData.DescribeConfigsResourceResult().setName("k").setValue("v")
                            .setReadOnly(false).setIsDefault(true).setIsSensitive(false))))));
        AlterReplicaLogDirsRequestData move = new AlterReplicaLogDirsRequestData();
        AlterReplicaLogDirsRequestData.AlterReplicaLogDir directory =
            new AlterReplicaLogDirsRequestData.AlterReplicaLogDir().setPath("/d");
        directory.topics().add(new AlterReplicaLogDirsRequestData.AlterReplicaLogDirTopic()
            .setName("t").setPartitions(List.of(0, 1)));
        move.dirs().add(directory);
        write("alter_replica_log_dirs", 0, move,
            new AlterReplicaLogDirsResponseData().setThrottleTimeMs(11).setResults(List.of(
                new AlterReplicaLogDirsResponseData.AlterReplicaLogDirTopicResult().setTopicName("t").setPartitions(List.of(
                    new AlterReplicaLogDirsResponseData.AlterReplicaLogDirPartitionResult()
                        .setPartitionIndex(1).setErrorCode((short) 57))))));
        DescribeLogDirsRequestData describe = new DescribeLogDirsRequestData().setTopics(null);
        write("describe_log_dirs", 0, describe,
            new DescribeLogDirsResponseData().setThrottleTimeMs(11).setResults(List.of(
                new DescribeLogDirsResponseData.DescribeLogDirsResult().setErrorCode((short) 0).setLogDir("/d")
                    .setTopics(List.of(new DescribeLogDirsResponseData.DescribeLogDirsTopic().setName("t").setPartitions(
                        List.of(new DescribeLogDirsResponseData.DescribeLogDirsPartition()
                            .setPartitionIndex(0).setPartitionSize(12).setOffsetLag(1).setIsFutureKey(true))))))));
    }
}
