import assert from "node:assert/strict";
import { test } from "node:test";
import { usageOf } from "./costs.ts";

const attempt = (from: string, to: string | null, price: number | null) => ({
  created_at: `2030-01-01T${from}:00Z`,
  ended_at: to === null ? null : `2030-01-01T${to}:00Z`,
  gpus: 2,
  price_per_hour: price,
});
const NOW = Date.parse("2030-01-01T12:00:00Z");

test("all attempts count, a live one up to now", () => {
  const attempts = [attempt("08:00", "09:00", 5), attempt("11:30", null, 4)];
  assert.deepEqual(usageOf(attempts, NOW), { gpuHours: 3, cost: 7 });
});

test("an attempt without a price leaves the cost unknown", () => {
  assert.deepEqual(usageOf([attempt("08:00", "09:00", 5), attempt("10:00", "11:00", null)], NOW), {
    gpuHours: 4,
    cost: null,
  });
});
