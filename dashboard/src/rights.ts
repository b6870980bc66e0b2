// What the person who is signed in may do, as the api decides it.

import type { Job, Me } from "./api/types.ts";

/** Whether a person may change a job. Yes as long as nobody knows who it is: then the page of most people stands still. */
export function mayChange(me: Me | undefined, job: Pick<Job, "owner" | "project">): boolean {
  if (me === undefined) return true;
  if (me.scope === "read") return false;
  return me.scope === "admin" || me.user === job.owner || me.projects.includes(job.project);
}
