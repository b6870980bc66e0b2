// What moving a job in the queue means: the smallest change of its priority that puts it there. Used by `move.tsx`.
//
// Jobs come by priority, then by turns, then by age. So a job cannot be put at just any place: with a higher priority it
// comes before all jobs of a lower one.

import type { Me, Project, QueuedJob } from "../../api/types.ts";
import { countText } from "../../format.ts";

const MOST = 100; // the highest priority
const DEFAULT = 50; // only admins go above it in a project without a ceiling

export type Plan =
  /** It gets this priority. `place` is its new place, and `passed` the jobs that it passes on the way. */
  | { readonly kind: "move"; readonly priority: number; readonly place: number; readonly passed: readonly QueuedJob[] }
  /** No change of its priority would put it there. */
  | { readonly kind: "impossible"; readonly why: string }
  /** It is there already. */
  | { readonly kind: "none" };

/**
 * How `job` comes to the place `index` of the rows, from 0, which are sorted by place. `ceiling` is the highest priority
 * that the person may set.
 */
export function planOf(rows: readonly QueuedJob[], job: QueuedJob, index: number, ceiling: number): Plan {
  const present = rows.findIndex(({ id }) => id === job.id);
  const others = rows.filter(({ id }) => id !== job.id);
  if (index === present || present < 0) return { kind: "none" };
  const isUp = index < present;
  // Up: before the job that is there now. Down: behind the job that will be right before it.
  const neighbour = others[isUp ? index : index - 1];
  if (neighbour === undefined) return { kind: "none" };
  const isEnough = isUp === compared({ ...job, priority: neighbour.priority }, neighbour) < 0;
  const priority = isEnough ? neighbour.priority : neighbour.priority + (isUp ? 1 : -1);
  const why = obstacle(priority, job, neighbour, ceiling);
  if (why !== null) return { kind: "impossible", why };
  const moved = { ...job, priority };
  const place = others.filter((other) => compared(other, moved) < 0).length;
  const passed = others.slice(Math.min(place, present), Math.max(place, present));
  return { kind: "move", priority, place: (rows[0]?.position ?? 1) + place, passed };
}

function obstacle(priority: number, job: QueuedJob, neighbour: QueuedJob, ceiling: number): string | null {
  if (priority > MOST)
    return `${neighbour.name} has priority ${MOST}, the highest, and its turn comes before that of ${job.name}.`;
  if (priority < 0)
    return `${neighbour.name} has priority 0, the lowest, and its turn comes after that of ${job.name}.`;
  if (priority > Math.max(ceiling, job.priority))
    return `It would need priority ${priority}. In the project ${job.project} only admins go above ${ceiling}.`;
  return null;
}

/** The highest priority that a person may set in a project, as the api decides it. */
export function ceilingOf(me: Me | undefined, project: Project | undefined): number {
  return me?.scope === "admin" ? MOST : (project?.max_priority ?? DEFAULT);
}

/** Negative if the first job comes first. */
export function compared(one: QueuedJob, other: QueuedJob): number {
  if (one.priority !== other.priority) return other.priority - one.priority;
  if (one.turn !== other.turn) return one.turn - other.turn;
  return ageKey(one) < ageKey(other) ? -1 : 1;
}

/** The time of creation with all six digits, then the id: sorted as texts, they are sorted by age. */
function ageKey({ created_at, id }: QueuedJob): string {
  const [seconds = "", digits = ""] = created_at.replace(/Z|\+00:00$/, "").split(".");
  return `${seconds}.${digits.padEnd(6, "0")} ${id}`;
}

/** The plan as a sentence or two, for a person who wanted another place. `last` is the last place that is shown. */
export function planText(plan: Plan, job: QueuedJob, wanted: number, last: number): string {
  if (plan.kind === "none") return "It is there already.";
  if (plan.kind === "impossible") return plan.why;
  const jobs = countText(plan.passed.length, "job");
  const side = plan.place < job.position ? "before" : "after";
  const further = side === "after" && plan.place === last ? " or behind it" : "";
  const result = `Priority ${job.priority} → ${plan.priority}. It comes ${side} ${jobs}, to place ${plan.place}${further}.`;
  if (plan.place === wanted) return result;
  return `${result} Place ${wanted} cannot be reached: jobs come by priority, and those of one priority by turns.`;
}
