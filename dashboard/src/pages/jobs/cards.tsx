// The jobs as cards, on pages too narrow for a table.

import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { number } from "../../format.ts";
import type { InView } from "../../parts/window.tsx";
import styles from "./cards.module.css";
import { type CellProps, Duration, JobCurve, JobStatus, Name, Progress, When } from "./cells.tsx";
import type { Curve } from "./curves.ts";
import { figuresOf, metricOf } from "./figures.ts";
import type { Row } from "./row.ts";
import type { Marks } from "./use_marks.ts";

export const CARD_PX = 116;

interface Props {
  rows: readonly Row[];
  inView: InView;
  metric: string;
  curves: ReadonlyMap<string, Curve>;
  marks: Marks;
  onLabel: (label: string) => void;
}

export function Cards({ rows, inView: { first, end }, metric, curves, marks, onLabel }: Props) {
  return (
    <ul
      aria-label="Jobs"
      style={{ paddingTop: `${first * CARD_PX}px`, paddingBottom: `${(rows.length - end) * CARD_PX}px` }}
    >
      {rows.slice(first, end).map((row) => (
        <Card
          key={row.id}
          row={row}
          metric={metric}
          curve={curves.get(row.id)}
          isSelected={marks.selection.has(row.id)}
          toggle={marks.toggle}
          onMenu={marks.openMenu}
          onLabel={onLabel}
        />
      ))}
    </ul>
  );
}

interface CardProps extends CellProps {
  isSelected: boolean;
  toggle: Marks["toggle"];
}

function Card({ row, metric, curve, isSelected, toggle, onMenu, onLabel }: CardProps): ComponentChildren {
  return useMemo(() => {
    const shownMetric = metricOf(row, metric);
    const { best } = figuresOf(row, shownMetric, curve);
    const cellProps = { row, metric, curve, onMenu, onLabel };
    return (
      <li data-job={row.id} class={`${styles["card"]} ${isSelected ? styles["selected"] : ""}`}>
        <div class={styles["line"]}>
          <input
            type="checkbox"
            aria-label={`Select ${row.name} ${row.id}`}
            checked={isSelected}
            onClick={() => toggle(row, false)}
          />
          <span class={styles["rest"]}>
            <Name {...cellProps} />
          </span>
          <span class="muted">
            <When at={row.created_at} />
          </span>
        </div>
        <div class={styles["line"]}>
          <JobStatus row={row} />
          <span class={styles["rest"]}>
            <Progress row={row} />
          </span>
        </div>
        <div class={styles["line"]}>
          <JobCurve row={row} metric={metric} curve={curve} />
          {best !== null && (
            <span class={styles["best"]}>
              <span class="muted">best {shownMetric}</span> {number(best)}
            </span>
          )}
          <span class={styles["facts"]}>
            {number(row.gpus)} GPU{row.gpus === 1 ? "" : "s"} · {row.owner}
            {row.started_at !== null && (
              <>
                {" "}
                · <Duration row={row} />
              </>
            )}
          </span>
        </div>
      </li>
    );
  }, [row, metric, curve, isSelected, toggle, onMenu, onLabel]);
}
