// A rival of the Node world in a process of its own: the same verbs as run.py has.
//     node run.cjs RIVAL VERB [JOBS [SECONDS [PER_SECOND]]]
"use strict";

const fs = require("fs");
const path = require("path");

const CHUNK = 500;
const PACKAGES = { bullmq: "bullmq", graphile: "graphile-worker" };
const [name, verb, jobs, seconds, perSecond] = process.argv.slice(2);
const pause = (millis) => new Promise((done) => setTimeout(done, millis));
const now = () => (performance.timeOrigin + performance.now()) / 1000;

// Takes so long, then appends one record, as effects.py does.
async function effect({ number, sent, seconds }) {
  const ran = now();
  if (seconds) await pause(1000 * seconds);
  const record = Buffer.alloc(24);
  record.writeBigUInt64LE(BigInt(number), 0);
  record.writeDoubleLE(sent, 8);
  record.writeDoubleLE(ran, 16);
  fs.appendFileSync(process.env.BENCH_EFFECTS, record);
}

async function submitAll(rival, total) {
  let due = performance.now();
  for (let first = 0; first < total; first += verb === "bulk" ? CHUNK : 1) {
    if (verb === "paced") {
      due += 1000 / Number(perSecond);
      // A timer is as coarse as a millisecond: what is late goes at once.
      const early = due - performance.now();
      if (early > 0) await pause(early);
    }
    if (verb === "bulk") {
      const size = Math.min(CHUNK, total - first);
      await rival.submitMany(Array.from({ length: size }, (_, i) => ({ number: first + i, sent: 0, seconds: 0 })));
    } else {
      await rival.submit({ number: first, sent: now(), seconds: Number(seconds || 0) });
    }
  }
}

async function main() {
  const rival = require(path.join(__dirname, `${name}.cjs`))(process.env.BENCH_URL, effect);
  if (verb === "work") return rival.work();
  if (verb === "set_up") {
    await rival.setUp();
    const about = path.join(process.env.NODE_PATH, PACKAGES[name], "package.json");
    console.log(JSON.parse(fs.readFileSync(about)).version, "bulk");
  } else {
    await rival.submit({ number: Number(jobs), sent: now(), seconds: 0 });
    const gate = process.env.BENCH_GATE;
    while (gate && !fs.existsSync(gate)) await pause(1);
    const started = process.hrtime.bigint();
    await submitAll(rival, Number(jobs));
    console.log(Number(process.hrtime.bigint() - started) / 1e9);
  }
  process.exit(0);
}

main().catch((error) => {
  console.error(String(error));
  process.exit(1);
});
