// Many hosts as a table. Only rows in view are rendered. A row opens the host's card.

import { useRef } from "preact/hooks";
import type { Host } from "../../api/types.ts";
import { Space, useRowsInView } from "../../parts/window.tsx";
import { pathWith } from "../../query.ts";
import { query } from "../../url.ts";
import styles from "./host_rows.module.css";
import { HostBadge, heartbeatText, sinceWhen } from "./host_state.tsx";
import { ALL_SLOT_STATES, countsOf, hardwareOf, SLOT_STATES, slotStateOf } from "./hosts.ts";
import { JobLink } from "./job_link.tsx";
import slotStyles from "./slots.module.css";

const ROW_PX = 40;
const STRIP = 16; // slots that are shown one by one

/** Names, widths (0 takes the rest), and classes: `wide` columns are hidden on narrow pages. */
const COLUMNS = [
  ["Host", 0, ""],
  ["State", 110, ""],
  ["Slots", 350, ""],
  ["Free", 60, "figure"],
  ["Hardware", 250, "wide"],
  ["Heartbeat", 110, "wide"],
  ["Kept for", 170, "wide"],
] as const;

interface Props {
  hosts: readonly Host[];
  names: ReadonlyMap<string, string>;
  opened: string;
}

export function HostRows({ hosts, names, opened }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const { first, end } = useRowsInView(scroller, hosts.length, ROW_PX);
  return (
    <div ref={scroller} class={styles["scroller"]} tabIndex={0} role="region" aria-label="Hosts">
      <table class={styles["table"]} aria-rowcount={hosts.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {COLUMNS.map(([name, width_px, kind]) => (
              <th
                key={name}
                scope="col"
                class={kind && (styles[kind] ?? kind)}
                style={width_px === 0 ? {} : { width: `${width_px}px` }}
              >
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <Space px={first * ROW_PX} />
        <tbody>
          {hosts.slice(first, end).map((host, index) => (
            <HostRow key={host.name} host={host} names={names} index={first + index} isOpened={host.name === opened} />
          ))}
        </tbody>
        <Space px={(hosts.length - end) * ROW_PX} />
      </table>
    </div>
  );
}

interface RowProps {
  host: Host;
  names: ReadonlyMap<string, string>;
  index: number;
  isOpened: boolean;
}

function HostRow({ host, names, index, isOpened }: RowProps) {
  return (
    <tr style={{ height: `${ROW_PX}px` }} aria-rowindex={index + 2} class={isOpened ? styles["opened"] : undefined}>
      <th scope="row">
        <a href={linkTo(host.name)} aria-expanded={isOpened}>
          {host.name}
        </a>
      </th>
      <td>
        <HostBadge host={host} />
      </td>
      <td>
        <Strip host={host} />
      </td>
      <td class="figure">{countsOf([host]).free}</td>
      <td class={styles["wide"]}>{hardwareOf(host)}</td>
      <td class={`${styles["wide"]} muted`} title={sinceWhen(host)}>
        {heartbeatText(host)}
      </td>
      <td class={styles["wide"]}>{host.kept_for !== null && <JobLink id={host.kept_for} names={names} />}</td>
    </tr>
  );
}

function linkTo(name: string): string {
  return pathWith("/hosts", { ...Object.fromEntries(new URLSearchParams(query.value)), host: name });
}

/** The states of the slots, one by one, with the counts in words for screen readers. */
function Strip({ host }: { host: Host }) {
  const counts = countsOf([host]);
  const stateTexts = ALL_SLOT_STATES.filter((slotState) => counts[slotState] > 0).map(
    (slotState) => `${counts[slotState]} ${SLOT_STATES[slotState].word}`,
  );
  const hiddenCount = host.slots.length - STRIP;
  return (
    <span class={slotStyles["strip"]} role="img" aria-label={stateTexts.join(", ")} title={stateTexts.join(", ")}>
      {host.slots.slice(0, STRIP).map((slot) => {
        const slotState = slotStateOf(host, slot);
        return (
          <span key={slot.index} class={`${slotStyles["cell"]} ${slotStyles[slotState]}`}>
            {SLOT_STATES[slotState].sign}
          </span>
        );
      })}
      {hiddenCount > 0 && <span class="muted">+{hiddenCount}</span>}
    </span>
  );
}
