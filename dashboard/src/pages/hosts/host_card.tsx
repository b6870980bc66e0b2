// A host in full: its state, its load and its slots.

import { useEffect, useRef } from "preact/hooks";
import type { Host } from "../../api/types.ts";
import { bytes, moment, number } from "../../format.ts";
import { useSeen } from "../../seen.ts";
import { Actions } from "./actions.tsx";
import styles from "./host_card.module.css";
import { HostBadge, sinceWhen } from "./host_state.tsx";
import { deviceProblemOf, hardwareOf, infoOf, nodesOf } from "./hosts.ts";
import { JobLink } from "./job_link.tsx";
import { Load } from "./load.tsx";
import { SlotTile } from "./slot_tile.tsx";

interface Props {
  host: Host;
  names: ReadonlyMap<string, string>;
  isAdmin: boolean;
  onChanged: () => void;
  /** Only for a card that was opened from the table. */
  onClose?: () => void;
}

export function HostCard({ host, names, isAdmin, onChanged, onClose }: Props) {
  const element = useRef<HTMLElement>(null);
  const isSeen = useSeen(element);
  const isOpened = onClose !== undefined;
  const deviceProblem = deviceProblemOf(host);
  useEffect(() => {
    if (isOpened) element.current?.scrollIntoView({ block: "nearest" });
  }, [isOpened, host.name]);
  return (
    <article ref={element} class={styles["card"]} aria-label={`Host ${host.name}`}>
      <header class={styles["header"]}>
        <h2>{host.name}</h2>
        <HostBadge host={host} />
        <span class={styles["since"]}>{sinceWhen(host)}</span>
        {isAdmin && <Actions host={host} onDone={onChanged} />}
        {isOpened && (
          <button type="button" onClick={onClose}>
            Close
          </button>
        )}
      </header>
      <p class={styles["facts"]} title={`Registered ${moment(host.registered_at)}`}>
        {factsOf(host).join(" · ")}
      </p>
      {host.no_space && (
        <p class={styles["kept"]}>
          <span aria-hidden="true">▣</span> It takes no jobs until there is space: {host.no_space}
        </p>
      )}
      {host.problem && (
        <p class={styles["kept"]}>
          <span aria-hidden="true">⚠</span> It takes no jobs: {host.problem}
        </p>
      )}
      {host.no_store && (
        <p class={styles["kept"]}>
          <span aria-hidden="true">⚠</span> Nothing is copied to the store from here: {host.no_store}
        </p>
      )}
      {deviceProblem !== null && (
        <p class={styles["kept"]}>
          <span aria-hidden="true">⚠</span> {deviceProblem}
        </p>
      )}
      {host.kept_for !== null && (
        <p class={styles["kept"]}>
          <span aria-hidden="true">⚑</span> Its free slots are kept for <JobLink id={host.kept_for} names={names} />
        </p>
      )}
      {host.alive && !host.nodes && <Load host={host} isSeen={isSeen} />}
      <ul class={styles["slots"]} aria-label={`Slots of ${host.name}`}>
        {host.slots.map((slot) => (
          <SlotTile key={slot.index} host={host} slot={slot} names={names} />
        ))}
      </ul>
    </article>
  );
}

function factsOf(host: Host): string[] {
  const nodes = nodesOf(host);
  if (nodes !== null) return [nodes];
  const cores = infoOf(host, "cores");
  const memory = infoOf(host, "memory_bytes");
  const versions = host.info["versions"] as Record<string, string> | undefined;
  return [
    hardwareOf(host) || "no slots",
    cores === null ? "" : `${cores} cores`,
    typeof memory === "number" ? bytes(memory) : "",
    host.address === null ? "no address: takes only jobs that fit on this host" : String(host.address),
    versions?.["hora"] === undefined ? "" : `hora ${versions["hora"]}`,
    clock(host),
  ].filter((fact) => fact !== "");
}

const CLOCK_OFF_S = 1; // with a larger offset, times of different hosts do not match

function clock(host: Host): string {
  const offset_s = infoOf(host, "clock_offset_s");
  if (typeof offset_s !== "number" || Math.abs(offset_s) < CLOCK_OFF_S) return "";
  return `its clock is ${number(Math.abs(offset_s), 2)} s ${offset_s > 0 ? "ahead" : "behind"}`;
}
