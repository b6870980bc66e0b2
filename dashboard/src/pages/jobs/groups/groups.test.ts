import assert from "node:assert/strict";
import { test } from "node:test";
import type { JobGroup } from "../../../api/types.ts";
import { EVERYTHING, listPath, type View } from "../view.ts";
import { groupsPath, isGrouped, NO_STUDY, nameOf, viewOfGroup } from "./groups.ts";

const VIEW: View = { ...EVERYTHING, group: ["study"], statuses: ["failed"], labels: ["team:a"], isStarred: true };

test("a group has the jobs of its study that the filters select", () => {
  assert.equal(
    listPath(viewOfGroup(VIEW, { study: "7m2k" }), 100),
    "/v1/jobs?status=failed&label=team%3Aa&study=7m2k&starred=true&archived=false&sort=-created_at&limit=100",
  );
  assert.match(listPath(viewOfGroup(EVERYTHING, { study: NO_STUDY }), 100), /study=none/);
});

test("studies are listed that have such a job", () => {
  assert.equal(groupsPath(VIEW, ""), "/v1/studies?status=failed&label=team%3Aa&starred=true&archived=false&limit=50");
  assert.equal(groupsPath({ ...EVERYTHING, group: ["study"] }, "c1"), "/v1/studies?archived=false&limit=50&cursor=c1");
});

test("the jobs of one study are not grouped", () => {
  assert.deepEqual(
    [isGrouped(EVERYTHING), isGrouped(VIEW), isGrouped({ ...VIEW, study: "7m2k" })],
    [false, true, false],
  );
});

const BY_FIELDS: View = { ...EVERYTHING, where: ["starred"], group: ["gpus", "label.team"], metric: "val_loss" };
const GROUP: JobGroup = {
  values: [2, null],
  where: ["gpus = 2", "!label.team"],
  jobs: 3,
  statuses: { succeeded: 3 },
  newest_at: "2030-01-01T00:00:00Z",
  metric: null,
  metrics: [],
};

test("groups by fields are read with the filters and the metric of the view", () => {
  assert.equal(
    groupsPath(BY_FIELDS, ""),
    "/v1/jobs/groups?by=gpus&by=label.team&archived=false&where=starred&metric=val_loss&limit=50",
  );
  const columns = [
    "status",
    "metrics.iou",
    "metrics.val_loss",
    "last.mae",
    ..."abcdef".replace(/./g, "metrics.$&,").split(","),
  ];
  assert.match(
    groupsPath(BY_FIELDS, "", columns),
    /&metric=val_loss&metric=iou&metric=a&metric=b&metric=c&limit/,
    "and of the columns of metrics, up to five",
  );
  assert.equal(isGrouped({ ...BY_FIELDS, study: "7m2k" }), true);
});

test("a group by fields has the jobs that its own conditions and those of the view select", () => {
  assert.equal(nameOf(GROUP, BY_FIELDS.group), "gpus 2, no label.team");
  const own = viewOfGroup(BY_FIELDS, GROUP);
  assert.deepEqual([own.where, own.group], [["starred", "gpus = 2", "!label.team"], []]);
});
