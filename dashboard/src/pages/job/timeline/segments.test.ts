import assert from "node:assert/strict";
import { test } from "node:test";
import type { Attempt, JobEvent } from "../../../api/types.ts";
import { lengthOf, segmentsOf, setUpParts, totalsOf } from "./segments.ts";

const at = (seconds: number): string => new Date(Date.UTC(2030, 0, 1) + seconds * 1000).toISOString();
const now = (seconds: number): number => Date.parse(at(seconds));

function attempt(number: number, times: Partial<Record<"queued" | "created" | "started" | "ended", number>>): Attempt {
  return {
    number,
    queued_at: at(times.queued ?? 0),
    created_at: at(times.created ?? 0),
    started_at: times.started === undefined ? null : at(times.started),
    ended_at: times.ended === undefined ? null : at(times.ended),
    end_reason: times.ended === undefined ? null : "completed",
    setup: {},
  } as unknown as Attempt;
}

let id = 0;
function event(kind: JobEvent["kind"], seconds: number, ofAttempt: number | null = null): JobEvent {
  id += 1;
  return { id, at: at(seconds), kind, attempt: ofAttempt, data: {} };
}

function rowsOf(segments: ReturnType<typeof segmentsOf>): (string | number | null)[][] {
  return segments.map(({ phase, attempt: number, fromMs, toMs }) => [
    phase,
    number,
    (fromMs - now(0)) / 1000,
    (toMs - now(0)) / 1000,
  ]);
}

const live = { created_at: at(0), ended_at: null, paused_at: null };

test("what a job waited in Slurm is a segment of its own", () => {
  const inPool = { ...attempt(1, { created: 9, started: 11, ended: 20 }), handed_at: at(2) };
  assert.deepEqual(rowsOf(segmentsOf(live, [inPool], [], now(20))).slice(0, 2), [
    ["queued", 1, 0, 2],
    ["in_slurm", 1, 2, 9],
  ]);
});

test("a waiting job has one queued segment, up to now", () => {
  assert.deepEqual(rowsOf(segmentsOf(live, [], [], now(5))), [["queued", null, 0, 5]]);
});

test("the segments of a finished job run from queued to finishing without gaps", () => {
  const job = { ...live, ended_at: at(60) };
  const events = [event("first_step", 20, 1), event("epoch_ended", 40, 1), event("epoch_ended", 55, 1)];
  const parts = segmentsOf(job, [attempt(1, { created: 10, started: 12, ended: 60 })], events, now(1000));
  assert.deepEqual(rowsOf(parts), [
    ["queued", 1, 0, 10],
    ["launch", 1, 10, 12],
    ["set_up", 1, 12, 20],
    ["training", 1, 20, 55],
    ["finishing", 1, 55, 60],
  ]);
  assert.deepEqual(totalsOf(parts)[3], ["training", 35]);
  assert.equal(lengthOf(parts, 1, "set_up"), 8);
  assert.equal(lengthOf(parts, 2, "set_up"), null);
});

test("an attempt without a start is all launch, one without a first step ends in set-up", () => {
  const job = { ...live, ended_at: at(30) };
  const first = { ...attempt(1, { created: 0, ended: 10 }), end_reason: "launch_failed" } as Attempt;
  const second = { ...attempt(2, { created: 15, started: 20, ended: 30 }), end_reason: "bad_data" } as Attempt;
  assert.deepEqual(rowsOf(segmentsOf(job, [first, second], [], now(99))), [
    ["launch", 1, 0, 10],
    ["queued", 2, 10, 15],
    ["launch", 2, 15, 20],
    ["set_up", 2, 20, 30],
  ]);
});

test("a failed attempt trains until its end, then the job is queued again", () => {
  const failed = { ...attempt(1, { created: 1, started: 2, ended: 30 }), end_reason: "rank_failed" } as Attempt;
  const events = [event("first_step", 5, 1), event("epoch_ended", 10, 1)];
  assert.deepEqual(rowsOf(segmentsOf(live, [failed], events, now(40))).slice(-2), [
    ["training", 1, 5, 30],
    ["queued", null, 30, 40],
  ]);
});

test("the time in which a job is paused is separate from its time in the queue", () => {
  const paused = { ...attempt(1, { created: 0, started: 1, ended: 10 }), end_reason: "paused" } as Attempt;
  const events = [event("pause_requested", 8), event("resumed", 20), event("pause_requested", 25)];
  assert.deepEqual(rowsOf(segmentsOf({ ...live, paused_at: at(25) }, [paused], events, now(30))).slice(-3), [
    ["paused", null, 10, 20],
    ["queued", null, 20, 25],
    ["paused", null, 25, 30],
  ]);
});

test("a live attempt lasts until now, and a segment of negative length is left out", () => {
  const parts = segmentsOf(live, [attempt(1, { created: 10, started: 9 })], [event("first_step", 12, 1)], now(20));
  assert.deepEqual(rowsOf(parts), [
    ["queued", 1, 0, 10],
    ["set_up", 1, 10, 12],
    ["training", 1, 12, 20],
  ]);
});

test("without a first_step event, set-up ends after the sum of its parts", () => {
  const one = { ...attempt(1, { created: 0, started: 2 }), setup: { import: 3, first_step: 1 } } as Attempt;
  assert.deepEqual(rowsOf(segmentsOf(live, [one], [], now(20)))[1], ["set_up", 1, 2, 6]);
});

test("the parts of a set-up come in a fixed order, unknown ones last", () => {
  const names = setUpParts({ zeal: 1, first_step: 1, data: 1, import: 1 }).map(([name]) => name);
  assert.deepEqual(names, ["import", "data", "first_step", "zeal"]);
});
