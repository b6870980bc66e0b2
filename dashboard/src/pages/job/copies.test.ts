import assert from "node:assert/strict";
import { test } from "node:test";
import { behindText } from "./copies.ts";

const since = new Date(2030, 0, 31, 14, 2, 5);
const behind = { since: since.toISOString(), host: "ha", step: 1200, bytes: 1_288_490_189, why: "connection refused" };

test("what waits for the store is said in one sentence", () => {
  assert.equal(
    behindText(behind, since),
    "The checkpoint of step 1,200 (1.2 GiB) has waited on host ha since 14:02:05 to be copied to the store: " +
      "connection refused",
  );
});

test("artifacts that wait for a slow store are named without a step", () => {
  assert.equal(
    behindText({ ...behind, step: null, bytes: 1024, why: null }, since),
    "Artifacts (1 KiB) have waited on host ha since 14:02:05 to be copied to the store: it is slow",
  );
});
