// The view of the list: its filters, order, groups and metric, as parameters of the page's address and of the api.

import type { Status } from "../../api/types.ts";
import { isBetterLower } from "../../metrics.ts";
import { listOf, type ParamChanges, pathWith, withParams } from "../../query.ts";
import { type FieldKey, fieldOf } from "./fields.ts";

export const STATUSES: readonly Status[] = ["queued", "launching", "running", "succeeded", "failed", "cancelled"];

/** The api's sort keys of jobs. It also sorts by the best value of any metric, and by any other column of a field. */
export const SORTS = [
  "created_at",
  "started_at",
  "ended_at",
  "duration",
  "name",
  "priority",
  "gpus",
  "stored",
  "batch_size",
  "learning_rate",
  "train_samples_per_s",
  "val_accuracy",
  "val_loss",
  "status",
  "owner",
  "project",
  "dataset",
  "model",
  "study",
  "cell",
  "starred",
  "archived",
  "notes",
  "host",
  "gpu_hours",
  "end_reason",
  "error",
  "restarts",
  "alerts",
] as const;

export type MetricKey = `metrics.${string}`;
/** A field. With a comma in its name it is a JSON string. */
export type Sort = (typeof SORTS)[number] | MetricKey | FieldKey | `"${string}"`;
export type OrderKey = Sort | `-${Sort}`;
/** Up to four fields with commas between them, each with a minus if its greatest value comes first. */
export type Order = OrderKey | `${OrderKey},${string}`;

export const NEWEST_FIRST: Order = "-created_at";
export const METRICS = ["val_accuracy", "val_loss", "accuracy", "loss", "learning_rate", "samples_per_s"] as const;

export interface View {
  readonly search: string;
  readonly statuses: readonly Status[];
  readonly owner: string;
  readonly project: string;
  /** Each as `key:value`. */
  readonly labels: readonly string[];
  readonly study: string;
  readonly isStarred: boolean;
  /** Archived jobs: without them, only them, or with them. */
  readonly archived: "" | "true" | "all";
  /** Conditions of fields, all of which hold: `spec.batch_size >= 64`. */
  readonly where: readonly string[];
  /** One row for each study, or for each value of these fields, with its jobs below it. */
  readonly group: readonly string[];
  readonly order: Order;
  /** The metric of the curves; empty for the one that counts for each job. */
  readonly metric: string;
}

export const EVERYTHING: View = {
  search: "",
  statuses: [],
  owner: "",
  project: "",
  labels: [],
  study: "",
  isStarred: false,
  archived: "",
  where: [],
  group: [],
  order: NEWEST_FIRST,
  metric: "",
};

export const NO_FILTER: Partial<View> = {
  search: "",
  statuses: [],
  owner: "",
  project: "",
  labels: [],
  study: "",
  isStarred: false,
  archived: "",
  where: [],
};

/** The view in an address. Unknown values are left out. */
export function viewOf(query: string): View {
  const params = new URLSearchParams(query);
  const order = params.get("sort") ?? "";
  return {
    search: params.get("q") ?? "",
    statuses: STATUSES.filter((status) => listOf(params.get("status") ?? "").includes(status)),
    owner: params.get("owner") ?? "",
    project: params.get("project") ?? "",
    labels: listOf(params.get("label") ?? "").map(withCommas),
    study: params.get("study") ?? "",
    isStarred: params.get("starred") === "true",
    archived: archivedOf(params.get("archived")),
    where: params.getAll("where").filter(Boolean),
    group: params.getAll("group").filter(Boolean),
    order: isOrder(order) ? order : NEWEST_FIRST,
    metric: params.get("metric") || EVERYTHING.metric,
  };
}

export function archivedOf(value: unknown): View["archived"] {
  return value === "all" ? "all" : String(value) === "true" ? "true" : "";
}

/** The parameters of the address for a change of the view; null removes one. */
export function paramsOf(change: Partial<View>): ParamChanges {
  const params: Record<string, string | readonly string[] | null> = {};
  const { search, statuses, owner, project, labels, study, isStarred, archived, where, group, order, metric } = change;
  if (search !== undefined) params["q"] = search.trim();
  if (statuses !== undefined) params["status"] = statuses.join(",");
  if (owner !== undefined) params["owner"] = owner;
  if (project !== undefined) params["project"] = project;
  if (labels !== undefined) params["label"] = labels.map(withoutCommas).join(",");
  if (study !== undefined) params["study"] = study;
  if (isStarred !== undefined) params["starred"] = isStarred ? "true" : null;
  if (archived !== undefined) params["archived"] = archived;
  if (where !== undefined) params["where"] = where;
  if (group !== undefined) {
    params["group"] = group;
    params["open"] = null; // groups
  }
  if (order !== undefined) params["sort"] = order === EVERYTHING.order ? null : order;
  if (metric !== undefined) params["metric"] = metric === EVERYTHING.metric ? null : metric;
  return params;
}

