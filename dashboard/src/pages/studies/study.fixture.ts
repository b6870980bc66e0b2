// A study and its report for tests: two GPU counts, two batches, three repeats.

import type { CellReport, Interval, StudyLine, StudyReport } from "../../api/types.ts";

export function interval(mean: number, half: number | null = null): Interval {
  return { mean, low: half === null ? null : mean - half, high: half === null ? null : mean + half, values: [mean] };
}

export function cell(values: Record<string, unknown>, parts: Partial<CellReport> = {}): CellReport {
  return {
    values,
    gpus: (values["gpus"] as number | undefined) ?? 1,
    hosts: 1,
    jobs: [],
    repeats: 3,
    failed: 0,
    failures: [],
    unfinished: 0,
    beside_others: 0,
    wall_s: null,
    setup_s: null,
    samples_per_s: null,
    val_accuracy: null,
    metrics: {},
    epochs_run: null,
    time_to_target_s: null,
    gpu_hours_to_target: null,
    reached_target: 0,
    gpu_hours: null,
    cost: null,
    speedup: null,
    throughput_speedup: null,
    efficiency: null,
    speedup_vs_cpu: null,
    throughput_vs_cpu: null,
    accuracy_agreement: null,
    loss_agreement: {},
    ...parts,
  };
}

export function report(cells: CellReport[], parts: Partial<StudyReport> = {}): StudyReport {
  return {
    study_id: "s1",
    name: "scaling",
    varied: Object.keys(cells[0]?.values ?? {}),
    repeats: 3,
    complete: true,
    scaling: "weak",
    baseline: { gpus: 1 },
    target: null,
    goal: null,
    cells,
    best: {},
    outliers: [],
    outliers_set_aside: true,
    findings: [],
    next_steps: [],
    notes: [],
    ...parts,
  };
}

export const SCALING = report([
  cell({ gpus: 1, batch_size: 32 }, { wall_s: interval(10, 1), speedup: 1 }),
  cell({ gpus: 1, batch_size: 64 }, { wall_s: interval(8, 1), speedup: 1 }),
  cell({ gpus: 2, batch_size: 32 }, { wall_s: interval(5, 1), speedup: 2 }),
  cell({ gpus: 2, batch_size: 64 }, { repeats: 0, unfinished: 3 }),
]);

/** A study of a regression script, whose least error counts. */
export const SCRIPTS = report(
  [0.1, 0.01].map((rate, place) =>
    cell(
      { "params.lr": rate },
      { gpu_hours: interval(place + 1), metrics: { val_mae: interval(rate), mae: interval(place), iou: interval(1) } },
    ),
  ),
  { goal: { metric: "val_mae", mode: "min" }, best: { goal: 1 }, baseline: null },
);

export function line(counts: Partial<StudyLine["counts"]>, parts: Partial<StudyLine> = {}): StudyLine {
  const allCounts = { queued: 0, launching: 0, running: 0, succeeded: 0, failed: 0, cancelled: 0, ...counts };
  const jobs = Object.values(allCounts).reduce((a, b) => a + b);
  return {
    id: "s1",
    name: "scaling",
    owner: "ada",
    project: "default",
    varied: ["gpus", "batch_size"],
    repeats: 3,
    target: null,
    jobs,
    counts: allCounts,
    paused: 0,
    complete: allCounts.queued + allCounts.launching + allCounts.running === 0,
    cancel_requested_at: null,
    created_at: "2030-01-01T00:00:00Z",
    revision: 1,
    ...parts,
  };
}
