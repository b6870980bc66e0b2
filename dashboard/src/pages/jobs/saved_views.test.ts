import assert from "node:assert/strict";
import { test } from "node:test";
import type { ViewContent, ViewOfJobs } from "../../api/types.ts";
import { withParams } from "../../query.ts";
import type { Choice } from "./columns.ts";
import {
  columnsOfContent,
  contentOf,
  foreignFilters,
  inGroups,
  isChanged,
  mayChange,
  paramsOfSaved,
  viewOfContent,
} from "./saved_views.ts";
import { EVERYTHING, type View, viewOf } from "./view.ts";

const VIEW: View = {
  ...EVERYTHING,
  search: "a b",
  statuses: ["running", "failed"],
  owner: "ada",
  labels: ["team:a,b", "x:50%"],
  isStarred: true,
  archived: "all",
  where: ["spec.batch_size >= 64 or starred", "gpus > 1"],
  group: ["label.team", "gpus"],
  order: "-metrics.val_iou",
  metric: "val_iou",
};
const CHOICE: Choice = { ids: ["name", "spec.params.x", "label.team"], pinned: ["name"] };

function savedWith(changes: Partial<ViewOfJobs> = {}): ViewOfJobs {
  return {
    id: "0view",
    name: "rates",
    owner: "ada",
    project: null,
    content: contentOf(VIEW, CHOICE),
    created_at: "2030-01-01T00:00:00Z",
    updated_at: "2030-01-01T00:00:00Z",
    ...changes,
  };
}

test("a view comes back as it was saved, through the service and through the address", () => {
  const saved = savedWith();
  assert.deepEqual(viewOfContent(saved.content), VIEW);
  assert.deepEqual(columnsOfContent(saved.content), CHOICE);
  const query = withParams("", paramsOfSaved(saved));
  assert.deepEqual(viewOf(query), VIEW);
  assert.equal(new URLSearchParams(query).get("view"), "0view");
  for (const archived of ["", "true"] as const)
    assert.equal(viewOfContent(contentOf({ ...VIEW, archived }, CHOICE)).archived, archived);
});

test("a view is changed when its filters or its columns are", () => {
  const { content } = savedWith();
  assert.equal(isChanged(content, VIEW, CHOICE), false);
  assert.equal(isChanged(content, { ...VIEW, owner: "" }, CHOICE), true);
  assert.equal(isChanged(content, VIEW, { ...CHOICE, pinned: [] }), true);
  assert.equal(isChanged({ ...content, columns: [], pinned: [] }, VIEW, CHOICE), false);
});

test("what a newer version or a script has saved is left out, and its filters are named", () => {
  const content = { filter: { paused: true, owner: "ada" }, columns: ["of a newer version", "gpus"] } as ViewContent;
  assert.deepEqual(columnsOfContent(content)?.ids, ["name", "gpus"]);
  assert.deepEqual(foreignFilters(content), ["paused"]);
  assert.equal(viewOfContent(content).order, "-created_at");
});

test("an own view is changed by its owner, one of a project by its members, both by admins", () => {
  const rights = (user: string, scope: string, projects: string[] = []) => ({ user, scope, projects });
  const [own, shared] = [savedWith(), savedWith({ project: "vision" })];
  assert.equal(mayChange(own, rights("ada", "submit")), true);
  assert.equal(mayChange(own, rights("ada", "read")), false);
  assert.equal(mayChange(own, rights("bob", "submit", ["vision"])), false);
  assert.equal(mayChange(own, rights("root", "admin")), true);
  assert.equal(mayChange(shared, rights("ada", "submit")), false);
  assert.equal(mayChange(shared, rights("bob", "submit", ["vision"])), true);
  assert.equal(mayChange(shared, rights("bob", "read", ["vision"])), false);
});

test("one's own views come first, and each group is sorted by name", () => {
  const views = [
    savedWith({ name: "v10" }),
    savedWith({ name: "a", project: "vision" }),
    savedWith({ name: "v9" }),
    savedWith({ name: "b", project: "audio" }),
  ];
  assert.deepEqual(
    inGroups(views).map(({ title, views: some }) => [title, ...some.map(({ name }) => name)]),
    [
      ["Your own", "v9", "v10"],
      ["Project audio", "b"],
      ["Project vision", "a"],
    ],
  );
});
