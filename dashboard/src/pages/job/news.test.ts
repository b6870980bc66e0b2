import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job, JobEvent } from "../../api/types.ts";
import { hasMeasuredMore, newsAfter, type State, withEvents, withNews } from "./news.ts";

const job = { id: "j1", status: "running", revision: 3, progress: { epoch: 1, step: 10 } } as Job;
const state = (revision: number): State => ({ status: "succeeded", revision }) as State;
const progress = { epoch: 2, epochs: null, step: 20, steps: null, eta_s: null };

test("a newer state replaces the job's state, an older one is ignored", () => {
  assert.equal(withNews(job, { state: state(4) }).status, "succeeded");
  assert.equal(withNews(job, { state: state(2) }).status, "running");
});

test("progress in the news replaces the job's progress", () => {
  assert.equal(withNews(job, { progress }).progress.step, 20);
  assert.equal(withNews(job, {}).progress.step, 10);
});

test("after a fresh read, a newer state is kept, and progress only while streaming", () => {
  assert.deepEqual(newsAfter({ state: state(3), progress }, job, true), { progress });
  assert.deepEqual(newsAfter({ state: state(4), progress }, job, false), { state: state(4) });
});

test("events are merged without repeats, in the order of their ids", () => {
  const line = (id: number): JobEvent => ({ id }) as JobEvent;
  const ids = (events: readonly JobEvent[]): number[] => events.map((event) => event.id);
  assert.deepEqual(ids(withEvents([line(1), line(2)], [line(3), line(5)])), [1, 2, 3, 5]);
  assert.deepEqual(ids(withEvents([line(1), line(5)], [line(3), line(5)])), [1, 3, 5]);
});

test("a probe is read again when it has measured another batch", () => {
  const probe = (points: object[] | null) =>
    ({ spec: { probe: {} }, probe: points && { points, ended_by: null } }) as unknown as Job;
  const measured = (step: number) => ({ ...progress, step });
  assert.equal(hasMeasuredMore(probe(null), measured(0)), false);
  assert.equal(hasMeasuredMore(probe(null), measured(1)), true);
  assert.equal(hasMeasuredMore(probe([{}]), measured(1)), false);
  assert.equal(hasMeasuredMore(probe([{}]), measured(2)), true);
  assert.equal(hasMeasuredMore({ spec: {}, probe: null } as unknown as Job, measured(5)), false);
  assert.equal(hasMeasuredMore(undefined, measured(5)), false);
});
