// BullMQ on Redis: a hundred jobs at a time.
"use strict";

const { Queue, Worker } = require("bullmq");
const Redis = require("ioredis");

module.exports = (url, effect) => {
  const connection = () => new Redis(url, { maxRetriesPerRequest: null });
  const options = { removeOnComplete: true };
  const queue = new Queue("effects", { connection: connection() });
  return {
    setUp: () => queue.waitUntilReady(),
    submit: (data) => queue.add("effect", data, options),
    submitMany: (all) => queue.addBulk(all.map((data) => ({ name: "effect", data, opts: options }))),
    work: () => new Worker("effects", (job) => effect(job.data), { connection: connection(), concurrency: 100 }),
  };
};
