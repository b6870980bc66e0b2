import assert from "node:assert/strict";
import { test } from "node:test";
import { actionOf } from "./keys.ts";

const PRESSED = { ctrlKey: false, metaKey: false, altKey: false, defaultPrevented: false };

test("j, k and the arrows move, x selects, Enter opens, / searches, Escape clears", () => {
  const actions = ["j", "ArrowDown", "k", "ArrowUp", "x", "Enter", "/", "Escape", "q"].map((key) =>
    actionOf({ ...PRESSED, key }, ""),
  );
  assert.deepEqual(actions, ["next", "next", "previous", "previous", "select", "open", "search", "clear", null]);
});

test("keys do nothing in text fields, selects and dialogs", () => {
  for (const control of ["text", "search", "select-one", "textarea", "dialog"])
    assert.equal(actionOf({ ...PRESSED, key: "j" }, control), null, control);
});

test("Enter on a link or a button does nothing in the list, but other keys do", () => {
  assert.equal(actionOf({ ...PRESSED, key: "Enter" }, "a"), null);
  assert.equal(actionOf({ ...PRESSED, key: "Enter" }, "button"), null);
  assert.equal(actionOf({ ...PRESSED, key: "x" }, "a"), "select");
  assert.equal(actionOf({ ...PRESSED, key: "j" }, "checkbox"), "next");
});

test("keys with Ctrl, and keys that were handled already, do nothing", () => {
  assert.equal(actionOf({ ...PRESSED, key: "k", ctrlKey: true }, ""), null);
  assert.equal(actionOf({ ...PRESSED, key: "Escape", defaultPrevented: true }, ""), null);
});
