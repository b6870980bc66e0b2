// The trials of a search: the columns of their table, the points of their chart, and the importances. Pure.

import type { StudyReport, Trial } from "../../api/types.ts";
import { runColour } from "../../charts/palette.ts";
import type { PointLine } from "../../charts/point_chart.tsx";
import { number } from "../../format.ts";
import { metricText } from "../../metrics.ts";
import { byValue } from "../../order.ts";
import { fieldLabel, valueText } from "./figures.ts";

export interface TrialColumn {
  readonly key: string;
  readonly label: string;
  readonly format: (trial: Trial) => string;
  readonly sortValue: (trial: Trial) => number | string | null;
}

/** The columns: number, values, objective, epochs and state. */
export function trialColumns(report: StudyReport): TrialColumn[] {
  const values = report.varied.map(
    (field): TrialColumn => ({
      key: `values.${field}`,
      label: fieldLabel(field),
      format: ({ values }) => valueText(values[field]),
      sortValue: ({ values }) => (typeof values[field] === "number" ? values[field] : valueText(values[field])),
    }),
  );
  return [
    { key: "number", label: "trial", format: (trial) => String(trial.number), sortValue: (trial) => trial.number },
    ...values,
    {
      key: "objective",
      label: objectiveLabel(report),
      format: ({ objective }) => (objective === null ? "–" : number(objective)),
      sortValue: (trial) => trial.objective,
    },
    {
      key: "epochs",
      label: "epochs",
      format: ({ epochs }) => (epochs === null ? "–" : String(epochs)),
      sortValue: (trial) => trial.epochs,
    },
    { key: "status", label: "state", format: stateOf, sortValue: stateOf },
  ];
}

export function objectiveLabel(report: StudyReport): string {
  return metricText(report.search?.objective ?? "");
}

/** Succeeded, failed, pruned at epoch 3. */
export function stateOf({ status, pruned_at_epoch }: Trial): string {
  return pruned_at_epoch === null ? status : `pruned at epoch ${pruned_at_epoch}`;
}

/** The trials, sorted by a column. Those without a value come last. */
export function sortedTrials(report: StudyReport, sort: string): Trial[] {
  const column = trialColumns(report).find(({ key }) => key === sort.replace(/^-/, ""));
  const trials = [...(report.trials ?? [])];
  if (column === undefined) return trials;
  return trials.sort((a, b) => byValue(column.sortValue(a), column.sortValue(b), sort.startsWith("-")));
}

/** The objective over the trials: one line of points for whole trials, and one for pruned ones. */
export function trialLines(report: StudyReport): PointLine[] {
  const withValue = (report.trials ?? []).filter(({ objective }) => objective !== null);
  const isPruned = ({ pruned_at_epoch }: Trial): boolean => pruned_at_epoch !== null;
  return [
    { name: "to the end", colour: runColour(0), trials: withValue.filter((trial) => !isPruned(trial)) },
    { name: "pruned", colour: runColour(1), trials: withValue.filter(isPruned) },
  ].flatMap(({ name, colour, trials }) =>
    trials.length === 0
      ? []
      : [
          {
            name,
            colour,
            points: trials.map((trial) => ({
              x: trial.number,
              value: trial.objective ?? 0,
              low: null,
              high: null,
              label: `trial ${trial.number}`,
            })),
          },
        ],
  );
}

/** The share of each field, the largest first. */
export function importancesOf(report: StudyReport): [field: string, share: number][] {
  return Object.entries(report.importances ?? {}).sort(([, a], [, b]) => b - a);
}
