// kafkajs as a client of `python -m tools.fault_recipes`. Arguments: the folder of node_modules, then as librdkafka_client.py.
import { createRequire } from "node:module";

const [packages, role, server, seconds] = process.argv.slice(2);
const require = createRequire(`${packages}/`);
const { Kafka, logLevel } = require("kafkajs");
const version = `kafkajs ${require("kafkajs/package.json").version}, Node.js ${process.versions.node}`;
const kafka = new Kafka({ clientId: "recipe", brokers: [server], logLevel: logLevel.NOTHING });
const values = Array.from({ length: 10 }, (_, number) => `record-${number}`);
const messages = values.map((value) => ({ value }));
const errors = [];
let started = Date.now();
const report = (found) => {
  console.log(JSON.stringify({ version, errors, seconds: (Date.now() - started) / 1000, ...found }));
  process.exit(0);
};
const name = (error) => error.type ?? error.name;
const note = (error) => errors.push(name(error));

if (role === "consume") {
  const consumer = kafka.consumer({ groupId: "recipe", sessionTimeout: 6000, heartbeatInterval: 1000 });
  const read = [];
  let first = null;
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    errors.push(`CRASH with restart ${payload.restart}: ${name(payload.error)}`);
  });
  setTimeout(() => report({ values: read, first }), 1000 * Number(seconds));
  await consumer.connect();
  await consumer.subscribe({ topic: "t", fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ message }) => {
      first ??= (Date.now() - started) / 1000;
      read.push(message.value.toString());
    },
  });
} else if (role === "produce") {
  const producer = kafka.producer();
  await producer.connect();
  started = Date.now();
  const sent = await producer.send({ topic: "t", messages }).catch(note);
  report({ delivered: typeof sent === "object" ? 10 : 0, failed: typeof sent === "object" ? 0 : 10 });
} else {
  const producer = kafka.producer({ transactionalId: "recipe", maxInFlightRequests: 1, idempotent: true });
  await producer.connect();
  started = Date.now();
  const transaction = await producer.transaction();
  await transaction.send({ topic: "t", messages });
  await transaction.commit().catch(note);
  report({});
}
