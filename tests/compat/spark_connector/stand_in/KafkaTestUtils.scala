// Stands in for the class of this name in the connector's tests: starts Highwater where that one starts Apache Kafka.

package org.apache.spark.sql.kafka010

import java.io.File
import java.nio.file.Files
import java.util.{Collections, Properties, UUID}
import java.util.concurrent.{ExecutionException, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.reflect.io.Directory

import org.apache.kafka.clients.admin._
import org.apache.kafka.clients.producer._
import org.apache.kafka.common.TopicPartition
import org.apache.kafka.common.errors.{TopicExistsException, UnknownTopicOrPartitionException}
import org.apache.kafka.common.serialization.StringSerializer

class KafkaTestUtils(withBrokerProps: Map[String, Object] = Map.empty, secure: Boolean = false) {

  private val deadlineMs = 60000L
  private var directory: File = _
  private var broker: Process = _
  private var address = ""
  private var admin: Admin = _
  private val endBroker = new Thread(() => broker.destroyForcibly())

  def brokerAddress: String = {
    require(address.nonEmpty, "the broker does not run")
    address
  }

  /** Suites override it: they add properties to those that it returns. */
  def brokerConfiguration: Properties = {
    val properties = new Properties()
    properties.put("group.initial.rebalance.delay.ms", "10")
    properties.put("offsets.topic.num.partitions", "1")
    properties.putAll(withBrokerProps.asJava)
    properties
  }

  def setup(): Unit = {
    require(!secure, "this stand-in has no Kerberos and no delegation tokens")
    directory = Files.createTempDirectory("highwater-spark-connector").toFile
    val properties = brokerConfiguration.entrySet().asScala.toSeq
      .map(entry => entry.getKey -> entry.getValue)
      // Of a topic, and not of a broker: Kafka ignores what it does not know, Highwater refuses it.
      .filter { case (name, _) => name != "delete.retention.ms" }
      // What is retained until cleanupLogs() must not go after 30 seconds, as with Kafka, where a host is slow.
      .filter { case (name, _) => !retainsNothing || !name.toString.startsWith("log.retention.") }
      .flatMap { case (name, value) => Seq("--property", s"$name=$value") }
    val python = System.getProperty("highwater.python")
    val command = Seq(python, "-m", "highwater", "broker", "start", "--port", "0") ++
      Seq("--log-dir", new File(directory, "log").getPath) ++ properties
    broker = new ProcessBuilder(command.asJava)
      .redirectError(new File(directory, "broker.log"))
      .start()
    Runtime.getRuntime.addShutdownHook(endBroker)
    val ready = "ready: listening on (\\S+) .*".r
    broker.inputReader().readLine() match {
      case ready(listening) => address = listening
      case _ => throw new IllegalStateException(Files.readString(new File(directory, "broker.log").toPath))
    }
    admin = Admin.create(Map[String, Object]("bootstrap.servers" -> address).asJava)
  }

  def teardown(): Unit = {
    address = ""
    if (admin != null) admin.close()
    if (broker != null) {
      Runtime.getRuntime.removeShutdownHook(endBroker)
      broker.destroyForcibly().waitFor()
    }
    if (directory != null) new Directory(directory).deleteRecursively()
  }

  // Topics

  def createTopic(topic: String): Unit = createTopic(topic, 1)

  def createTopic(topic: String, partitions: Int, overwrite: Boolean = false): Unit = {
    val wanted = Collections.singleton(new NewTopic(topic, partitions, 1.toShort))
    try {
      admin.createTopics(wanted).all().get()
    } catch {
      case exists: ExecutionException if exists.getCause.isInstanceOf[TopicExistsException] =>
        // The class that this one stands for does not see this error where it is not to overwrite.
        if (overwrite) {
          deleteTopic(topic)
          admin.createTopics(wanted).all().get()
        }
    }
    until(s"$topic has $partitions partitions")(partitionsOf(topic) >= partitions)
  }

  def deleteTopic(topic: String): Unit = {
    // A consumer that still asks for the topic creates it again.
    until(s"$topic is gone") {
      try {
        admin.deleteTopics(Collections.singleton(topic)).all().get()
      } catch {
        case gone: ExecutionException if gone.getCause.isInstanceOf[UnknownTopicOrPartitionException] =>
      }
      partitionsOf(topic) == 0
    }
  }

  def addPartitions(topic: String, partitions: Int): Unit = {
    admin.createPartitions(Collections.singletonMap(topic, NewPartitions.increaseTo(partitions))).all().get()
    until(s"$topic has $partitions partitions")(partitionsOf(topic) == partitions)
  }

  def getAllTopicsAndPartitionSize(): Seq[(String, Int)] = {
    val topics = admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get()
    topics.asScala.toSeq.map(topic => topic -> partitionsOf(topic))
  }

  private def retainsNothing: Boolean = withBrokerProps.get("log.retention.ms").exists(_.toString == "1")

  private def partitionsOf(topic: String): Int = {
    try {
      admin.describeTopics(Collections.singleton(topic)).allTopicNames().get().get(topic).partitions().size
    } catch {
      case gone: ExecutionException if gone.getCause.isInstanceOf[UnknownTopicOrPartitionException] => 0
    }
  }

  // Records

  def sendMessages(topic: String, messages: Array[String]): Seq[(String, RecordMetadata)] =
    sendMessages(topic, messages, None)

  def sendMessages(topic: String, messages: Array[String], partition: Option[Int]): Seq[(String, RecordMetadata)] =
    sendMessages(messages.toSeq.map { message =>
      val number: Integer = partition.map(Int.box).orNull
      new ProducerRecord[String, String](topic, number, null, message)
    })

  def sendMessage(record: ProducerRecord[String, String]): Seq[(String, RecordMetadata)] = sendMessages(Seq(record))

  def sendMessages(records: Array[ProducerRecord[String, String]]): Seq[(String, RecordMetadata)] =
    sendMessages(records.toSeq)

  def sendMessages(records: Seq[ProducerRecord[String, String]]): Seq[(String, RecordMetadata)] = {
    val producer = new KafkaProducer[String, String](producerSettings)
    try {
      // One after the other: records without a key go to the partitions in turn only if each is a batch of its own.
      records.map(record => record.value -> producer.send(record).get(10, TimeUnit.SECONDS))
    } finally {
      producer.close()
    }
  }

  def withTransactionalProducer(use: KafkaProducer[String, String] => Unit): Unit = {
    val settings = producerSettings
    settings.put("transactional.id", UUID.randomUUID().toString)
    val producer = new KafkaProducer[String, String](settings)
    try {
      producer.initTransactions()
      use(producer)
    } finally {
      producer.close()
    }
  }

  private def producerSettings: Properties = {
    val settings = new Properties()
    settings.put("bootstrap.servers", brokerAddress)
    settings.put("acks", "all")
    settings.put("key.serializer", classOf[StringSerializer].getName)
    settings.put("value.serializer", classOf[StringSerializer].getName)
    // Deprecated, and yet what the suites count on: many of them want every partition to get a record.
    settings.put("partitioner.class", "org.apache.kafka.clients.producer.internals.DefaultPartitioner")
    settings
  }

  // Offsets and groups

  def getEarliestOffsets(topics: Set[String]): Map[TopicPartition, Long] = offsets(topics, OffsetSpec.earliest())

  def getLatestOffsets(topics: Set[String]): Map[TopicPartition, Long] = offsets(topics, OffsetSpec.latest())

  private def offsets(topics: Set[String], at: OffsetSpec): Map[TopicPartition, Long] = {
    val partitions = for {
      (topic, description) <- admin.describeTopics(topics.asJava).allTopicNames().get().asScala
      partition <- description.partitions().asScala
    } yield new TopicPartition(topic, partition.partition())
    val asked = partitions.map(_ -> at).toMap.asJava
    admin.listOffsets(asked).all().get().asScala.map { case (of, found) => of -> found.offset() }.toMap
  }

  def waitUntilOffsetAppears(of: TopicPartition, offset: Long): Unit =
    until(s"$of has offset $offset")(getLatestOffsets(Set(of.topic)).get(of).exists(_ >= offset))

  /** Removes all records, as Kafka's own pass of retention does with the properties of the one test that calls it. */
  def cleanupLogs(): Unit = {
    require(retainsNothing, "only where nothing is retained")
    val topics = admin.listTopics().names().get().asScala.toSet
    val all = getLatestOffsets(topics).keys.map(_ -> RecordsToDelete.beforeOffset(-1)).toMap
    admin.deleteRecords(all.asJava).all().get()
  }

  def listConsumerGroups(): ListConsumerGroupsResult = admin.listConsumerGroups()

  private def until(what: String)(isSo: => Boolean): Unit = {
    val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(deadlineMs)
    while (!isSo) {
      require(System.nanoTime() < deadline, s"not within $deadlineMs ms: $what")
      Thread.sleep(20)
    }
  }
}
