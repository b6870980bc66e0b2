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

const eventsParam = param("events", "all");
const PAGE = 200;
const KINDS = [
  ["all", "All"],
  ["main", "Without epochs"],
] as const;

const COLUMNS: readonly Column<JobEvent>[] = [
  { name: "Event", cell: kindOf },
  { name: "At", cell: ({ at }) => moment(at), title: ({ at }) => at },
  { name: "Attempt", isFigure: true, cell: ({ attempt }) => attempt ?? "" },
  { name: "Details", cell: (event) => <span class={styles["detail"]}>{detailOf(event)}</span> },
];

export function EventsPanel({ events }: { events: readonly JobEvent[] }) {
  const [limit, setLimit] = useState(PAGE);
  const isMain = eventsParam.value === "main";
  const listedEvents = useMemo(
    () => (isMain ? events.filter((event) => !isOfEpochs(event)) : events),
    [events, isMain],
  );
  const rows = useMemo(() => listedEvents.slice(-limit).reverse(), [listedEvents, limit]);
  // The page renders each second while the job runs; the table renders only when there are new events.
  const table = useMemo(
    () => <RowsTable label="Table of events" rows={rows} keyOf={({ id }) => id} columns={COLUMNS} />,
    [rows],
  );
  return (
    <Panel
      title="Events"
      flush
      tools={<Choice label="Which events" value={eventsParam.value} options={KINDS} onChange={eventsParam.set} />}
    >
      {events.length === 0 ? <p class={styles["empty"]}>No events yet.</p> : table}
      {listedEvents.length > rows.length && (
        <p class={styles["empty"]}>
          <button type="button" onClick={() => setLimit(limit + PAGE)}>
            Show {Math.min(PAGE, listedEvents.length - rows.length)} older events
          </button>{" "}
          {rows.length} of {listedEvents.length} events
        </p>
      )}
    </Panel>
  );
}
