// Where own charts are: in the person's browser, for each project; or in the address, which then comes first. What a
// person changes while the address has charts, changes there alone.

import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { query, setParams } from "../../url.ts";
import { type OwnChart, ownChartOf, textOf } from "./own_chart.ts";

export interface OwnCharts {
  readonly charts: readonly OwnChart[];
  /** The address has them. */
  readonly isLinked: boolean;
  /** All of them are in the browser. */
  readonly isKept: boolean;
  readonly set: (charts: readonly OwnChart[]) => void;
  /** Add those of the address to those in the browser. */
  readonly keep: () => void;
}

const changes = signal(0);

export function useOwnCharts(project: string): OwnCharts {
  void changes.value;
  const key = `hora-charts-${project}`;
  const kept = linesOf(localStorage.getItem(key) ?? "");
  const linked = new URLSearchParams(query.value).getAll("chart");
  const isLinked = linked.length > 0;
  const text = (isLinked ? linked : kept).join("\n");
  const charts = useMemo(() => linesOf(text).map(ownChartOf), [text]);
  const store = (texts: readonly string[]): void => {
    localStorage.setItem(key, texts.join("\n"));
    changes.value += 1;
  };
  return {
    charts,
    isLinked,
    isKept: linked.every((each) => kept.includes(each)),
    set: (next) => (isLinked ? setParams({ chart: next.map(textOf) }) : store(next.map(textOf))),
    keep: () => {
      store([...kept, ...linked]);
      setParams({ chart: null });
    },
  };
}

/** The lines of a text, each once. */
function linesOf(text: string): string[] {
  return [...new Set(text.split("\n").filter((line) => line !== ""))];
}
