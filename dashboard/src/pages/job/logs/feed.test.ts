import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem } from "../../../api/problem.ts";
import type { LogLevel, LogLine, LogView } from "../../../api/types.ts";
import { type FetchPage, LogFeed, type Reading, type Source } from "./feed.ts";
import { isAtLeast } from "./lines.ts";

/** A log that answers requests like the api. */
class Log {
  readonly lines: LogLine[] = [];
  readonly requestedPaths: string[] = [];

  print(count: number, text = (id: number): string => `line ${id}`, level: LogLevel = "info"): void {
    for (let i = 0; i < count; i += 1) {
      const id = this.lines.length + 1;
      this.lines.push({ id, at: new Date(id * 1000).toISOString(), attempt: 1, rank: id % 2, level, text: text(id) });
    }
  }

  readonly fetchPage: FetchPage = async (path): Promise<LogView> => {
    this.requestedPaths.push(path);
    const query = new URL(path, "http://host").searchParams;
    const [after, before] = [Number(query.get("after") ?? 0), Number(query.get("before") ?? Number.POSITIVE_INFINITY)];
    const limit = Number(query.get("tail") ?? query.get("limit"));
    const matching = this.lines
      .filter(({ id }) => id > after && id < before)
      .filter(({ rank }) => !query.has("rank") || query.getAll("rank").includes(String(rank)))
      .filter(({ at }) => at >= (query.get("since") ?? "") && at < (query.get("until") ?? "9"))
      .filter(({ level }) => isAtLeast(level, query.get("level") as LogLevel | null))
      .filter(({ text }) => text.includes(query.get("search") ?? ""));
    const isBack = query.has("tail") || query.has("before");
    const items = isBack ? matching.slice(-limit) : matching.slice(0, limit);
    const previous = isBack && matching.length > items.length ? (items[0]?.id ?? null) : null;
    return { items, next_after: items.at(-1)?.id ?? after, previous_before: previous };
  };
}

const EVERY: Source = { job: "j", ranks: [], attempt: null, level: null, search: "", since: "", until: "" };

const feedOf = (log: Log, source: Partial<Source> = {}): LogFeed => new LogFeed({ ...EVERY, ...source }, log.fetchPage);

const extentOf = ({ lines }: Reading): unknown[] => [lines[0]?.id, lines.at(-1)?.id, lines.length];

test("a log opens at its newest lines and follows new ones", async () => {
  const log = new Log();
  log.print(1200);
  const feed = feedOf(log);
  await feed.newer();
  assert.deepEqual(extentOf(feed.reading), [701, 1200, 500]);
  assert.equal(feed.reading.hasOlder, true);
  log.print(3);
  await feed.newer();
  assert.deepEqual(extentOf(feed.reading), [701, 1203, 503]);
});

test("older lines are read page by page, one request at a time, until none are left", async () => {
  const log = new Log();
  log.print(3000);
  const feed = feedOf(log);
  await feed.newer();
  log.requestedPaths.length = 0;
  await Promise.all([feed.older(), feed.older()]);
  assert.equal(log.requestedPaths.length, 1);
  assert.deepEqual(extentOf(feed.reading), [501, 3000, 2500]);
  await feed.older();
  assert.deepEqual(extentOf(feed.reading), [1, 3000, 3000]);
  assert.equal(feed.reading.hasOlder, false);
});

test("an older match is found, and lines are loaded back to it", async () => {
  const log = new Log();
  log.print(30_000, (id) => (id === 40 ? "here" : "line"));
  const feed = feedOf(log);
  await feed.newer();
  const id = await feed.matchBefore("here");
  assert.equal(id, 40);
  await feed.backTo(40);
  assert.ok((feed.reading.lines[0] as LogLine).id <= 40);
  assert.equal(await feed.matchBefore("here"), null);
});

test("a level loads only lines that are as serious, and later reads only new lines", async () => {
  const log = new Log();
  log.print(5);
  log.print(2, undefined, "warning");
  log.print(1, undefined, "error");
  const feed = feedOf(log, { level: "warning" });
  await feed.newer();
  assert.deepEqual(extentOf(feed.reading), [6, 8, 3]);
  log.print(3);
  log.print(1, undefined, "error");
  await feed.newer();
  assert.deepEqual(extentOf(feed.reading), [6, 12, 4]);
  assert.ok(log.requestedPaths.at(-1)?.includes("after=8"));
});

test("a search loads only matching lines, and later reads only new lines", async () => {
  const log = new Log();
  log.print(2050, (id) => (id % 100 === 0 ? "Match" : "line"));
  const feed = feedOf(log, { search: "Match" });
  await feed.newer();
  assert.equal(feed.reading.lines.length, 20);
  assert.deepEqual(log.requestedPaths, [
    "/v1/jobs/j/logs?tail=1",
    "/v1/jobs/j/logs?tail=500&search=Match",
    "/v1/jobs/j/logs?after=2050&limit=10000",
  ]);
  log.print(10, (id) => (id % 2 === 0 ? "a match" : "line"));
  log.requestedPaths.length = 0;
  await feed.newer();
  assert.equal(feed.reading.lines.length, 25);
  assert.deepEqual(log.requestedPaths, ["/v1/jobs/j/logs?after=2050&limit=10000"]);
});

test("a feed of one rank loads only that rank's lines", async () => {
  const log = new Log();
  log.print(10);
  const feed = feedOf(log, { ranks: [0] });
  await feed.newer();
  assert.deepEqual(extentOf(feed.reading), [2, 10, 5]);
});

test("a problem is reported and the lines stay; it clears when the api answers again", async () => {
  const log = new Log();
  log.print(2);
  let isAway = false;
  let changes = 0;
  const fetchPage: FetchPage = (path) =>
    isAway ? Promise.reject(new Problem(0, "away", "Away")) : log.fetchPage(path);
  const feed = new LogFeed(EVERY, fetchPage);
  feed.onChange = () => {
    changes += 1;
  };
  await feed.newer();
  isAway = true;
  const before = changes;
  await feed.newer();
  assert.equal(feed.reading.problem?.slug, "away");
  assert.equal(feed.reading.lines.length, 2);
  assert.equal(changes, before + 1);
  isAway = false;
  await feed.newer();
  assert.equal(feed.reading.problem, undefined);
});

test("a feed of several ranks and a range of times shows its new lines only", async () => {
  const log = new Log();
  log.print(10);
  const [since, until] = [5, 13].map((id) => new Date(id * 1000).toISOString()) as [string, string];
  const feed = feedOf(log, { ranks: [0, 1], since, until });
  await feed.newer();
  assert.deepEqual(extentOf(feed.reading), [5, 10, 6]);
  log.print(10);
  await feed.newer();
  assert.deepEqual(extentOf(feed.reading), [5, 12, 8]);
  log.requestedPaths.length = 0;
  await feed.newer();
  assert.deepEqual(log.requestedPaths, ["/v1/jobs/j/logs?after=20&limit=10000&rank=0&rank=1"]);
});
