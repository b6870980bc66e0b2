// The states of hosts and slots, in figures and words. For every part of the page of hosts.

import type { Host, Slot } from "../../api/types.ts";

/** `out_of_service` is a free slot of a host that is lost, drained or without space. */
export type SlotState = Slot["state"] | "out_of_service";
export type HostState = "alive" | "drained" | "no_space" | "lost";

interface Words {
  readonly sign: string;
  readonly word: string;
  readonly means: string;
}

/** A state is readable without colours. The order is that of bars and legends. */
export const SLOT_STATES: Readonly<Record<SlotState, Words>> = {
  leased: { sign: "▶", word: "leased", means: "A job holds it" },
  free: { sign: "○", word: "free", means: "Ready for a job" },
  out_of_service: { sign: "‖", word: "out of service", means: "Its host is lost, drained or without space" },
  quarantined: { sign: "⚠", word: "quarantined", means: "A process of an ended attempt is still on it" },
  unhealthy: { sign: "✚", word: "unhealthy", means: "Its GPU is lost or reports errors" },
  in_use_by_others: { sign: "◐", word: "in use by others", means: "Processes of no job compute on its GPU" },
  retired: { sign: "⊘", word: "retired", means: "Its host no longer has it" },
};

export const ALL_SLOT_STATES = Object.keys(SLOT_STATES) as SlotState[];

export const HOST_STATES: Readonly<Record<HostState, readonly [sign: string, word: string]>> = {
  alive: ["●", "alive"],
  drained: ["‖", "drained"],
  no_space: ["▣", "no space"],
  lost: ["✕", "lost"],
};

export function stateOf(host: Host): HostState {
  if (!host.alive) return "lost";
  if (host.drained_at !== null) return "drained";
  return host.no_space ? "no_space" : "alive"; // an older service has no such field
}

export function slotStateOf(host: Host, slot: Slot): SlotState {
  return slot.state === "free" && stateOf(host) !== "alive" ? "out_of_service" : slot.state;
}

/** The nodes of a pool and what Slurm says of them: 3 nodes (2 idle, 1 mixed), 8 GPUs, 64 cores. Null: it is a host. */
export function nodesOf(host: Host): string | null {
  const nodes = host.nodes ?? null;
  if (nodes === null) return null;
  const states = new Map<string, number>();
  for (const node of nodes) {
    const state = node.failing ? `${node.state}, failing` : node.state;
    states.set(state, (states.get(state) ?? 0) + 1);
  }
  const counted = [...states].sort().map(([state, count]) => `${count} ${state}`);
  const gpus = nodes.flatMap((node) => Object.values(node.gpus)).reduce((sum, count) => sum + count, 0);
  const cores = nodes.reduce((sum, node) => sum + node.cpus, 0);
  const all = `${nodes.length} ${nodes.length === 1 ? "node" : "nodes"}${counted.length ? ` (${counted.join(", ")})` : ""}`;
  return [all, ...(gpus ? [`${gpus} GPUs`] : []), `${cores} cores`].join(", ");
}

export type Counts = Readonly<Record<SlotState, number>>;

export function countsOf(hosts: readonly Host[]): Counts {
  const counts = {
    leased: 0,
    free: 0,
    out_of_service: 0,
    quarantined: 0,
    unhealthy: 0,
    in_use_by_others: 0,
    retired: 0,
  };
  for (const host of hosts) for (const slot of host.slots) counts[slotStateOf(host, slot)] += 1;
  return counts;
}

export function statesOf(hosts: readonly Host[]): Readonly<Record<HostState, number>> {
  const states = { alive: 0, drained: 0, no_space: 0, lost: 0 };
  for (const host of hosts) states[stateOf(host)] += 1;
  return states;
}

/** The filters of the list of hosts; "" is all. */
export const NARROWINGS = [
  ["", "All hosts"],
  ["free", "With free slots"],
  ["leased", "With leased slots"],
  ["drained", "Drained"],
  ["no_space", "Without space"],
  ["lost", "Lost"],
  ["trouble", "With slots or GPUs in trouble"],
] as const;

/** The hosts that pass the filter and have this text in their name, address, slots or jobs. */
export function narrowed(hosts: readonly Host[], text: string, narrowing: string): readonly Host[] {
  const needle = text.trim().toLowerCase();
  return hosts.filter((host) => isOf(host, narrowing) && (needle === "" || textOf(host).includes(needle)));
}

function isOf(host: Host, narrowing: string): boolean {
  if (narrowing === "drained" || narrowing === "no_space" || narrowing === "lost") return stateOf(host) === narrowing;
  const counts = countsOf([host]);
  if (narrowing === "trouble") {
    const isUnhealthy = host.slots.some((slot) => reasonOf(slot) !== null); // also one that a job still holds
    return counts.quarantined + counts.retired > 0 || isUnhealthy || deviceProblemOf(host) !== null;
  }
  return narrowing === "free" || narrowing === "leased" ? counts[narrowing] > 0 : true;
}

function textOf(host: Host): string {
  const slots = host.slots.map((slot) => `${slot.name} ${slot.job_id ?? ""}`);
  return [host.name, host.address ?? "", host.kept_for ?? "", ...slots].join(" ").toLowerCase();
}

/** The slots of a host by kind: "8 × NVIDIA H100". */
export function hardwareOf(host: Host): string {
  const counts = new Map<string, number>();
  for (const { name } of host.slots) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => `${count} × ${name}`).join(", ");
}

/** A field of a host's `info`, which may be missing. */
export function infoOf(host: Host, name: string): number | string | null {
  const value = host.info[name];
  return typeof value === "number" || typeof value === "string" ? value : null;
}

/** Why a host does not offer its GPUs, or not as it should; null: it does. An older service does not say. */
export function deviceProblemOf(host: Host): string | null {
  const problem = infoOf(host, "device_problem");
  return typeof problem === "string" && problem !== "" ? problem : null;
}

/** Why no job gets a slot, beyond its state; null: its state says all. An older service does not say. */
export function reasonOf(slot: Slot): string | null {
  return slot.unhealthy || null;
}
