// One worker process of graphile-worker, with its local queue; `... URL migrate` makes its tables.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(`${process.env.LEASEHOLD_BENCH_GRAPHILE}/`);
const { run, runMigrations } = require("graphile-worker");
const { Pool } = require("pg");

const [url, command] = process.argv.slice(2);
const pgPool = new Pool({ connectionString: url, max: 12 });
const quiet = new (require("graphile-worker").Logger)(() => () => {});
if (command === "migrate") {
  await runMigrations({ pgPool, logger: quiet });
  await pgPool.end();
  process.exit(0);
}
console.log("ready");
await new Promise((go) => createInterface({ input: process.stdin }).once("line", go));
const worker = { concurrentJobs: 24, localQueue: { size: 500 }, completeJobBatchDelay: 0 };
await run({
  pgPool,
  logger: quiet,
  noHandleSignals: true,
  taskList: { noop: async () => {} },
  preset: { worker },
});
const left = "SELECT EXISTS (SELECT 1 FROM graphile_worker._private_jobs) AS some";
while ((await pgPool.query(left)).rows[0].some) {
  await new Promise((on) => setTimeout(on, 10));
}
console.log("done");
