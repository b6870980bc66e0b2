import assert from "node:assert/strict";
import { test } from "node:test";
import type { JobEvent } from "../../../api/types.ts";
import { detailOf, isOfEpochs, kindOf } from "./words.ts";

const event = (kind: string, data: Record<string, unknown> = {}): JobEvent =>
  ({ id: 1, at: "", kind, attempt: 1, data }) as JobEvent;

test("an event's kind and details are shown in words", () => {
  assert.equal(kindOf(event("placed")), "Placed");
  assert.equal(detailOf(event("submitted", { owner: "ada" })), "by ada");
  assert.equal(
    detailOf(
      event("placed", {
        shares: [
          { host: "ha", slots: [0, 1] },
          { host: "hb", slots: [2] },
        ],
      }),
    ),
    "ha: slots 0, 1; hb: slot 2",
  );
  assert.equal(
    detailOf(event("epoch_ended", { epoch: 3, val_loss: 0.25, loss: 0.5, samples_per_s: 1234.4, epoch_s: 2 })),
    "epoch 3, loss 0.5, val loss 0.25, 1,234 samples/s, 2 s",
  );
  assert.equal(
    detailOf(event("epoch_ended", { epoch: 1, step: 10, val_mae: 0.5, mae: 0.25 })),
    "epoch 1, mae 0.25, val mae 0.5",
  );
  assert.equal(
    detailOf(event("checkpoint_skipped", { epoch: 2, step: 1042, why: "no space" })),
    "epoch 2, step 1,042: no space",
  );
  assert.equal(
    detailOf(event("checkpoint_saved", { epoch: 1, step: 1042, duration_s: 0.5 })),
    "epoch 1, step 1,042, in 500 ms",
  );
  const drained = { kind: "host_drained", job: null, host: "ha" };
  assert.equal(
    detailOf(event("preempt_requested", { for: "host ha is drained", cause: drained })),
    "because host ha is drained",
  );
  assert.equal(detailOf(event("preempt_requested", { for: "job 0abc" })), "for job 0abc");
});

test("a change of a job is shown with what was before", () => {
  assert.equal(kindOf(event("changed")), "Changed");
  const before = { priority: 50, time_limit_s: 60, name: "a", labels: { team: "x", draft: "y", run: null } };
  const after = { priority: 80, time_limit_s: null, name: "b", labels: { team: "z", draft: null, run: "2" } };
  assert.equal(
    detailOf(event("changed", { by: "ada", before, after })),
    "priority 50 → 80, time limit (s) 60 → none, name a → b, label team: x → z, label draft removed, label run: 2, by ada",
  );
  const noted = { by: "ada", before: { notes: 0, starred: false }, after: { notes: 1204, starred: true } };
  assert.equal(detailOf(event("changed", noted)), "notes: 0 → 1,204 characters, a star, by ada");
});

test("copies in the store are shown with their step and size", () => {
  const copied = { step: 1042, bytes: 1_288_490_189, duration_s: 65 };
  assert.equal(kindOf(event("checkpoint_copied")), "Checkpoint copied");
  assert.equal(detailOf(event("checkpoint_copied", copied)), "to the store: step 1,042, 1.2 GiB in 1 min 5 s");
  assert.equal(
    detailOf(event("checkpoint_fetched", { ...copied, attempt: 1 })),
    "from the store: step 1,042, 1.2 GiB in 1 min 5 s, saved by attempt 1",
  );
  const behind = { since: "2030-01-31T14:02:05Z", host: "ha", step: 1042, bytes: 1024, why: "connection refused" };
  assert.equal(kindOf(event("copies_behind")), "Copies behind");
  assert.match(
    detailOf(event("copies_behind", behind)),
    /^The checkpoint of step 1,042 \(1 KiB\) .*: connection refused$/,
  );
});

test("a warning about idle slots and its withdrawal are told", () => {
  const warning = {
    since: "2030-01-31T14:02:05Z",
    acts_at: null,
    action: "warn",
    why: "its GPU is used less than 5 %",
  };
  assert.equal(kindOf(event("idle_warned")), "Idle slots");
  assert.match(detailOf(event("idle_warned", warning)), /^Since .* its GPU is used less than 5 %\.$/);
  assert.equal(detailOf(event("idle_withdrawn", { why: "its slots are used again" })), "its slots are used again");
});

test("an alert is shown with its level and what it says", () => {
  assert.equal(kindOf(event("alert")), "Alert");
  assert.equal(
    detailOf(event("alert", { level: "error", title: "NaN", text: "at step 3", rank: 1 })),
    "error: NaN: at step 3",
  );
  assert.equal(detailOf(event("alert", { level: "info", title: "slow", text: "" })), "info: slow");
});

test("a pause says why, unless a person asked for it", () => {
  const why = "its GPU was below 5 % for 30 minutes";
  assert.equal(detailOf(event("pause_requested", { why })), why);
  assert.equal(detailOf(event("pause_requested")), "");
});

test("an end shows its reason once and its error unchanged", () => {
  assert.equal(detailOf(event("ended", { status: "cancelled", end_reason: "cancelled", error: null })), "cancelled");
  assert.equal(
    detailOf(event("ended", { status: "failed", end_reason: "rank_failed", error: "rank_1 died" })),
    "failed: rank failed: rank_1 died",
  );
  assert.equal(detailOf(event("attempt_ended", { end_reason: "early_stopped", error: null })), "early stopped");
});

test("an event of an unknown kind is shown by its name and data", () => {
  assert.equal(kindOf(event("was_moved")), "was moved");
  assert.equal(detailOf(event("was_moved", { to_host: "hb" })), "to host hb");
});

test("events that come with every epoch are recognized", () => {
  assert.ok(isOfEpochs(event("checkpoint_saved")));
  assert.ok(isOfEpochs(event("checkpoint_copied")));
  assert.ok(!isOfEpochs(event("ended")));
});
