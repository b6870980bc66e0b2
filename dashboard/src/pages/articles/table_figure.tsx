// A table of an article: a row for each job, with the columns of the table of jobs.

import { useMemo } from "preact/hooks";
import type { ArticleTable } from "../../api/types.ts";
import { number, UNKNOWN } from "../../format.ts";
import { ProblemNotice } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import type { ColumnId } from "../jobs/columns.ts";
import { csvColumns } from "../jobs/csv.ts";
import type { Value } from "../jobs/fields.ts";
import { rowOf } from "../jobs/row.ts";
import styles from "./blocks.module.css";
import { captionOf, useBlockJobs } from "./use_runs.ts";

export function TableFigure({ block }: { block: ArticleTable }) {
  const found = useBlockJobs(block.runs);
  const title = block.title ?? "Jobs";
  const rows = useMemo(() => (found.jobs ?? []).map((job) => rowOf(job)), [found.jobs]);
  const [id, ...columns] = csvColumns(block.columns as ColumnId[], "", Date.now());
  const isFigure = columns.map(([, read]) => rows.some((row) => typeof read(row) === "number"));
  return (
    <figure class={styles["figure"]} aria-busy={!(found.jobs ?? found.problem)}>
      <ProblemNotice problem={found.problem} />
      <Panel title={title} flush>
        <div class={styles["scroll"]} tabIndex={0} role="region" aria-label={`Table of ${title}`}>
          <table>
            <thead>
              <tr>
                {id !== undefined && <th scope="col">Job</th>}
                {columns.map(([title], place) => (
                  <th key={title} scope="col" class={isFigure[place] ? "figure" : undefined}>
                    {title}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.id}>
                  <th scope="row">
                    <a class="mono" href={`/jobs/${row.id}`}>
                      {row.id}
                    </a>
                  </th>
                  {columns.map(([title, read], place) => (
                    <td key={title} class={isFigure[place] ? "figure" : undefined}>
                      <bdi>{textOf(read(row))}</bdi>
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </Panel>
      <figcaption class={styles["caption"]}>{captionOf(block.runs, found)}</figcaption>
    </figure>
  );
}

function textOf(value: Value): string {
  if (value === null) return UNKNOWN;
  return typeof value === "number" ? number(value) : String(value);
}
