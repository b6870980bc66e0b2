// The state of a host: whether it is alive and takes jobs.

import type { Host } from "../../api/types.ts";
import { duration, moment } from "../../format.ts";
import { Badge, type Tone } from "../../parts/badge.tsx";
import { HOST_STATES, type HostState, stateOf } from "./hosts.ts";

const TONES: Readonly<Record<HostState, Tone>> = { alive: "good", drained: "warn", no_space: "warn", lost: "bad" };

export function HostBadge({ host }: { host: Host }) {
  const state = stateOf(host);
  const [sign, word] = HOST_STATES[state];
  return <Badge tone={TONES[state]} sign={sign} text={word} />;
}

/** When its last heartbeat was. */
export function heartbeatText(host: Host): string {
  return host.alive ? `${duration(host.heartbeat_age_s)} ago` : moment(host.heartbeat_at);
}

/** The same as a phrase, and since when it is drained. */
export function sinceWhen(host: Host): string {
  const heartbeat = `${host.alive ? "" : "last "}heartbeat ${heartbeatText(host)}`;
  return host.drained_at === null ? heartbeat : `${heartbeat}, drained since ${moment(host.drained_at)}`;
}
