"""Which suites of the connector are cases, and which suites and tests are left out, each with its reason."""

from __future__ import annotations

from typing import Final

SUITES: Final = (
    "ConsumerStrategySuite",
    "JsonUtilsSuite",
    "KafkaConsumerPoolRealTimeModeSuite",
    "KafkaContinuousSinkSuite",
    "KafkaContinuousSourceStressForDontFailOnDataLossSuite",
    "KafkaContinuousSourceSuite",
    "KafkaContinuousSourceTopicDeletionSuite",
    "KafkaDontFailOnDataLossSuite",
    "KafkaMicroBatchV1SourceWithAdminSuite",
    "KafkaMicroBatchV1SourceWithConsumerSuite",
    "KafkaMicroBatchV2SourceWithAdminSuite",
    "KafkaMicroBatchV2SourceWithConsumerSuite",
    "KafkaOffsetRangeCalculatorSuite",
    "KafkaOffsetReaderSuite",
    "KafkaRealTimeIntegrationSuite",
    "KafkaRealTimeModeE2ESuite",
    "KafkaRealTimeModeSuite",
    "KafkaRelationSuiteV1",
    "KafkaRelationSuiteV2",
    "KafkaRelationSuiteWithAdminV1",
    "KafkaRelationSuiteWithAdminV2",
    "KafkaSinkBatchSuiteV1",
    "KafkaSinkBatchSuiteV2",
    "KafkaSinkMicroBatchStreamingSuite",
    "KafkaSourceOffsetSuite",
    "KafkaSourceProviderSuite",
    "KafkaSourceStressForDontFailOnDataLossSuite",
    "KafkaSourceStressSuite",
    "KafkaSparkConfSuite",
    "consumer.FetchedDataPoolSuite",
    "consumer.InternalKafkaConsumerPoolSuite",
    "consumer.KafkaDataConsumerSuite",
    "producer.InternalKafkaProducerPoolSuite",
)
"""Every concrete suite of the test jar of connector 4.2.0 but those of SUITES_LEFT_OUT."""
SUITES_LEFT_OUT: Final = {
    "KafkaDelegationTokenSuite": "Kerberos and delegation tokens, which our broker does not have",
}
TESTS_LEFT_OUT: Final[dict[tuple[str, str], str]] = {}
"""(suite, test): why it may fail."""
