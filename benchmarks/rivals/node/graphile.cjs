// graphile-worker on PostgreSQL: 24 jobs at a time, leased 500 at a time.
"use strict";

const { makeWorkerUtils, run, Logger } = require("graphile-worker");

module.exports = (connectionString, effect) => {
  const logger = new Logger(() => () => {});
  const opened = makeWorkerUtils({ connectionString, logger });
  const add = async (jobs) => (await opened).addJobs(jobs.map((payload) => ({ identifier: "effect", payload })));
  return {
    setUp: async () => (await opened).migrate(),
    submit: async (data) => (await opened).addJob("effect", data),
    submitMany: add,
    work: () =>
      run({
        connectionString,
        logger,
        taskList: { effect },
        preset: { worker: { concurrentJobs: 24, localQueue: { size: 500 } } },
      }),
  };
};
