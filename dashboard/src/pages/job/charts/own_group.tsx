// The section of a person's own charts on the page of a job, with the dialog and the menu that change them.

import { type Signal, useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Job } from "../../../api/types.ts";
import { ChartDialog } from "../../../charts/own/dialog.tsx";
import { ChartMenu, Keeping } from "../../../charts/own/tools.tsx";
import { useOwnCharts } from "../../../charts/own/use_own_charts.ts";
import type { Mark } from "../../../charts/pen.ts";
import { newScope, type Scope } from "../../../charts/scope.ts";
import { type Place, placeOf } from "../../../parts/popup.tsx";
import type { Chart, ChartOptions } from "./chart.ts";
import type { Metrics } from "./curves.ts";
import { ownChart } from "./own.ts";

interface Input {
  job: Job;
  metrics: Metrics;
  options: ChartOptions;
  scope: Scope;
  marks: readonly Mark[];
  /** The place of the chart that the dialog changes; -1 for a new one. */
  edited: Signal<number | null>;
}

/** The group, and what is open over it. */
export function useOwnGroup({ job, metrics, options, scope, marks, edited }: Input) {
  const own = useOwnCharts(job.project);
  const menu = useSignal<{ readonly index: number; readonly place: Place } | null>(null);
  const isLive = job.ended_at === null;
  const drawn = useMemo(
    () => own.charts.map((chart) => ownChart(chart, metrics, options, isLive)),
    [own.charts, metrics, options, isLive],
  );
  // A logarithmic axis is no other chart's, so it has a zoom and a cursor of its own.
  const logX = useMemo(
    () => ({
      isLogX: true,
      scope: newScope(undefined, scope.cuts, scope.isCropped),
      marks: marks.filter(({ x }) => x > 0).map((mark) => ({ ...mark, x: Math.log10(mark.x) })),
    }),
    [scope, marks],
  );
  const button = (index: number, text: string) => (
    <button
      type="button"
      aria-label={`Change ${drawn[index]?.title}`}
      onClick={(event) => {
        menu.value = { index, place: placeOf(event) };
      }}
    >
      {text}
    </button>
  );
  const charts = drawn.map((chart, index) => ({
    ...chart,
    ...(own.charts[index]?.isLogX ? logX : {}),
    tools: button(index, "⋯"),
  }));
  const isShown = ({ lines }: Chart): boolean => isLive || lines.length > 0;
  const closeMenu = (): void => {
    menu.value = null;
  };
  const closeDialog = (): void => {
    edited.value = null;
  };
  const place = edited.value;
  return {
    own,
    /** The charts without a metric of this job are named in a line. */
    group: {
      key: "-",
      title: "Own charts",
      charts: charts.filter(isShown),
      tools: (
        <>
          <Keeping own={own} />
          {!drawn.every(isShown) && <span class="muted">Not in this job:</span>}
          {drawn.map((chart, index) => isShown(chart) || button(index, chart.title))}
        </>
      ),
    },
    over: (
      <>
        {menu.value && (
          <ChartMenu
            own={own}
            {...menu.value}
            onMove={(index) => {
              menu.value = menu.value && { ...menu.value, index };
            }}
            onEdit={() => {
              edited.value = menu.value?.index ?? null;
              closeMenu();
            }}
            onClose={closeMenu}
          />
        )}
        {place !== null && (
          <ChartDialog
            chart={own.charts[place]}
            metrics={[...metrics.keys()]}
            onClose={closeDialog}
            onSave={(chart) => {
              closeDialog();
              own.set(place < 0 ? [...own.charts, chart] : own.charts.with(place, chart));
            }}
          />
        )}
      </>
    ),
  };
}
