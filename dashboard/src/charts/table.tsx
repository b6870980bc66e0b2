// The points of a chart as a table, for screen readers and for exact values.

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

const ROWS = 50; // enough to read; zoom in for more

export function PointTable({ title, lines, scope, xName, format, formatX }: Props) {
  const range = scope.range.value;
  if (range === null) return null;
  const longest = lines.reduce((best, line) => (line.xs.length > best.xs.length ? line : best)).xs;
  const first = Math.max(0, indexUpTo(longest, range[0]));
  const last = indexUpTo(longest, range[1]);
  const stride = Math.max(1, (last - first) / (ROWS - 1));
  const count = last < first ? 0 : Math.floor((last - first) / stride) + 1;
  const rows = Array.from({ length: count }, (_, i) => longest[Math.round(first + i * stride)] as number);
  const reach = (range[1] - range[0]) / Math.max(1, count);
  return (
    <div class={styles["scroll"]} tabIndex={0} role="region" aria-label={`Points of ${title}`}>
      <table>
        <caption class="spoken">
          {title}, {count} of {last - first + 1} places in view
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
          {rows.map((x, row) => (
            <tr key={row}>
              <th scope="row">{formatX(x)}</th>
              {lines.map((line) => (
                <td key={line.key} class="figure">
                  {format(valueNear(line, x, reach))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The value of the point nearest to `x`; NaN if no point is within `reach`. */
function valueNear({ xs, ys }: Line, x: number, reach: number): number {
  const nearest = indexNearest(xs, x);
  return Math.abs((xs[nearest] ?? Number.NaN) - x) <= reach ? (ys[nearest] as number) : Number.NaN;
}
