// The curves of a comparison as a block of an article (docs/articles.md). Pure.

import type { Run } from "./runs.ts";

const [MOST_METRICS, MOST_JOBS] = [6, 100];
const AXES: readonly string[] = ["epoch", "step", "time"];

/** The address of the editor of a new article with these curves. */
export function articlePath(runs: readonly Run[], metrics: readonly string[], axis: string, group: string): string {
  const ids = runs.filter(({ isHidden }) => !isHidden).map(({ id }) => id);
  const isGrouped = group !== "" && !group.startsWith("plan."); // groups of a block are over epochs
  const lines = [
    `chart: ${metrics.slice(0, MOST_METRICS).join(", ")}`,
    `jobs: ${ids.slice(0, MOST_JOBS).join(", ")}`,
    ...(isGrouped ? [`group: ${columnOf(group)}`] : AXES.includes(axis) ? [`axis: ${axis}`] : []),
  ];
  return `/articles/new?${new URLSearchParams({ text: `\`\`\`hora\n${lines.join("\n")}\n\`\`\`\n` })}`;
}

/** The column of jobs that has a field of a comparison. */
function columnOf(key: string): string {
  if (key === "cell") return key;
  if (key.startsWith("labels.")) return key.replace("labels.", "label.");
  return `spec.${key}${key === "optimizer" || key === "schedule" ? ".name" : ""}`;
}
