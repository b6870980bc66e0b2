import assert from "node:assert/strict";
import { test } from "node:test";
import { isOfStudy, listOfAddress, listText, pathOfList } from "./list.ts";

test("the list has the parameters of the page of jobs and none of the comparison", () => {
  const list = listOfAddress("q=lenet&status=running,failed&where=gpus>1&where=starred&x=time&order=-val_loss&hide=a");
  assert.equal(list, "q=lenet&status=running,failed&where=gpus%3E1&where=starred");
  assert.equal(listText(list), "search lenet, status running,failed, gpus>1, starred");
  assert.equal(listText("study=s1&status=failed", "Digits"), "study Digits, status failed");
  assert.match(pathOfList(list, 7), /^\/v1\/jobs\?search=lenet&status=running&status=failed&.*limit=7$/);
});

test("a sort alone is a list of all jobs, but not beside named runs", () => {
  assert.equal(listOfAddress("sort=-gpus"), "sort=-gpus");
  assert.equal(listOfAddress("jobs=a,b&sort=-val_loss"), "");
  assert.equal(listOfAddress("jobs=a&owner=ada&sort=name"), "owner=ada&sort=name");
  assert.equal(listOfAddress(""), "");
});

test("archived jobs are left out, but not those of a study", () => {
  assert.match(pathOfList("owner=ada", 9), /archived=false/);
  assert.doesNotMatch(pathOfList("study=s", 9), /archived/);
  assert.match(pathOfList("study=s&archived=true", 9), /archived=true/);
  assert.equal(listText(listOfAddress("owner=ada&archived=all&jobs=a")), "owner ada, with archived");
});

test("the jobs of a study come as they were submitted, unless they are sorted", () => {
  assert.match(pathOfList("study=s", 9), /sort=created_at/);
  assert.ok(isOfStudy("study=s&status=failed"));
  assert.match(pathOfList("study=s&sort=-gpus", 9), /sort=-gpus/);
  assert.ok(!isOfStudy("study=s&sort=-gpus"));
});
