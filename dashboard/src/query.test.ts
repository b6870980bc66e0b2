import assert from "node:assert/strict";
import { test } from "node:test";
import { listOf, pairsOf, pairsText, pathWith, withParams } from "./query.ts";

test("parameters are set and removed, and the others stay", () => {
  assert.equal(withParams("status=running&sort=name", { sort: "-gpus" }), "status=running&sort=-gpus");
  assert.equal(withParams("status=running&sort=name", { status: null, sort: "" }), "");
});

test("a list becomes one parameter for each item, in place of those before", () => {
  assert.equal(withParams("where=x&q=1&where=y", { where: ["a", "b"] }), "where=a&q=1&where=b");
  assert.equal(withParams("where=x&where=y", { where: [] }), "");
});

test("commas and colons are not escaped in an address", () => {
  assert.equal(withParams("", { jobs: "a,b", label: "team:vision" }), "jobs=a,b&label=team:vision");
});

test("special characters in a value are escaped and read back the same", () => {
  const query = withParams("", { search: "a&b=c#d%2C" });
  assert.equal(new URLSearchParams(query).get("search"), "a&b=c#d%2C");
});

test("a list is split at commas, and an empty text is an empty list", () => {
  assert.deepEqual(listOf(""), []);
  assert.deepEqual(listOf("a,b"), ["a", "b"]);
});

test("a path contains only the parameters that have a value", () => {
  assert.equal(pathWith("/v1/jobs", {}), "/v1/jobs");
  const path = pathWith("/v1/jobs", { status: ["queued", "running"], search: "", cursor: null, limit: 0, all: false });
  assert.equal(path, "/v1/jobs?status=queued&status=running&limit=0&all=false");
});

test("pairs are read back from a parameter, also with a colon in a key", () => {
  const pairs = new Map([
    ["batch_size", "log"],
    ["val/iou:0", "linear"],
  ]);
  assert.deepEqual(pairsOf(pairsText(pairs)), pairs);
});
