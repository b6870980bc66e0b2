// The history of a job, newest first, as it grows.

import { useMemo, useState } from "preact/hooks";
import type { JobEvent } from "../../../api/types.ts";
import { moment } from "../../../format.ts";
import { Choice } from "../../../parts/choice.tsx";
import { Panel } from "../../../parts/panel.tsx";
import { param } from "../../../url.ts";
import { type Column, RowsTable } from "../rows_table.tsx";
import styles from "./events.module.css";
import { detailOf, isOfEpochs, kindOf } from "./words.ts";

const shown = param("events", "all");
const PAGE = 200;
const KINDS = [
  ["all", "All"],
  ["main", "Without epochs"],
] as const;

const COLUMNS: readonly Column<JobEvent>[] = [
  { name: "What", of: kindOf },
  { name: "At", of: ({ at }) => moment(at), title: ({ at }) => at },
  { name: "Attempt", isFigure: true, of: ({ attempt }) => attempt ?? "" },
  { name: "Details", of: (event) => <span class={styles["detail"]}>{detailOf(event)}</span> },
];

export function EventsPanel({ events }: { events: readonly JobEvent[] }) {
  const [most, setMost] = useState(PAGE);
  const isMain = shown.value === "main";
  const wanted = useMemo(() => (isMain ? events.filter((event) => !isOfEpochs(event)) : events), [events, isMain]);
  const rows = useMemo(() => wanted.slice(-most).reverse(), [wanted, most]);
  // The page is drawn each second while the job runs, and this only when there are news.
  const table = useMemo(
    () => <RowsTable label="Events" rows={rows} keyOf={({ id }) => id} columns={COLUMNS} />,
    [rows],
  );
  return (
    <Panel
      title="Events"
      flush
      tools={<Choice label="Which events" value={shown.value} options={KINDS} onChange={shown.set} />}
    >
      {events.length === 0 ? <p class={styles["empty"]}>No events yet.</p> : table}
      {wanted.length > rows.length && (
        <p class={styles["empty"]}>
          <button type="button" onClick={() => setMost(most + PAGE)}>
            Show {Math.min(PAGE, wanted.length - rows.length)} older ones
          </button>{" "}
          {rows.length} of {wanted.length} events
        </p>
      )}
    </Panel>
  );
}
