import assert from "node:assert/strict";
import { test } from "node:test";
import { columnsOf } from "./columns.ts";
import { placesOf } from "./pinning.ts";

test("pinned columns stay one after the other, behind the boxes that select", () => {
  const columns = columnsOf(["status", "gpus", "name", "owner"], "");
  assert.deepEqual(
    [...placesOf(columns, ["status", "gpus", "name"], 38)],
    [
      ["status", 38],
      ["gpus", 38 + 128],
      ["name", 38 + 128 + 62],
    ],
  );
  assert.equal(placesOf(columns, [], 38).size, 0);
});
