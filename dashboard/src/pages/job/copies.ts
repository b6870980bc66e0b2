// What of a job waits to be copied to the store, in words. Used by the header and the events of a job.

import type { CopiesBehind } from "../../api/types.ts";
import { bytes, moment, number } from "../../format.ts";

/** The checkpoint of step 1,200 (1.12 GiB) has waited on host ha since 14:02:00 to be copied to the store: refused. */
export function behindText({ since, host, step, bytes: size, why }: CopiesBehind, now = new Date()): string {
  const [subject, verb] = step === null ? ["Artifacts", "have"] : [`The checkpoint of step ${number(step)}`, "has"];
  const place = `on host ${host} since ${moment(since, now)}`;
  return `${subject} (${bytes(size)}) ${verb} waited ${place} to be copied to the store: ${why ?? "it is slow"}`;
}
