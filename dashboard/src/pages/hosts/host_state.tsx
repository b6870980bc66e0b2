// Whether a host is there and takes jobs.

import type { Host } from "../../api/types.ts";
import { duration, moment } from "../../format.ts";
import styles from "./host_state.module.css";
import { HOST_STATES, stateOf } from "./hosts.ts";

export function HostBadge({ host }: { host: Host }) {
  const state = stateOf(host);
  const [sign, word] = HOST_STATES[state];
  return (
    <span class={`${styles["badge"]} ${styles[state]}`}>
      <span aria-hidden="true">{sign}</span> {word}
    </span>
  );
}

/** When it was heard of. */
export function heardOf(host: Host): string {
  return host.alive ? `${duration(host.heartbeat_age_s)} ago` : moment(host.heartbeat_at);
}

/** The same in a sentence, and since when it takes no jobs. */
export function sinceWhen(host: Host): string {
  const heard = `${host.alive ? "" : "last "}heard of ${heardOf(host)}`;
  return host.drained_at === null ? heard : `${heard}, drained since ${moment(host.drained_at)}`;
}
