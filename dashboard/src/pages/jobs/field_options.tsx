// The fields of jobs as options: those of every job, and what the loaded jobs have.

import { useMemo } from "preact/hooks";
import { COLUMNS, type Column, metricColumns } from "./columns.ts";
import { fieldKeys } from "./fields.ts";
import type { Row } from "./row.ts";

const MOST_READ = 500; // rows: others have the same fields
const FIELDS = COLUMNS.filter((column: Column) => column.sort !== undefined).map(({ id }) => id); // others are pictures
const OF_EVERY_JOB: readonly string[] = [...FIELDS, "paused"];

interface Props {
  rows: readonly Row[];
  /** Those that come first. */
  first?: readonly string[];
  ofEveryJob?: readonly string[];
}

export function FieldOptions({ rows, first = [], ofEveryJob = OF_EVERY_JOB }: Props) {
  const ofRows = useMemo(() => {
    const some = rows.slice(0, MOST_READ);
    return [...metricColumns(some, []), ...fieldKeys(some)];
  }, [rows.length, rows[0]?.id]); // and not with every event
  return [...new Set([...first, ...ofEveryJob, ...ofRows])].map((field) => (
    <option key={field} value={field}>
      {field}
    </option>
  ));
}
