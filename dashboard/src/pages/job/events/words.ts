// The events of a job in words. Used by `events.tsx`.

import type { CopiesBehind, IdleNotice, JobEvent, Preemption } from "../../../api/types.ts";
import { bytes, number, words } from "../../../format.ts";
import { isMeasured } from "../../../metrics.ts";
import { figureOf } from "../analysis/evidence.ts";
import { behindText } from "../copies.ts";
import { idleText } from "../idle.ts";
import { causeOf } from "../reasons.ts";

type Data = Readonly<Record<string, unknown>>;

const KINDS: Record<JobEvent["kind"], string> = {
  submitted: "Submitted",
  placed: "Placed",
  launched: "Launched",
  rank_started: "Rank started",
  first_step: "First step",
  epoch_ended: "Epoch ended",
  checkpoint_saved: "Checkpoint saved",
  checkpoint_skipped: "Checkpoint skipped",
  checkpoint_copied: "Checkpoint copied",
  checkpoint_fetched: "Checkpoint fetched",
  waits_for_files: "Waits for files",
  copies_behind: "Copies behind",
  out_of_space: "Out of space",
  attempt_ended: "Attempt ended",
  requeued: "Requeued",
  cancel_requested: "Cancel requested",
  pause_requested: "Pause requested",
  resumed: "Resumed",
  preempt_requested: "Preemption requested",
  changed: "Changed",
  idle_warned: "Idle slots",
  idle_withdrawn: "Idle warning withdrawn",
  idle_acted: "Idle for too long",
  prune_requested: "Pruned by its search",
  alert: "Alert",
  ended: "Ended",
};

/** A newer service may have other kinds; an unknown kind is shown by its name. */
export function kindOf(event: JobEvent): string {
  return KINDS[event.kind] ?? words(event.kind);
}

const OF_EPOCHS: ReadonlySet<string> = new Set(["epoch_ended", "checkpoint_saved", "checkpoint_copied"]);

/** Whether the event comes with every epoch. */
export function isOfEpochs(event: JobEvent): boolean {
  return OF_EPOCHS.has(event.kind);
}

/** The details of an event. */
export function detailOf({ kind, data }: JobEvent): string {
  switch (kind) {
    case "submitted":
      return `by ${data["owner"]}`;
    case "placed":
      return sharesOf(data["shares"]);
    case "launched":
      return `pid ${data["pid"]}`;
    case "rank_started":
      return `rank ${data["rank"]} on ${data["host"]}, pid ${data["pid"]}`;
    case "first_step":
      return `of rank ${data["rank"]}`;
    case "epoch_ended":
      return epochOf(data);
    case "checkpoint_saved":
      return `epoch ${data["epoch"]}, step ${number(data["step"] as number)}, in ${figureOf("duration_s", data["duration_s"])}`;
    case "checkpoint_skipped":
      return `epoch ${data["epoch"]}, step ${number(data["step"] as number)}: ${data["why"]}`;
    case "checkpoint_copied":
      return `to the store: ${copiedOf(data)}`;
    case "checkpoint_fetched":
      return `from the store: ${copiedOf(data)}, saved by attempt ${data["attempt"]}`;
    case "copies_behind":
      return behindText(data as unknown as CopiesBehind);
    case "idle_warned":
    case "idle_acted":
      return idleText(data as unknown as IdleNotice);
    case "alert":
      return [data["level"], data["title"], data["text"]].filter(Boolean).join(": ");
    case "pause_requested":
    case "idle_withdrawn":
    case "prune_requested":
      return typeof data["why"] === "string" ? data["why"] : "";
    case "waits_for_files":
      return data["dataset"]
        ? `${data["dataset"]}, which ${(data["hosts"] as string[]).join(", ")} must fetch from the store`
        : `what it starts from: ${data["why"]}`;
    case "out_of_space":
      return `rank ${data["rank"]}: ${data["why"]}`;
    case "preempt_requested":
      return data["cause"] ? causeOf(data["cause"] as Preemption) : `for ${data["for"]}`; // older services wrote no cause
    case "changed":
      return changesIn(data);
    case "attempt_ended":
    case "ended":
      return [data["status"], data["end_reason"] !== data["status"] ? data["end_reason"] : null, data["error"]]
        .filter((text) => typeof text === "string")
        .map((text, index, all) => (index === all.length - 1 && data["error"] ? text : words(text as string)))
        .join(": ");
    default:
      return restOf(data);
  }
}

/** priority 50 → 80, label draft removed, by ada */
function changesIn({ before, after, by }: Data): string {
  const [old, now] = [before as Data, after as Data];
  const changes = Object.keys(now).flatMap((field) => {
    if (field === "labels") return labelChanges(old[field] as Data, now[field] as Data);
    if (field === "notes")
      return [`notes: ${number(old[field] as number)} → ${number(now[field] as number)} characters`];
    if (field === "starred") return [now[field] ? "a star" : "no star"];
    return [`${words(field).replace(/ s$/, " (s)")} ${shownValue(old[field])} → ${shownValue(now[field])}`];
  });
  return [...changes, `by ${by}`].join(", ");
}

function labelChanges(old: Data, now: Data): string[] {
  return Object.entries(now).map(([key, value]) => {
    if (value === null) return `label ${key} removed`;
    return old[key] === null ? `label ${key}: ${value}` : `label ${key}: ${old[key]} → ${value}`;
  });
}

const shownValue = (value: unknown): string => (value === null ? "none" : String(value));

const FEW = 6; // metrics of an epoch in one line
const NO_METRICS = new Set(["epoch", "step"]);

function epochOf(data: Data): string {
  const names = Object.keys(data).filter(
    (name) => typeof data[name] === "number" && !isMeasured(name) && !NO_METRICS.has(name),
  );
  const metrics = names
    .sort()
    .slice(0, FEW)
    .map((name) => `${words(name)} ${number(data[name] as number)}`);
  if (names.length > FEW) metrics.push(`${names.length - FEW} more metrics`);
  const speed =
    typeof data["samples_per_s"] === "number" ? [`${number(Math.round(data["samples_per_s"]))} samples/s`] : [];
  const length = typeof data["epoch_s"] === "number" ? [figureOf("epoch_s", data["epoch_s"])] : [];
  return [`epoch ${data["epoch"]}`, ...metrics, ...speed, ...length].join(", ");
}

/** A checkpoint that was copied or fetched: its step, its size, and how long that took. */
function copiedOf(data: Data): string {
  const size = bytes(data["bytes"] as number);
  return `step ${number(data["step"] as number)}, ${size} in ${figureOf("duration_s", data["duration_s"])}`;
}

function sharesOf(shares: unknown): string {
  if (!Array.isArray(shares)) return "";
  return (shares as { host: string; slots: number[] }[])
    .map(({ host, slots }) => `${host}: slot${slots.length === 1 ? "" : "s"} ${slots.join(", ")}`)
    .join("; ");
}

function restOf(data: Data): string {
  return Object.entries(data)
    .map(([name, value]) => `${words(name)} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
    .join(", ");
}
