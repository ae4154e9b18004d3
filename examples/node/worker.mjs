// A worker in Node: leases jobs over HTTP, runs them, keeps their leases, and settles them.
// It needs nothing but Node 18 or newer.
//
//   LEASEHOLD_URL=http://127.0.0.1:8700 LEASEHOLD_TOKEN=lh_... node worker.mjs
//
// The token needs the role `consumer`. SIGTERM or Ctrl-C lets the job in hand finish.

import process from "node:process";

const url = `${process.env.LEASEHOLD_URL ?? "http://127.0.0.1:8700"}/api/v1`;
const token = process.env.LEASEHOLD_TOKEN;
const queues = (process.env.LEASEHOLD_QUEUES ?? "default").split(",");
const worker = `node-${process.pid}`;

// Your tasks, by name. What they return is the job's result; what they throw fails the attempt.
const tasks = {
  async greet({ kwargs }) {
    return { greeting: `Hello, ${kwargs.name}, from Node` };
  },
};

const stopping = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => stopping.abort());

class Refused extends Error {}

async function call(path, body, signal) {
  const response = await fetch(`${url}${path}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  const answer = await response.json();
  if (response.ok) return answer;
  // Programs go by the code, which stays the same.
  const refused = new Refused(`${answer.code}: ${answer.detail}`);
  refused.isFinal = response.status === 401 || response.status === 403;
  throw refused;
}

async function run(lease) {
  const held = { version: lease.version, secret: lease.secret };
  const path = `/jobs/${encodeURIComponent(lease.job_id)}`;
  // A lease that is not renewed in time goes to another worker.
  const heartbeat = setInterval(
    () => call(`${path}/renew`, held).catch((error) => console.error(`renew: ${error.message}`)),
    lease.next_heartbeat_seconds * 1000,
  );
  let settlement;
  try {
    const result = await tasks[lease.task](lease.payload);
    settlement = ["complete", { ...held, result }];
  } catch (error) {
    const told = { type: error.name, message: error.message, traceback: error.stack };
    settlement = ["fail", { ...held, error: told }];
  } finally {
    clearInterval(heartbeat);
  }
  const [outcome, body] = settlement;
  const { status } = await call(`${path}/${outcome}`, body);
  console.log(`${lease.job_id} ${status}`);
}

const pause = (seconds) => new Promise((resume) => setTimeout(resume, seconds * 1000));

console.log(`${worker} works on ${queues.join(", ")}`);
while (!stopping.signal.aborted) {
  try {
    // Waits up to 20 seconds for a job, and comes back with none if there is none.
    const wanted = { worker, queues, tasks: Object.keys(tasks), limit: 1 };
    const { leases } = await call("/leases", wanted, stopping.signal);
    for (const lease of leases) await run(lease);
  } catch (error) {
    if (stopping.signal.aborted) break;
    console.error(error.message);
    if (error.isFinal) process.exit(1); // the token is not good: trying again does not help
    await pause(1); // the service is away, or the lease was lost: the next one is looked for
  }
}
console.log(`${worker} stops`);
