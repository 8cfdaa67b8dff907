// Stands in for a trait of the token provider's tests, which are not published: tokens in the user's credentials.

package org.apache.spark.kafka010

import org.apache.hadoop.io.Text
import org.apache.hadoop.security.UserGroupInformation
import org.apache.hadoop.security.token.Token
import org.mockito.Mockito
import org.scalatest.BeforeAndAfterEach

import org.apache.spark.{SparkConf, SparkEnv, SparkFunSuite}

/** What KafkaDataConsumerSuite uses of it. */
trait KafkaDelegationTokenTest extends BeforeAndAfterEach { self: SparkFunSuite =>

  private var savedSparkEnv: SparkEnv = _

  protected val tokenId1 = "first token"
  protected val tokenPassword1 = "first password"
  protected val tokenId2 = "second token"
  protected val tokenPassword2 = "second password"
  protected val identifier1 = "cluster1"
  protected val tokenService1 = KafkaTokenUtil.getTokenService(identifier1)
  protected val bootStrapServers = "127.0.0.1:0"

  override def beforeEach(): Unit = {
    super.beforeEach()
    savedSparkEnv = SparkEnv.get
  }

  override def afterEach(): Unit = {
    UserGroupInformation.reset()
    SparkEnv.set(savedSparkEnv)
    super.afterEach()
  }

  protected def setSparkEnv(settings: Iterable[(String, String)]): Unit = {
    val environment = Mockito.mock(classOf[SparkEnv])
    Mockito.when(environment.conf).thenReturn(new SparkConf().setAll(settings))
    SparkEnv.set(environment)
  }

  protected def addTokenToUGI(service: Text, id: String, password: String): Unit = {
    val token = new Token(id.getBytes, password.getBytes, KafkaTokenUtil.TOKEN_KIND, service)
    UserGroupInformation.getCurrentUser.addToken(token)
  }
}
