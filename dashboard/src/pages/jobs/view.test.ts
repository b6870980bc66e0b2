import assert from "node:assert/strict";
import { test } from "node:test";
import { withParams } from "../../query.ts";
import {
  comparePath,
  EVERYTHING,
  isFiltered,
  keysOf,
  listPath,
  NO_FILTER,
  nextOrder,
  type Order,
  paramsOf,
  placeIn,
  sortOf,
  streamPath,
  type View,
  viewOf,
  withKey,
} from "./view.ts";

const NARROW: View = {
  search: "a & b",
  statuses: ["running", "failed"],
  owner: "ada",
  project: "vision",
  labels: ["team:vision", "why:50%, or more"],
  study: "s1",
  isStarred: true,
  archived: "true",
  where: ["metrics.val_loss < 0.5 or starred", "gpus > 1"],
  group: ["study", "gpus"],
  order: "-val_accuracy",
  metric: "val_loss",
};

test("a view is read back from its address unchanged, even with a comma in a label", () => {
  assert.deepEqual(viewOf(withParams("", paramsOf(NARROW))), NARROW);
});

test("the view of all jobs has no parameters in the address", () => {
  assert.equal(withParams("", paramsOf(EVERYTHING)), "");
  assert.deepEqual(viewOf(""), EVERYTHING);
});

test("a change of the view keeps the other parameters of the address", () => {
  assert.equal(withParams("q=lenet&sort=name&x=1", paramsOf(NO_FILTER)), "sort=name&x=1");
});

test("an unknown status or order is ignored, and a label with a stray percent sign is kept", () => {
  const view = viewOf("status=running,sleeping&sort=-colour&label=a%3Ab,%25ZZ");
  assert.deepEqual([view.statuses, view.order, view.labels], [["running"], "-created_at", ["a:b", "%ZZ"]]);
});

test("jobs are sorted by any metric whose name can be one", () => {
  assert.equal(viewOf("sort=-metrics.val_iou").order, "-metrics.val_iou");
  assert.equal(viewOf("sort=metrics.").order, "-created_at");
  assert.equal(viewOf("sort=metrics.no%20name").order, "-created_at");
});

test("the path of the list has the filters and order of the view, the limit and the cursor", () => {
  assert.equal(
    listPath(NARROW, 100, "c1"),
    "/v1/jobs?search=a+%26+b&status=running&status=failed&owner=ada&project=vision&label=team%3Avision" +
      "&label=why%3A50%25%2C+or+more&study=s1&starred=true&archived=true&where=metrics.val_loss+%3C+0.5+or+starred&where=gpus+%3E+1&sort=-val_accuracy&limit=100&cursor=c1",
  );
  assert.equal(listPath(EVERYTHING, 50), "/v1/jobs?archived=false&sort=-created_at&limit=50");
  assert.equal(listPath(viewOf("archived=all"), 50), "/v1/jobs?sort=-created_at&limit=50");
});

test("the address that compares the jobs of a view has its filters as its own address has, and the order", () => {
  const { group: _, metric: __, ...filters } = NARROW;
  assert.equal(comparePath(NARROW), `/compare?${withParams("", paramsOf(filters))}`);
  assert.equal(comparePath(EVERYTHING), "/compare?sort=-created_at");
});

test("the path of the stream has only the filters that the stream supports", () => {
  assert.equal(streamPath({ ...NARROW, labels: ["a:b"] }), "/v1/events?owner=ada&project=vision&label=a%3Ab");
  assert.equal(streamPath(EVERYTHING), "/v1/events");
});

test("jobs are sorted by any column of a field", () => {
  for (const order of ["-spec.batch_size", "label.team", "test.accuracy", "-owner", "notes"] as const)
    assert.equal(viewOf(`sort=${order}`).order, order);
});

test("the order and the metric do not count as filters", () => {
  assert.equal(isFiltered({ ...EVERYTHING, order: "name", metric: "loss" }), false);
  assert.equal(isFiltered({ ...EVERYTHING, study: "s1" }), true);
  assert.equal(isFiltered({ ...EVERYTHING, archived: "all" }), true);
});

test("a first click sorts falling, or rising for names and losses, and the next click reverses the order", () => {
  assert.equal(nextOrder("-created_at", "gpus"), "-gpus");
  assert.equal(nextOrder("-gpus", "gpus"), "gpus");
  assert.equal(nextOrder("gpus", "gpus"), "-gpus");
  assert.equal(nextOrder("-gpus", "val_loss"), "val_loss");
  assert.equal(nextOrder("name", "name"), "-name");
  assert.equal(nextOrder("name", "metrics.val_mae"), "metrics.val_mae");
  assert.equal(nextOrder("name", "metrics.val_iou"), "-metrics.val_iou");
  assert.equal(nextOrder("name", "last.val_loss"), "last.val_loss");
  assert.equal(nextOrder("name", "label.team"), "label.team");
  assert.equal(nextOrder("name", "spec.batch_size"), "-spec.batch_size");
  assert.equal(nextOrder("-gpus,name", "name"), "name");
});

const ODD = 'label.a,b "c"';

test("a view is sorted by several fields, whose names may have commas", () => {
  const order: Order = `-starred,-${sortOf(ODD)},created_at`;
  assert.equal(viewOf(withParams("", paramsOf({ order }))).order, order);
  assert.deepEqual(keysOf(order), ["-starred", `-${JSON.stringify(ODD)}`, "created_at"]);
  assert.deepEqual([placeIn(order, sortOf(ODD)), placeIn(order, "created_at"), placeIn(order, "gpus")], [1, 2, -1]);
  for (const wrong of ["gpus,colour", "gpus,", ",gpus", '"gpus', "gpus,name,owner,status,cell"])
    assert.equal(viewOf(withParams("", { sort: wrong })).order, "-created_at", wrong);
});

test("a click with Shift adds a key, or turns it", () => {
  const orders: Order[] = ["-created_at"];
  for (const sort of ["gpus", "name", "name", "gpus", "owner", "val_loss", "priority"] as const)
    orders.push(nextOrder(orders.at(-1) as Order, sort, true));
  assert.deepEqual(orders.slice(1), [
    "-gpus", // no two jobs have the same time: it takes its place
    "-gpus,name",
    "-gpus,-name",
    "gpus,-name",
    "gpus,-name,owner",
    "gpus,-name,owner,val_loss",
    "gpus,-name,owner,-priority", // the last of four gives way
  ]);
  assert.equal(withKey("-gpus,name,owner", 1, ""), "-gpus");
  assert.equal(withKey("-gpus,name", 1, "-name"), "-gpus,-name");
});

test("an empty condition or group in the address is none", () => {
  const { where, group } = viewOf("where=&where=starred&group=");
  assert.deepEqual([where, group], [["starred"], []]);
});
