import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job, Me } from "../../api/types.ts";
import { mayChange } from "../../rights.ts";
import { changesOf, draftOf } from "./changes.ts";

const job = (more: object = {}): Job =>
  ({
    name: "first",
    owner: "ada",
    project: "vision",
    priority: 50,
    labels: { team: "a=b", draft: "" },
    spec: { time_limit_s: 7200 },
    ...more,
  }) as unknown as Job;
const me = (more: object): Me => ({ user: "bob", scope: "submit", projects: [], ...more }) as unknown as Me;

test("a draft shows what the job has", () => {
  assert.deepEqual(draftOf(job()), {
    name: "first",
    project: "vision",
    priority: "50",
    limit: "7200",
    labels: "team=a=b\ndraft=",
  });
  assert.equal(draftOf(job({ spec: { time_limit_s: null } })).limit, "");
});

test("only what a person changed is sent", () => {
  const draft = draftOf(job());
  assert.deepEqual(changesOf(draft, draft), {});
  assert.deepEqual(changesOf(draft, { ...draft, labels: "draft=\n\n  team = a=b" }), {});
  assert.deepEqual(changesOf(draft, { ...draft, project: "night" }), { project: "night" });
  assert.deepEqual(changesOf(draft, { ...draft, priority: " 80 ", limit: "" }), { priority: 80, time_limit_s: null });
  const labels = "team=c\nrun=2";
  assert.deepEqual(changesOf(draft, { ...draft, name: "second", labels }), {
    name: "second",
    labels: { draft: null, team: "c", run: "2" },
  });
});

test("what is no number is left to the api", () => {
  const draft = draftOf(job());
  assert.deepEqual(changesOf(draft, { ...draft, priority: "high", limit: "2 h" }), {
    priority: "high",
    time_limit_s: "2 h",
  });
  assert.deepEqual(changesOf(draft, { ...draft, priority: "" }), { priority: null });
  assert.deepEqual(changesOf(draft, { ...draft, limit: "Infinity" }), { time_limit_s: "Infinity" });
});

test("the owner, members of the project and admins may change a job", () => {
  assert.equal(mayChange(undefined, job()), true);
  assert.equal(mayChange(me({}), job()), false);
  assert.equal(mayChange(me({ user: "ada" }), job()), true);
  assert.equal(mayChange(me({ user: "ada", scope: "read" }), job()), false);
  assert.equal(mayChange(me({ projects: ["vision"] }), job()), true);
  assert.equal(mayChange(me({ scope: "admin" }), job()), true);
});
