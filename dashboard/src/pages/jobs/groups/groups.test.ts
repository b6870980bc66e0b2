import assert from "node:assert/strict";
import { test } from "node:test";
import { EVERYTHING, listPath, type View } from "../view.ts";
import { isByStudy, NO_STUDY, studiesPath, viewOfGroup } from "./groups.ts";

const VIEW: View = { ...EVERYTHING, isGrouped: true, statuses: ["failed"], labels: ["team:a"], isStarred: true };

test("a group has the jobs of its study that the filters select", () => {
  assert.equal(
    listPath(viewOfGroup(VIEW, "7m2k"), 100),
    "/v1/jobs?status=failed&label=team%3Aa&study=7m2k&starred=true&sort=-created_at&limit=100",
  );
  assert.match(listPath(viewOfGroup(EVERYTHING, NO_STUDY), 100), /study=none/);
});

test("studies are listed that have such a job", () => {
  assert.equal(studiesPath(VIEW, ""), "/v1/studies?status=failed&label=team%3Aa&starred=true&limit=50");
  assert.equal(studiesPath(EVERYTHING, "c1"), "/v1/studies?limit=50&cursor=c1");
});

test("the jobs of one study are not grouped", () => {
  assert.deepEqual(
    [isByStudy(EVERYTHING), isByStudy(VIEW), isByStudy({ ...VIEW, study: "7m2k" })],
    [false, true, false],
  );
});
