// The start of a form: empty, or the spec of a job, with one of its pieces of advice applied.

import type { Problem } from "../../api/client.ts";
import { usePolled } from "../../api/polled.ts";
import type { Advice, Job, Listed } from "../../api/types.ts";
import { type Draft, differences, isSame, merged, pathsOf, valueAt } from "./draft.ts";
import type { Field, JsonObject } from "./schema.ts";

export interface Start {
  readonly draft: Draft;
  /** The cloned job. */
  readonly job?: Job;
  readonly advice?: Advice;
  /** The fields in which the advice differs from the job. */
  readonly advised: readonly string[];
}

interface LoadedStart {
  readonly start: Start | undefined;
  readonly problem: Problem | undefined;
}

const ONCE = { every_s: Number.POSITIVE_INFINITY };

/** `clone` is a job's id, `advice` the number of a piece of its advice; both "" for an empty form. */
export function useStart(
  clone: string,
  advice: string,
  from: string,
  fields: readonly Field[] | undefined,
): LoadedStart {
  const job = usePolled<Job>(clone === "" ? null : `/v1/jobs/${encodeURIComponent(clone)}`, ONCE);
  const isAdvised = clone !== "" && advice !== "";
  const list = usePolled<Listed<Advice>>(isAdvised ? `/v1/jobs/${encodeURIComponent(clone)}/advice` : null, ONCE);
  if (fields === undefined) return { start: undefined, problem: undefined };
  if (clone === "") return { start: { draft: {}, advised: [] }, problem: undefined };
  if (job.data === undefined || (isAdvised && list.data === undefined))
    return { start: undefined, problem: job.problem ?? list.problem };
  const chosen = list.data?.items.find(({ number }) => String(number) === advice);
  return { start: startOf(job.data, chosen, fields, from), problem: undefined };
}

/** `from`: what the new job takes over: "weights", "newest" or the epoch of a checkpoint; "": nothing but the spec. */
export function startOf(job: Job, advice: Advice | undefined, fields: readonly Field[], from = ""): Start {
  const spec = merged(job.spec as JsonObject, takenOver(job, from));
  if (advice === undefined) return { draft: differences(spec, fields), job, advised: [] };
  const change = advice.change as JsonObject;
  const advised = pathsOf(change, fields).filter((path) => !isSame(valueAt(change, path), valueAt(spec, path)));
  return { draft: differences(merged(spec, change), fields), job, advice, advised };
}

function takenOver({ id, spec, progress }: Job, from: string): JsonObject {
  if (from === "") return {};
  if (from === "weights") return { model: { weights: `job:${id}`, freeze_base: false } }; // of which all layers learn
  const epochs = spec["epochs"] as number;
  const trained = from === "newest" ? (progress.epoch ?? 0) : Number(from);
  return {
    continue_from: `job:${id}${from === "newest" ? "" : `@${from}`}`,
    epochs: trained < epochs ? epochs : trained + epochs,
  };
}
