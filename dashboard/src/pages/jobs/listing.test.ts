import assert from "node:assert/strict";
import { test } from "node:test";
import { Problem } from "../../api/problem.ts";
import type { Job, Listed } from "../../api/types.ts";
import { deletedIds } from "../../deleted.ts";
import { Listing } from "./listing.ts";
import { idsOf, jobWith } from "./row.fixture.ts";
import { EVERYTHING, type View } from "./view.ts";

function page(ids: string, next: string | null, changes: Partial<Job> = {}): Listed<Job> {
  return { items: [...ids].map((id) => jobWith({ id, ...changes })), next_cursor: next };
}

function openedListing(view: Partial<View>, head: Listed<Job>, answers: Record<string, Listed<Job> | Job> = {}) {
  const requests: string[] = [];
  const listing = new Listing(
    { ...EVERYTHING, ...view },
    {
      read: async <T>(path: string) => {
        requests.push(path);
        const answer = Object.entries(answers).find(([end]) => path.endsWith(end));
        if (answer === undefined) throw new Problem(0, "away", "The api does not answer");
        return answer[1] as T;
      },
      pollHead: () => requests.push("head"),
    },
  );
  listing.takeHead(head);
  return { listing, requests };
}

function shownIds(listing: Listing): string {
  return idsOf(listing.list.value?.rows ?? []);
}

const LATER = "2030-01-02T00:00:00Z";

test("new jobs appear at once when the first row is in view", () => {
  const { listing } = openedListing({}, page("ba", null));
  listing.takeHead(page("cba", null));
  assert.equal(shownIds(listing), "cba");
  assert.equal(listing.newCount.value, 0);
});

test("new jobs are only counted while the first row is out of view, and appear when it is back", () => {
  const { listing } = openedListing({}, page("ba", "x"));
  listing.setAtTop(false);
  listing.takeHead(page("dcb", "y", { name: "renamed", revision: 2 }));
  assert.equal(shownIds(listing), "ba");
  assert.equal(listing.list.value?.rows[0]?.name, "renamed");
  assert.equal(listing.newCount.value, 2);
  listing.setAtTop(true);
  assert.equal(shownIds(listing), "dcba");
  assert.equal(listing.newCount.value, 0);
});

test("a deleted job leaves the list at once, and an older answer does not bring it back", () => {
  const { listing } = openedListing({}, page("cba", null));
  deletedIds.value = new Set("b");
  assert.equal(shownIds(listing), "ca");
  listing.takeHead(page("cba", null));
  assert.equal(shownIds(listing), "ca");
  deletedIds.value = new Set();
});

test("the next page is loaded once, even if it is requested several times", async () => {
  const { listing, requests } = openedListing({}, page("dc", "x"), { "cursor=x": page("ba", null) });
  await Promise.all([listing.more(), listing.more()]);
  await listing.more();
  assert.equal(shownIds(listing), "dcba");
  assert.equal(requests.length, 1);
});

test("a next page that failed to load is reported, and can be requested again", async () => {
  const answers: Record<string, Listed<Job>> = {};
  const { listing } = openedListing({}, page("dc", "x"), answers);
  await listing.more();
  assert.equal((listing.tail.value as Problem).isAway, true);
  answers["cursor=x"] = page("ba", null);
  await listing.more();
  assert.equal(listing.tail.value, "idle");
  assert.equal(shownIds(listing), "dcba");
});

test("state and progress events change a row in place", () => {
  const { listing } = openedListing({}, page("ba", null));
  listing.takeState(jobWith({ id: "a", status: "running", revision: 2 }));
  listing.takeProgress({ id: "a", progress: { epoch: 2, step: 5 } });
  listing.takeNews();
  const row = listing.list.value?.rows[1];
  assert.deepEqual([row?.status, row?.epoch], ["running", 2]);
  listing.close();
});

test("a job leaves the list when its new status does not pass the filter", () => {
  const { listing } = openedListing({ statuses: ["running"] }, page("ba", null, { status: "running" }));
  listing.takeState(jobWith({ id: "a", status: "failed", revision: 2 }));
  listing.takeNews();
  assert.equal(shownIds(listing), "b");
  listing.close();
});

test("in other orders than newest first, new jobs that pass the filter are counted from events", () => {
  const { listing } = openedListing({ order: "name", statuses: ["queued"] }, page("ba", "x"));
  listing.takeState(jobWith({ id: "c", created_at: LATER }));
  listing.takeState(jobWith({ id: "d", created_at: LATER, status: "running" }));
  listing.takeState(jobWith({ id: "e", created_at: "2029-01-01T00:00:00Z" }));
  listing.takeNews();
  assert.equal(listing.newCount.value, 1);
  listing.close();
});

test("new jobs are not counted from events while there is a search", () => {
  const { listing } = openedListing({ order: "name", search: "lenet" }, page("ba", "x"));
  listing.takeState(jobWith({ id: "c", created_at: LATER }));
  listing.takeNews();
  assert.equal(listing.newCount.value, 0);
  listing.close();
});

test("several events of jobs that are not loaded cause one read of the first page", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const { listing, requests } = openedListing({}, page("ba", "x"));
  for (const id of "cde") {
    listing.takeState(jobWith({ id, created_at: LATER }));
    listing.takeNews();
  }
  context.mock.timers.tick(2000);
  assert.deepEqual(requests, ["head"]);
  listing.close();
});
