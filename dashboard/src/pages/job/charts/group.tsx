// A group of charts with a title that folds it.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Plot, type PlotProps } from "../../../charts/plot.tsx";
import { countText, fileStem } from "../../../format.ts";
import type { Chart } from "./chart.ts";
import styles from "./group.module.css";
import { useIsNarrow } from "./narrow.ts";

interface Props {
  title: string;
  note?: string | undefined;
  /** Beside the title. */
  tools?: ComponentChildren;
  isOpen: boolean;
  onFold: () => void;
  charts: readonly Chart[];
  /** What all charts share. */
  plot: { fileName: string } & Pick<PlotProps, "scope" | "marks" | "xName" | "unitX" | "hidden" | "onToggle">;
}

const MANY = 24; // charts: each is a canvas that is drawn with every cursor

export function Group({ title, note, tools, isOpen, onFold, charts, plot }: Props) {
  const height = useIsNarrow() ? 150 : 190;
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? charts : charts.slice(0, MANY);
  if (isOpen && charts.length === 0 && note === undefined && tools === undefined) return null;
  return (
    <section class={styles["group"]} aria-label={title}>
      <div class={styles["header"]}>
        <h3>
          <button type="button" class={styles["fold"]} aria-expanded={isOpen} onClick={onFold}>
            <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span> {title}
          </button>
        </h3>
        {!isOpen && charts.length > 0 && <span class="muted">{countText(charts.length, "chart")}</span>}
        {isOpen && note !== undefined && <span class="muted">{note}</span>}
        {isOpen && tools}
      </div>
      {isOpen && (
        <div class={styles["charts"]}>
          {shown.map(({ key, ...chart }) => (
            <Plot
              key={key}
              {...plot}
              {...chart}
              fileName={`${fileStem(plot.fileName)}-${fileStem(key)}`}
              height={height}
            />
          ))}
        </div>
      )}
      {isOpen && shown.length < charts.length && (
        <button type="button" onClick={() => setWhole(true)}>
          Show {charts.length - shown.length} more charts
        </button>
      )}
    </section>
  );
}
