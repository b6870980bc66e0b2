import assert from "node:assert/strict";
import { test } from "node:test";
import type { IdleNotice } from "../../api/types.ts";
import { idleText } from "./idle.ts";

const since = new Date(2030, 0, 31, 14, 2, 5);
const notice: IdleNotice = {
  attempt: 1,
  below: 5,
  for_s: 1800,
  action: "stop",
  since: since.toISOString(),
  acts_at: new Date(2030, 0, 31, 14, 32, 5).toISOString(),
  acted_at: null,
  why: "its 8 GPUs are used less than 5 %",
};

test("a warning says what follows and when", () => {
  assert.equal(
    idleText(notice, since),
    "Since 14:02:05 its 8 GPUs are used less than 5 %. At 14:32:05 it is stopped, unless they are used again.",
  );
});

test("without an action there is only the warning", () => {
  assert.equal(
    idleText({ ...notice, action: "warn", acts_at: null }, since),
    "Since 14:02:05 its 8 GPUs are used less than 5 %.",
  );
});

test("a job that was paused says why", () => {
  const acted = { ...notice, action: "pause" as const, acted_at: notice.acts_at };
  assert.equal(
    idleText({ ...acted, why: "its 8 GPUs were below 5 % for 30 minutes" }),
    "Paused: its 8 GPUs were below 5 % for 30 minutes.",
  );
});
