import assert from "node:assert/strict";
import { test } from "node:test";
import type { ProbeFindings } from "../../../api/types.ts";
import { bestPoint } from "./probed.ts";

const point = (per_gpu_batch: number, samples_per_s: number | null) => ({ per_gpu_batch, samples_per_s });
const probe = (...points: object[]) => ({ points, ended_by: null }) as unknown as ProbeFindings;

test("the best batch so far has the most samples a second", () => {
  assert.equal(bestPoint(probe(point(8, 100), point(16, 180), point(32, 170)))?.per_gpu_batch, 16);
  assert.equal(bestPoint(probe(point(8, 100), point(16, null)))?.per_gpu_batch, 8);
  assert.equal(bestPoint(probe(point(8, null))), undefined);
  assert.equal(bestPoint(probe()), undefined);
  assert.equal(bestPoint(null), undefined);
});
