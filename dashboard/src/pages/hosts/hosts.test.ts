import assert from "node:assert/strict";
import { test } from "node:test";
import type { Host, Slot } from "../../api/types.ts";
import {
  countsOf,
  deviceProblemOf,
  hardwareOf,
  narrowed,
  nodesOf,
  reasonOf,
  slotStateOf,
  stateOf,
  statesOf,
} from "./hosts.ts";

function slot(index: number, state: Slot["state"], job_id: string | null = null): Slot {
  const holder = job_id === null ? { attempt: null, rank: null } : { attempt: 1, rank: index };
  return {
    index,
    kind: "gpu",
    name: "NVIDIA H100",
    uuid: null,
    memory_bytes: null,
    state,
    job_id,
    reading: null,
    unhealthy: null,
    in_use_by_others: false,
    ...holder,
  };
}

function host(name: string, slots: readonly Slot[], more: Partial<Host> = {}): Host {
  const at = "2030-01-31T09:00:00Z";
  const known = { alive: true, heartbeat_at: at, heartbeat_age_s: 1, registered_at: at, drained_at: null };
  const rest = { kept_for: null, no_space: null, no_store: null, folders: [], address: null, info: {} };
  return { name, ...known, ...rest, slots: [...slots], ...more };
}

const BUSY = host("north-1", [slot(0, "leased", "abc"), slot(1, "free")], { address: "10.0.0.7" });
const DRAINED = host("north-2", [slot(0, "leased", "def"), slot(1, "free")], { drained_at: "2030-01-31T09:00:00Z" });
const LOST = host("south-1", [slot(0, "free"), slot(1, "quarantined")], { alive: false, kept_for: "xyz" });
const HOSTS = [BUSY, DRAINED, LOST];
const names = (hosts: readonly Host[]) => hosts.map(({ name }) => name);

test("a lost host counts as lost even if it is drained", () => {
  assert.deepEqual(HOSTS.map(stateOf), ["alive", "drained", "lost"]);
  assert.equal(stateOf({ ...DRAINED, alive: false }), "lost");
  assert.deepEqual(statesOf(HOSTS), { alive: 1, drained: 1, no_space: 0, lost: 1 });
});

test("a host without space gets no jobs, and is found by that", () => {
  const full = host("south-2", [slot(0, "leased", "ghi"), slot(1, "free")], { no_space: "runs has 0 MB free" });
  assert.equal(stateOf(full), "no_space");
  assert.equal(stateOf({ ...full, drained_at: "2030-01-31T09:00:00Z" }), "drained");
  assert.deepEqual(
    full.slots.map((each) => slotStateOf(full, each)),
    ["leased", "out_of_service"],
  );
  assert.deepEqual(names(narrowed([...HOSTS, full], "", "no_space")), ["south-2"]);
});

test("a pool says how many nodes it has in which state, and what they have", () => {
  const has = { name: "n1", cpus: 8, memory_bytes: 2 ** 30, features: [] };
  const node = { ...has, state: "mixed", gpus: { a100: 4 }, failing: false };
  const pool = host("slurm:main", [], { nodes: [node, { ...node, state: "idle", gpus: {} }, node] });
  assert.equal(nodesOf(pool), "3 nodes (1 idle, 2 mixed), 8 GPUs, 24 cores");
  assert.equal(nodesOf({ ...pool, nodes: [{ ...node, gpus: {} }] }), "1 node (1 mixed), 8 cores");
  assert.equal(
    nodesOf({ ...pool, nodes: [{ ...node, gpus: {}, failing: true }] }),
    "1 node (1 mixed, failing), 8 cores",
  );
  assert.equal(nodesOf(BUSY), null);
});

test("a free slot of a lost or drained host is out of service, and a leased one stays leased", () => {
  assert.deepEqual(
    DRAINED.slots.map((each) => slotStateOf(DRAINED, each)),
    ["leased", "out_of_service"],
  );
  assert.deepEqual(countsOf(HOSTS), {
    leased: 2,
    free: 1,
    out_of_service: 2,
    quarantined: 1,
    unhealthy: 0,
    in_use_by_others: 0,
    retired: 0,
  });
});

test("hosts are found by name, address, hardware and the jobs that they run or keep slots for", () => {
  assert.deepEqual(names(narrowed(HOSTS, "NORTH", "")), ["north-1", "north-2"]);
  assert.deepEqual(names(narrowed(HOSTS, "10.0.0.7", "")), ["north-1"]);
  assert.deepEqual(names(narrowed(HOSTS, "def", "")), ["north-2"]);
  assert.deepEqual(names(narrowed(HOSTS, "xyz", "")), ["south-1"]);
  assert.deepEqual(names(narrowed(HOSTS, "h100", "")), names(HOSTS));
  assert.deepEqual(names(narrowed(HOSTS, "h200", "")), []);
});

test("hosts are filtered by their state and that of their slots, and an unknown filter shows all", () => {
  assert.deepEqual(names(narrowed(HOSTS, "", "free")), ["north-1"]);
  assert.deepEqual(names(narrowed(HOSTS, "", "leased")), ["north-1", "north-2"]);
  assert.deepEqual(names(narrowed(HOSTS, "", "trouble")), ["south-1"]);
  assert.deepEqual(names(narrowed(HOSTS, "", "lost")), ["south-1"]);
  assert.deepEqual(names(narrowed(HOSTS, "north", "drained")), ["north-2"]);
  assert.deepEqual(names(narrowed(HOSTS, "", "a narrowing of a newer page")), names(HOSTS));
});

test("equal slots are counted together", () => {
  assert.equal(hardwareOf(BUSY), "2 × NVIDIA H100");
});

test("unhealthy slots and hosts that do not offer their GPUs are in trouble, and say why", () => {
  const why = "XID 79: it is off the bus";
  const broken = host("west-1", [{ ...slot(0, "unhealthy"), unhealthy: why }, slot(1, "free")]);
  const used = host("west-2", [{ ...slot(0, "in_use_by_others"), in_use_by_others: true }]);
  const onCpus = host("west-3", [slot(0, "free")], { info: { device_problem: "TensorFlow is built for CPUs" } });
  const all = [...HOSTS, broken, used, onCpus];
  assert.deepEqual(names(narrowed(all, "", "trouble")), ["south-1", "west-1", "west-3"]);
  assert.deepEqual(broken.slots.map(reasonOf), [why, null]);
  assert.deepEqual([onCpus, used].map(deviceProblemOf), ["TensorFlow is built for CPUs", null]);
  assert.equal(countsOf([broken, used]).unhealthy, 1);
  assert.equal(countsOf([broken, used]).in_use_by_others, 1);
  assert.deepEqual(names(narrowed(all, "", "free")), ["north-1", "west-1", "west-3"]);
});

test("a slot of an older service, without the newer fields, has no reason", () => {
  const { unhealthy: _, in_use_by_others: __, ...older } = slot(0, "retired");
  assert.equal(reasonOf(older as Slot), null);
});
