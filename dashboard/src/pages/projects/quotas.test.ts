import assert from "node:assert/strict";
import { test } from "node:test";
import type { Project } from "../../api/types.ts";
import { changesOf, ofQuota, stateOf } from "./quotas.ts";

const PROJECT = {
  name: "vision",
  description: "old",
  is_open: true,
  archived_at: null,
  max_slots: 8,
  max_queued: null,
  max_gpu_hours: 500,
  max_storage_gb: null,
  max_priority: null,
  share: 1,
} as unknown as Project;

function formOf(changes: Readonly<Record<string, string | null>>): FormData {
  const fields = new FormData();
  const shown = { description: "old", is_open: "on", max_slots: "8", max_gpu_hours: "500", share: "1", ...changes };
  for (const [name, value] of Object.entries(shown)) if (value !== null) fields.set(name, value);
  return fields;
}

test("the form sends only what it changes", () => {
  assert.deepEqual(changesOf(PROJECT, formOf({})), {});
  assert.deepEqual(changesOf(PROJECT, formOf({ max_slots: "", max_queued: "0", share: "2.5" })), {
    max_slots: null,
    max_queued: 0,
    share: 2.5,
  });
  assert.deepEqual(changesOf(PROJECT, formOf({ is_open: null, is_archived: "on", description: "" })), {
    description: "",
    is_open: false,
    is_archived: true,
  });
  assert.deepEqual(changesOf(PROJECT, formOf({ max_slots: "many" })), { max_slots: "many" });
});

test("the use of a quota and the state of a project are said in words", () => {
  assert.deepEqual([ofQuota(3, 8), ofQuota(0, 0), ofQuota(3, null)], ["3 of 8", "0 of 0", "3"]);
  assert.equal(stateOf(PROJECT), "open to all");
  assert.equal(stateOf({ ...PROJECT, is_open: false }), "members only");
  assert.equal(stateOf({ ...PROJECT, archived_at: "2030-01-01T00:00:00Z" }), "archived");
});
