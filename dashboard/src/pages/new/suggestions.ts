// The suggestions of this service: datasets, networks, weights, projects.

import { usePolled } from "../../api/polled.ts";
import type { DatasetLine, Job, Listed, Me, Model, Project } from "../../api/types.ts";
import { short } from "../../format.ts";
import type { Option } from "./combobox.tsx";

const ONCE = { every_s: Number.POSITIVE_INFINITY };
const RECENT = 30; // jobs, each of some kilobytes

/** By the path of the field. */
export type Suggestions = Readonly<Record<string, readonly Option[]>>;

export function useSuggestions(me: Me | undefined): Suggestions {
  const datasets = usePolled<Listed<DatasetLine>>("/v1/datasets?limit=500", ONCE).data?.items ?? [];
  const models = usePolled<Listed<Model>>("/v1/models?limit=500", ONCE).data?.items ?? [];
  const projects = usePolled<Listed<Project>>("/v1/projects?limit=500", ONCE).data?.items ?? [];
  const jobs = usePolled<Listed<Job>>(`/v1/jobs?limit=${RECENT}`, ONCE).data?.items ?? [];
  return {
    "dataset.source": dataSources(datasets, jobs),
    "model.name": models.map(ofModel),
    "model.weights": [
      { value: "none", detail: "From scratch" },
      { value: "imagenet", detail: "If the network has them" },
      ...jobs.filter(({ status, spec }) => status === "succeeded" && spec["model"] !== null).map(ofJob),
    ],
    project: projects.filter((project) => mayUse(project, me)).map(ofProject),
  };
}

/** The registered datasets that can be trained on, then the data of recent jobs. */
export function dataSources(datasets: readonly DatasetLine[], jobs: readonly Pick<Job, "name" | "spec">[]): Option[] {
  const usable = datasets.filter(({ status }) => status !== "invalid");
  return [...usable.map(ofDataset), ...recent(jobs, new Set(datasets.map(({ name }) => name)))];
}

export function ofDataset(dataset: DatasetLine): Option {
  const { trainable, shape, classes, targets, status, description } = dataset;
  const state = status === "validating" ? "is being validated" : "";
  const facts = [
    state,
    trainable === null ? "" : `${short(trainable)} samples`,
    shape === null ? "" : `of ${shape.join("×")}`,
    targets ? `with ${targets} target${targets === 1 ? "" : "s"}` : classes === null ? "" : `in ${classes} classes`,
  ];
  const factsText = facts.filter((fact) => fact !== "").join(" ");
  return { value: dataset.name, detail: [factsText, description].filter((text) => text !== "").join(". ") };
}

/** The data of recent jobs that is not registered. */
export function recent(jobs: readonly Pick<Job, "name" | "spec">[], registered: ReadonlySet<string>): Option[] {
  const options = new Map<string, Option>();
  for (const { name, spec } of jobs) {
    const source = (spec["dataset"] as { source?: unknown } | undefined)?.source;
    if (typeof source !== "string" || registered.has(source) || options.has(source)) continue;
    options.set(source, { value: source, detail: `As in ${name}` });
  }
  return [...options.values()];
}

function ofModel({ name, description, imagenet, least_size }: Model): Option {
  const size = least_size !== undefined && least_size > 1 ? `; images of ${least_size} pixels at least` : "";
  return { value: name, detail: `${description}${imagenet ? "; has ImageNet weights" : ""}${size}` };
}

function ofJob({ id, name, spec }: Job): Option {
  const model = (spec["model"] as { name?: string } | undefined)?.name ?? "";
  return { value: `job:${id}`, detail: `${name}, ${model}` };
}

export function ofProject(project: Project): Option {
  const { name, description, usage, max_slots, max_queued, max_priority, share, idle } = project;
  const slots = max_slots === null ? `${usage.slots} slots in use` : `${usage.slots} of ${max_slots} slots in use`;
  const queued = max_queued === null ? `${usage.queued} queued` : `${usage.queued} of ${max_queued} queued`;
  const rules = [
    max_priority == null ? "" : `priority up to ${max_priority}`,
    share === 1 ? "" : `share ${share}`,
    idle == null ? "" : `idle: ${idle.action}`,
  ];
  return { value: name, detail: [description, slots, queued, ...rules].filter((text) => text !== "").join(", ") };
}

function mayUse(project: Project, me: Me | undefined): boolean {
  if (project.archived_at !== null) return false;
  return project.is_open || me?.scope === "admin" || project.members.includes(me?.user ?? "");
}
