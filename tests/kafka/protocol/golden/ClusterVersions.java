// Writes cluster_versions.txt, the bytes that Apache Kafka 3.9 makes of what a ZooKeeper-mode controller and its brokers
// ask each other:
//     java -cp 'lib/*' ClusterVersions.java > cluster_versions.txt
// where lib/ holds kafka-clients 3.9.2 and slf4j-api.

import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

public class ClusterVersions {
    static final Uuid TOPIC_ID = new Uuid(0x0123456789abcdefL, 0x0fedcba987654321L);

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

    static void leaderAndIsr(int version) {
        LeaderAndIsrRequestData.LeaderAndIsrPartitionState state = new LeaderAndIsrRequestData.LeaderAndIsrPartitionState()
            .setPartitionIndex(3).setControllerEpoch(7).setLeader(1).setLeaderEpoch(9).setIsr(List.of(1, 2))
            .setPartitionEpoch(11).setReplicas(List.of(1, 2, 4)).setAddingReplicas(List.of(4))
            .setRemovingReplicas(List.of(2)).setIsNew(true);
        if (version < 2) {
            state.setTopicName("t");
        }
        if (version >= 6) {
            state.setLeaderRecoveryState((byte) 1);
        }
        LeaderAndIsrRequestData request = new LeaderAndIsrRequestData().setControllerId(5).setControllerEpoch(7)
            .setBrokerEpoch(123456789012L)
            .setLiveLeaders(List.of(new LeaderAndIsrRequestData.LeaderAndIsrLiveLeader()
                .setBrokerId(1).setHostName("h").setPort(9092)));
        if (version < 2) {
            request.setUngroupedPartitionStates(List.of(state));
        } else {
            request.setTopicStates(List.of(new LeaderAndIsrRequestData.LeaderAndIsrTopicState()
                .setTopicName("t").setTopicId(TOPIC_ID).setPartitionStates(List.of(state))));
        }
        if (version >= 5) {
            request.setType((byte) 1);
        }
        LeaderAndIsrResponseData response = new LeaderAndIsrResponseData().setErrorCode((short) 11);
        LeaderAndIsrResponseData.LeaderAndIsrPartitionError error =
            new LeaderAndIsrResponseData.LeaderAndIsrPartitionError().setPartitionIndex(3).setErrorCode((short) 56);
        if (version < 5) {
            response.setPartitionErrors(List.of(error.setTopicName("t")));
        } else {
            response.topics().add(new LeaderAndIsrResponseData.LeaderAndIsrTopicError()
                .setTopicId(TOPIC_ID).setPartitionErrors(List.of(error)));
        }
        write("leader_and_isr", version, request, response);
    }

    static void stopReplica(int version) {
        StopReplicaRequestData request = new StopReplicaRequestData().setControllerId(5).setControllerEpoch(7)
            .setBrokerEpoch(123456789012L);
        if (version < 3) {
            request.setDeletePartitions(true);
        }
        if (version == 0) {
            request.setUngroupedPartitions(List.of(new StopReplicaRequestData.StopReplicaPartitionV0()
                .setTopicName("t").setPartitionIndex(3)));
        } else if (version < 3) {
            request.setTopics(List.of(new StopReplicaRequestData.StopReplicaTopicV1()
                .setName("t").setPartitionIndexes(List.of(3, 4))));
        } else {
            request.setTopicStates(List.of(new StopReplicaRequestData.StopReplicaTopicState().setTopicName("t")
                .setPartitionStates(List.of(new StopReplicaRequestData.StopReplicaPartitionState()
                    .setPartitionIndex(3).setLeaderEpoch(9).setDeletePartition(true)))));
        }
        write("stop_replica", version, request,
            new StopReplicaResponseData().setErrorCode((short) 11).setPartitionErrors(List.of(
                new StopReplicaResponseData.StopReplicaPartitionError()
                    .setTopicName("t").setPartitionIndex(3).setErrorCode((short) 74))));
    }

