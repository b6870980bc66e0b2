import assert from "node:assert/strict";
import { test } from "node:test";
import { withParams } from "../../query.ts";
import {
  EVERYTHING,
  isFiltered,
  listPath,
  NO_FILTER,
  nextOrder,
  paramsOf,
  streamPath,
  type View,
  viewOf,
} from "./view.ts";

const NARROW: View = {
  search: "a & b",
  statuses: ["running", "failed"],
  owner: "ada",
  project: "vision",
  labels: ["team:vision", "why:50%, or more"],
  study: "s1",
  order: "-val_accuracy",
  metric: "val_loss",
};

test("a view comes back from its address as it was, with a comma in a label too", () => {
  assert.deepEqual(viewOf(withParams("", paramsOf(NARROW))), NARROW);
});

test("the view of all jobs has nothing in the address", () => {
  assert.equal(withParams("", paramsOf(EVERYTHING)), "");
  assert.deepEqual(viewOf(""), EVERYTHING);
});

test("a change of the view leaves what it does not name", () => {
  assert.equal(withParams("q=lenet&sort=name&x=1", paramsOf(NO_FILTER)), "sort=name&x=1");
});

test("a status, an order and a label that there are not are left out", () => {
  const view = viewOf("status=running,sleeping&sort=-colour&label=a%3Ab,%25ZZ");
  assert.deepEqual([view.statuses, view.order, view.labels], [["running"], "-created_at", ["a:b", "%ZZ"]]);
});

test("the api is asked for a page of the view", () => {
  assert.equal(
    listPath(NARROW, 100, "c1"),
    "/v1/jobs?search=a+%26+b&status=running&status=failed&owner=ada&project=vision&label=team%3Avision" +
      "&label=why%3A50%25%2C+or+more&study=s1&sort=-val_accuracy&limit=100&cursor=c1",
  );
  assert.equal(listPath(EVERYTHING, 50), "/v1/jobs?sort=-created_at&limit=50");
});

test("the stream is asked for what it can filter by", () => {
  assert.equal(streamPath({ ...NARROW, labels: ["a:b"] }), "/v1/events?owner=ada&project=vision&label=a%3Ab");
  assert.equal(streamPath(EVERYTHING), "/v1/events");
});

test("an order and a metric are no filter", () => {
  assert.equal(isFiltered({ ...EVERYTHING, order: "name", metric: "loss" }), false);
  assert.equal(isFiltered({ ...EVERYTHING, study: "s1" }), true);
});

test("a header sorts from the greatest first, a name and a loss from the least, and turns round with the next click", () => {
  assert.equal(nextOrder("-created_at", "gpus"), "-gpus");
  assert.equal(nextOrder("-gpus", "gpus"), "gpus");
  assert.equal(nextOrder("gpus", "gpus"), "-gpus");
  assert.equal(nextOrder("-gpus", "val_loss"), "val_loss");
  assert.equal(nextOrder("name", "name"), "-name");
});
