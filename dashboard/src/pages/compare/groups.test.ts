import assert from "node:assert/strict";
import { test } from "node:test";
import type { Job } from "../../api/types.ts";
import { settingsAmong } from "./fields.ts";
import { groupCurve } from "./group_curve.ts";
import { groupLines, groupMeans } from "./group_lines.ts";
import { CELL, coloured, grouped, groupings, withToggled } from "./groups.ts";
import { job } from "./job.fixture.ts";
import { runsOf } from "./runs.ts";

const SPECS = [
  { batch_size: 32, seed: 1 },
  { batch_size: 64, seed: 1 },
  { batch_size: 32, seed: 2 },
  { batch_size: 64, seed: 2 },
];
const JOBS = SPECS.map((spec, i) => ({ ...job(`j${i}`, { spec }), study: "s", study_cell: i % 2 }) as Job);
const IDS = JOBS.map(({ id }) => id);
const SETTINGS = settingsAmong(JOBS).differing;
const runsWith = (hidden: readonly string[], jobs: readonly Job[] = JOBS) =>
  runsOf(IDS, new Map(jobs.map((one) => [one.id, one])), [], { hidden: new Set(hidden), best: null });
const idsOf = (groups: ReturnType<typeof grouped>) => groups.map(({ runs }) => runs.map(({ id }) => id));

test("runs with one value of a field are a group with one colour, in the order of the values", () => {
  const groups = grouped(runsWith([]), "batch_size", SETTINGS);
  assert.deepEqual(idsOf(groups), [
    ["j0", "j2"],
    ["j1", "j3"],
  ]);
  assert.deepEqual(
    groups.map(({ name, colour }) => [name, colour]),
    [
      ["32", "run-0"],
      ["64", "run-1"],
    ],
  );
  assert.deepEqual(
    coloured(runsWith([]), groups).map(({ id, colour }) => [id, colour]),
    [
      ["j0", "run-0"],
      ["j1", "run-1"],
      ["j2", "run-0"],
      ["j3", "run-1"],
    ],
  );
});

test("a cell of a study is named after what sets it apart, not after the seeds of its repeats", () => {
  assert.deepEqual(
    grouped(runsWith([]), CELL, SETTINGS).map(({ name }) => name),
    ["batch size 32", "batch size 64"],
  );
  assert.deepEqual(
    grouped(runsWith([]), CELL, []).map(({ name }) => name),
    ["cell 1", "cell 2"],
  );
});

test("runs without a value are the last group", () => {
  const jobs = JOBS.map((one, i) => ({ ...one, labels: i === 1 ? { team: "a" } : {} }) as Job);
  const groups = grouped(runsWith([], jobs), "labels.team", settingsAmong(jobs).differing);
  assert.deepEqual(
    groups.map(({ name }) => name),
    ["a", "no label team"],
  );
});

test("labels come before settings, and a field of the address is always a choice", () => {
  const jobs = JOBS.map((one, i) => ({ ...one, labels: { team: String(i) } }) as Job);
  const keys = groupings(jobs, settingsAmong(jobs).differing, "epochs").map(([key]) => key);
  assert.deepEqual([keys[0], keys[1], keys.at(-1)], [CELL, "labels.team", "epochs"]);
  assert.deepEqual(groupings([job("a")], [], ""), []);
});

test("a group is hidden and shown with all of its runs", () => {
  const [first] = grouped(runsWith(["j0"]), "batch_size", SETTINGS);
  assert.ok(first && !first.isHidden);
  assert.deepEqual(withToggled(["j0", "j3"], first), ["j3", "j0", "j2"]);
  const [hidden] = grouped(runsWith(["j0", "j2"]), "batch_size", SETTINGS);
  assert.deepEqual(hidden && withToggled(["j0", "j2", "j3"], hidden), ["j3"]);
});

