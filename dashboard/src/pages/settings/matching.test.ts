import assert from "node:assert/strict";
import { test } from "node:test";
import { detailsOf, matches, narrowerScopes, numberOf, pageOf, textOf, timeOf } from "./matching.ts";

function fieldsOf(values: Readonly<Record<string, string>>): FormData {
  const fields = new FormData();
  for (const [name, value] of Object.entries(values)) fields.set(name, value);
  return fields;
}

test("a search finds what has all of its words, in any case and in any of the texts", () => {
  const texts = ["Nightly training", null, undefined, "submit"];
  for (const search of ["", "  ", "night", "TRAIN sub"]) assert.equal(matches(texts, search), true, search);
  for (const search of ["admin", "night admin", "nights"]) assert.equal(matches(texts, search), false, search);
  assert.equal(matches([], "x"), false);
});

test("an empty field is left out, and a text that is no number goes to the service", () => {
  const fields = fieldsOf({ name: " a b ", none: "  ", days: "1.5", zero: "0", odd: "many", huge: "1e999" });
  assert.deepEqual(
    [textOf(fields, "name"), textOf(fields, "none"), textOf(fields, "missing")],
    ["a b", undefined, undefined],
  );
  assert.deepEqual(
    ["days", "zero", "none", "odd", "huge"].map((name) => numberOf(fields, name)),
    [1.5, 0, null, "many", "1e999"],
  );
});

test("a time is sent in UTC, and one that is none is not sent", () => {
  assert.equal(timeOf("2030-01-31T09:00"), new Date("2030-01-31T09:00").toISOString());
  for (const text of ["", "yesterday"]) assert.equal(timeOf(text), null);
});

test("nobody is offered a wider scope than their own", () => {
  assert.deepEqual(narrowerScopes("submit"), ["read", "submit"]);
  assert.deepEqual(narrowerScopes("admin"), ["read", "submit", "code", "admin"]);
  assert.deepEqual(narrowerScopes("of a newer version"), []);
});

test("an entry of the log links to what it is about, if that is still there", () => {
  assert.equal(pageOf("job.cancelled", "0abc"), "/jobs/0abc");
  assert.equal(pageOf("dataset.registered", "chips@3"), "/datasets/chips");
  assert.equal(pageOf("user.disabled", "a/b?c"), "/tokens?user=a%2Fb%3Fc");
  for (const [action, subject] of [
    ["webhook.deleted", "0abc"],
    ["dataset.removed", "chips@3"],
    ["token.created", "0abc"],
    ["job.cancelled", null],
  ] as const)
    assert.equal(pageOf(action, subject), null, action);
});

test("the details of an entry are a line", () => {
  assert.equal(
    detailsOf({ max_slots: 4, project: null, events: ["a"], name: "<b>" }),
    'max_slots: 4, events: ["a"], name: <b>',
  );
});
