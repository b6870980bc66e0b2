import assert from "node:assert/strict";
import { test } from "node:test";
import type { Slot } from "../../api/types.ts";
import { readingOf } from "./reading.ts";

const CARD: Omit<Slot, "reading"> = {
  index: 0,
  kind: "gpu",
  name: "NVIDIA H100",
  uuid: "GPU-1",
  memory_bytes: 8e10,
  state: "free",
  job_id: null,
  attempt: null,
  rank: null,
  unhealthy: null,
  in_use_by_others: false,
};

test("a reading has its figures and the reasons for a reduced clock", () => {
  const reading = { percent: 83, memory_bytes: 1e9, power_w: 310.5, temperature_c: 61, throttle: 0x24, processes: 1 };
  const read = readingOf({ ...CARD, reading: { ...reading, at: "2030-01-31T09:00:00Z" } });
  assert.deepEqual(read?.slowed, ["power cap", "hot"]);
  assert.equal(read?.percent, 83);
  assert.equal(read?.at, "2030-01-31T09:00:00Z");
});

test("figures that a card does not report are null, and an idle clock is no slowdown", () => {
  const read = readingOf({ ...CARD, reading: { percent: null, throttle: 1 } });
  assert.equal(read?.percent, null);
  assert.equal(read?.power_w, null);
  assert.deepEqual(read?.slowed, []);
  assert.equal(read?.isLost, false);
  assert.equal(readingOf({ ...CARD, reading: { is_lost: true } })?.isLost, true);
  assert.equal(readingOf({ ...CARD, reading: null }), null);
});