const curve = (...ys: number[]) => ({ xs: Float64Array.from(ys.keys()), ys: Float64Array.from(ys), bands: [] });
const CURVES = new Map([
  ["j0", curve(1, 2)],
  ["j1", curve(5, 5)],
  ["j2", curve(3, 4)],
  ["j3", curve(7, 7)],
]);
const meansWith = (hidden: readonly string[], faded: readonly string[]) =>
  groupMeans(grouped(runsWith(hidden), "batch_size", SETTINGS), new Set(faded), (id) => CURVES.get(id));

test("a mean is over the runs that are shown and within the ranges", () => {
  const of = (hidden: readonly string[], faded: readonly string[]) =>
    meansWith(hidden, faded).map((one) => [...one.curve.mean]);
  assert.deepEqual(of([], []), [
    [2, 3],
    [6, 6],
  ]);
  assert.deepEqual(of(["j2"], []), [
    [1, 2],
    [6, 6],
  ]);
  assert.deepEqual(of([], ["j1", "j3"]), [[2, 3]]);
});

test("a group in focus shows its runs, and the other groups are faint", () => {
  const means = meansWith([], []);
  const keys = means.map(({ group }) => group.key);
  const drawn = (focus: string | null, open: readonly string[] = []) =>
    groupLines(means, { middle: "mean", band: "range" }, 0, { focus, open: new Set(open) }).map(
      ({ key, colour, isPale }) => [key, isPale ? "pale" : colour],
    );
  assert.deepEqual(drawn(null), [
    [keys[0], "run-0"],
    [keys[1], "run-1"],
  ]);
  assert.deepEqual(drawn(keys[1] as string), [
    ["j1", "pale"],
    ["j3", "pale"],
    [keys[0], "faded"],
    [keys[1], "run-1"],
  ]);
  assert.deepEqual(drawn("j1"), [
    ["j3", "pale"],
    ["j1", "run-1"],
    [keys[0], "faded"],
    [keys[1], "run-1"],
  ]);
  assert.deepEqual(drawn(null, [keys[0] as string]).slice(0, 2), [
    ["j0", "pale"],
    ["j2", "pale"],
  ]);
});

test("a deviation keeps the room of all runs, so that the axis stays when they are shown", () => {
  const look = { middle: "mean", band: "deviation" } as const;
  const [, second] = groupLines(meansWith([], []), look, 0, { focus: null, open: new Set() });
  assert.equal(second?.spread?.isDeviation, true);
  assert.deepEqual(
    second?.spread?.room?.map((each) => each[0]),
    [5, 7],
  );
  assert.equal((second?.spread?.high[0] ?? 0).toFixed(4), (6 + Math.SQRT2).toFixed(4));
});

test("the line of a group is its median, and the area one standard error or the quartiles, as chosen", () => {
  const ofFour = [1, 2, 3, 10].map((value) => curve(value));
  const [group] = grouped(runsWith([]), "labels.none", SETTINGS);
  const means = [{ group: group as NonNullable<typeof group>, runs: [], curve: groupCurve(ofFour) }];
  const [wide, narrow] = (["error", "quartiles"] as const).map(
    (band) => groupLines(means, { middle: "median", band }, 0, { focus: null, open: new Set() })[0],
  );
  assert.deepEqual([...Array.from(wide?.ys ?? [])], [2.5]);
  // the sample's standard deviation is the root of 50 / 3; a mean of four has half of it as its error
  assert.equal(wide?.spread?.high[0]?.toFixed(4), (2.5 + Math.sqrt(50 / 3) / 2).toFixed(4));
  assert.deepEqual(wide?.spread?.names, ["std error"]);
  assert.deepEqual([narrow?.spread?.low[0], narrow?.spread?.high[0]], [1.75, 4.75]);
});

test("all runs of a group have the colour that a person chose for it", () => {
  const [first] = grouped(runsWith([]), "batch_size", SETTINGS);
  const [recoloured, second] = grouped(runsWith([]), "batch_size", SETTINGS, new Map([[first?.key ?? "", "5"]]));
  assert.deepEqual([recoloured?.colour, recoloured?.runs.map(({ colour }) => colour)], ["run-5", ["run-5", "run-5"]]);
  assert.equal(second?.colour, "run-1");
});