    static void updateMetadata(int version) {
        UpdateMetadataRequestData.UpdateMetadataPartitionState state =
            new UpdateMetadataRequestData.UpdateMetadataPartitionState().setPartitionIndex(3).setControllerEpoch(7)
                .setLeader(1).setLeaderEpoch(9).setIsr(List.of(1, 2)).setZkVersion(11).setReplicas(List.of(1, 2, 4))
                .setOfflineReplicas(List.of(4));
        UpdateMetadataRequestData.UpdateMetadataBroker broker = new UpdateMetadataRequestData.UpdateMetadataBroker().setId(1);
        if (version == 0) {
            broker.setV0Host("h").setV0Port(9092);
        } else {
            UpdateMetadataRequestData.UpdateMetadataEndpoint endpoint =
                new UpdateMetadataRequestData.UpdateMetadataEndpoint().setPort(9092).setHost("h").setSecurityProtocol((short) 3);
            broker.setEndpoints(List.of(version >= 3 ? endpoint.setListener("INSIDE") : endpoint));
        }
        broker.setRack("r");
        UpdateMetadataRequestData request = new UpdateMetadataRequestData().setControllerId(5).setControllerEpoch(7)
            .setBrokerEpoch(123456789012L).setLiveBrokers(List.of(broker,
                new UpdateMetadataRequestData.UpdateMetadataBroker().setId(2).setRack(null)));
        if (version < 5) {
            request.setUngroupedPartitionStates(List.of(state.setTopicName("t")));
        } else {
            request.setTopicStates(List.of(new UpdateMetadataRequestData.UpdateMetadataTopicState()
                .setTopicName("t").setTopicId(TOPIC_ID).setPartitionStates(List.of(state))));
        }
        if (version >= 8) {
            request.setType((byte) 2);
        }
        write("update_metadata", version, request, new UpdateMetadataResponseData().setErrorCode((short) 77));
    }

    static void alterPartition(int version) {
        AlterPartitionRequestData.PartitionData partition = new AlterPartitionRequestData.PartitionData()
            .setPartitionIndex(3).setLeaderEpoch(9).setPartitionEpoch(11);
        if (version < 3) {
            partition.setNewIsr(List.of(1, 2));
        } else {
            partition.setNewIsrWithEpochs(List.of(
                new AlterPartitionRequestData.BrokerState().setBrokerId(1),
                new AlterPartitionRequestData.BrokerState().setBrokerId(2).setBrokerEpoch(44)));
        }
        AlterPartitionResponseData.PartitionData answer = new AlterPartitionResponseData.PartitionData()
            .setPartitionIndex(3).setErrorCode((short) 107).setLeaderId(1).setLeaderEpoch(9).setIsr(List.of(1, 2))
            .setPartitionEpoch(12);
        if (version >= 1) {
            partition.setLeaderRecoveryState((byte) 1);
            answer.setLeaderRecoveryState((byte) 1);
        }
        write("alter_partition", version,
            new AlterPartitionRequestData().setBrokerId(5).setBrokerEpoch(123456789012L).setTopics(List.of(
                new AlterPartitionRequestData.TopicData().setTopicName("t").setTopicId(TOPIC_ID)
                    .setPartitions(List.of(partition)))),
            new AlterPartitionResponseData().setThrottleTimeMs(11).setErrorCode((short) 41).setTopics(List.of(
                new AlterPartitionResponseData.TopicData().setTopicName("t").setTopicId(TOPIC_ID)
                    .setPartitions(List.of(answer)))));
    }

    public static void main(String[] arguments) {
        for (int version = 0; version <= 7; version++) {
            leaderAndIsr(version);
        }
        for (int version = 0; version <= 4; version++) {
            stopReplica(version);
        }
        for (int version = 0; version <= 8; version++) {
            updateMetadata(version);
        }
        for (int version = 0; version <= 3; version++) {
            ControlledShutdownResponseData response = new ControlledShutdownResponseData().setErrorCode((short) 41);
            response.remainingPartitions().add(new ControlledShutdownResponseData.RemainingPartition()
                .setTopicName("t").setPartitionIndex(3));
            write("controlled_shutdown", version,
                new ControlledShutdownRequestData().setBrokerId(5).setBrokerEpoch(123456789012L), response);
            alterPartition(version);
        }
        write("allocate_producer_ids", 0,
            new AllocateProducerIdsRequestData().setBrokerId(5).setBrokerEpoch(123456789012L),
            new AllocateProducerIdsResponseData().setThrottleTimeMs(11).setErrorCode((short) 77)
                .setProducerIdStart(5000).setProducerIdLen(1000));
    }
}
