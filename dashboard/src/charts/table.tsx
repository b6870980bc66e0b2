// The points of a chart as a table, for screen readers and for who wants the figures. Built only while it is open.

import { useState } from "preact/hooks";
import { indexNearest, indexUpTo, type Line } from "./lines.ts";
import type { Scope } from "./scope.ts";
import styles from "./table.module.css";

interface Props {
  title: string;
  lines: readonly Line[];
  scope: Scope;
  xName: string;
  format: (y: number) => string;
  formatX: (x: number) => string;
}

const ROWS = 50;

export function PointTable(props: Props) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class={styles["details"]} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Table of {props.title}</summary>
      {isOpen && <Rows {...props} />}
    </details>
  );
}

function Rows({ title, lines, scope, xName, format, formatX }: Props) {
  const range = scope.range.value;
  const longest = lines.reduce((best, line) => (line.xs.length > best.xs.length ? line : best));
  if (range === null) return null;
  const first = Math.max(0, indexUpTo(longest.xs, range[0]));
  const last = indexUpTo(longest.xs, range[1]);
  const stride = Math.max(1, (last - first) / (ROWS - 1));
  const rows = Array.from({ length: Math.floor((last - first) / stride) + 1 }, (_, i) =>
    Math.round(first + i * stride),
  );
  return (
    <div class={styles["scroll"]} tabIndex={0} role="region" aria-label={`Points of ${title}`}>
      <table>
        <caption class="spoken">
          {title}, {rows.length} of {last - first + 1} points in view
        </caption>
        <thead>
          <tr>
            <th scope="col">{xName}</th>
            {lines.map((line) => (
              <th key={line.key} scope="col" class="figure">
                {line.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const x = longest.xs[row] as number;
            return (
              <tr key={row}>
                <th scope="row">{formatX(x)}</th>
                {lines.map((line) => (
                  <td key={line.key} class="figure">
                    {format(line.ys[indexNearest(line.xs, x)] ?? Number.NaN)}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