/** The filters of the view, as the api's routes take them. */
export function filtersOf(view: View) {
  return {
    search: view.search,
    status: view.statuses,
    owner: view.owner,
    project: view.project,
    label: view.labels,
    study: view.study,
    starred: view.isStarred ? "true" : "",
    archived: { "": "false", true: "true", all: "" }[view.archived],
    where: view.where,
  };
}

/** A page of the list; the first one without a cursor. */
export function listPath(view: View, limit: number, cursor: string | null = null): string {
  return pathWith("/v1/jobs", { ...filtersOf(view), sort: view.order, limit, cursor });
}

/** The page that compares the jobs of the view. Its address has the filters under the names that this page gives them. */
export function comparePath(view: View): string {
  const { group: _, metric: __, ...filters } = view;
  return `/compare?${withParams("", { ...paramsOf(filters), sort: view.order })}`;
}

/** The stream with events of the view's jobs, and of some others, as it has fewer filters. */
export function streamPath({ owner, project, labels }: View): string {
  return pathWith("/v1/events", { owner, project, label: labels });
}

export function isFiltered(view: View): boolean {
  return Object.values(paramsOf({ ...view, group: [], order: EVERYTHING.order, metric: "" })).some(
    (value) => value?.length,
  );
}

const TEXTS = /^(name|status|owner|project|dataset|model|study|cell|notes|label\..*)$/;

export const MOST_KEYS = 4;

/** The keys of an order, the most important one first. */
export function keysOf(order: string): OrderKey[] {
  return (order.match(/-?("(?:[^"\\]|\\.)*"|[^",][^,]*)/g) ?? []) as OrderKey[];
}

/** The place of a field among the keys of an order; -1 if it is none of them. */
export function placeIn(order: Order, sort: Sort | undefined): number {
  return keysOf(order).findIndex((key) => sort !== undefined && (key === sort || key === `-${sort}`));
}

/** Whether an order may get a further key. The usual order is by time, and no two jobs have the same. */
export function isExtended(order: Order): boolean {
  return order !== NEWEST_FIRST;
}

/** The order with a key at a place, or without the keys from there on. */
export function withKey(order: Order, place: number, key: OrderKey | ""): Order {
  const keys = keysOf(order);
  const rest = key === "" ? keys.slice(0, place) : keys.toSpliced(Math.min(place, MOST_KEYS - 1), 1, key);
  return rest.join() as Order;
}

/**
 * The order after a click on the header of `sort`: falling first, except for texts and metrics that are better low.
 * Such a click starts anew, or with `isThen` adds a key, or turns the one of this field.
 */
export function nextOrder(order: Order, sort: Sort, isThen = false): Order {
  const isRising = TEXTS.test(sort) || isBetterLower(metricOf(sort) ?? fieldOf(sort)?.name ?? sort);
  const first: OrderKey = isRising ? sort : `-${sort}`;
  const second: OrderKey = isRising ? `-${sort}` : sort;
  if (!isThen || !isExtended(order)) return order === first ? second : first;
  const keys = keysOf(order);
  const place = placeIn(order, sort);
  return withKey(order, place < 0 ? keys.length : place, keys[place] === first ? second : first);
}

/** The name of a field as an order has it. */
export function sortOf(field: string): Sort {
  return (/[",]/.test(field) ? JSON.stringify(field) : field) as Sort;
}

function isOrder(text: string): text is Order {
  const keys = keysOf(text);
  return keys.length > 0 && keys.length <= MOST_KEYS && keys.join() === text && keys.every(isKnown);
}

function isKnown(key: OrderKey): boolean {
  const sort = key.replace(/^-?"?/, "");
  return (SORTS as readonly string[]).includes(sort) || metricOf(sort) !== null || fieldOf(sort) !== null;
}

/** The metric of a key such as `metrics.val_iou`; null for other keys. */
export function metricOf(key: string): string | null {
  return /^metrics\.([A-Za-z_][A-Za-z0-9_.:/@-]*)$/.exec(key)?.[1] ?? null;
}

/** A label, or another text, as an item of a list with commas. */
export function withoutCommas(label: string): string {
  return label.replaceAll("%", "%25").replaceAll(",", "%2C");
}

export function withCommas(item: string): string {
  return item.replaceAll("%2C", ",").replaceAll("%25", "%");
}
