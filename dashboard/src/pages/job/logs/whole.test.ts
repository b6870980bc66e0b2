import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogView } from "../../../api/types.ts";
import type { Source } from "./feed.ts";
import { shownLog, wholeLog } from "./whole.ts";

const EVERY: Source = { job: "j", ranks: [], attempt: null, level: null, search: "", since: "", until: "" };

test("a copy has the lines as they are shown, and says if older ones are left out", async () => {
  const items: LogView["items"] = [
    { id: 1, at: "2030-01-01T12:00:00", attempt: 1, level: "info", rank: 0, text: "\u001b[1mone\u001b[0m" },
  ];
  const copy = (rank: number | null, previous_before: number | null, hasTimes: boolean): Promise<string> =>
    shownLog(
      { ...EVERY, ranks: rank === null ? [] : [rank], level: "info", search: "o" },
      async (path) => {
        assert.equal(path.includes("tail=10000") && path.includes("level=info") && path.includes("search=o"), true);
        return { items, next_after: 1, previous_before };
      },
      hasTimes,
    );
  assert.equal(await copy(0, null, false), "one\n");
  assert.equal(await copy(null, 1, true), "(only the newest 10,000 lines)\n12:00:00 rank 0: one\n");
});

test("a download has every line of every page, with its time, attempt and rank", async () => {
  const line = (id: number): LogView["items"][number] => ({
    id,
    at: `t${id}`,
    attempt: 2,
    level: "info",
    rank: id - 2,
    text: `l${id}`,
  });
  const pages: Record<string, LogView["items"]> = { "0": [line(1), line(2)], "2": [line(3)], "3": [] };
  const counts: number[] = [];
  const text = await wholeLog(
    { ...EVERY, until: "2030-01-01T12:30:00Z" },
    async (path) => {
      assert.ok(path.endsWith("until=2030-01-01T12%3A30%3A00Z"));
      const after = new URL(path, "http://host").searchParams.get("after") ?? "";
      const items = pages[after] ?? [];
      return { items, next_after: items.at(-1)?.id ?? Number(after), previous_before: null };
    },
    (count) => counts.push(count),
  );
  assert.equal(text, "t1 2 launcher: l1\nt2 2 rank 0: l2\nt3 2 rank 1: l3\n");
  assert.deepEqual(counts, [2, 3]);
});
