import assert from "node:assert/strict";
import test from "node:test";
import { wholeIds } from "./whole_ids.ts";

test("only beginnings are looked up, unknown ones stay, and no run comes twice", async () => {
  const asked: string[] = [];
  const read = async (id: string): Promise<string> => {
    asked.push(id);
    if (id === "7kq") throw new Error("several begin so");
    return "7kq000000000";
  };
  const ids = ["7kq0", "7kqzzzzzzzzz", "7kq", "7kq000000000"];
  assert.deepEqual(await wholeIds(ids, read), ["7kq000000000", "7kqzzzzzzzzz", "7kq"]);
  assert.deepEqual(asked, ["7kq0", "7kq"]);
});
