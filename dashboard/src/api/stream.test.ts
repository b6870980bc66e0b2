import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { followStream } from "./stream.ts";

type Answer = (response: ServerResponse) => void;

const stream =
  (text: string): Answer =>
  (response) =>
    response.writeHead(200, { "Content-Type": "text/event-stream" }).end(text);
const status =
  (code: number): Answer =>
  (response) =>
    response.writeHead(code, { "Content-Type": "application/problem+json" }).end('{"title": "Invalid request"}');

/** What a follower asks and is told, by a server that gives these answers in turn. */
async function followed(answers: Answer[]): Promise<{ ids: (string | undefined)[]; events: unknown[] }> {
  const ids: (string | undefined)[] = [];
  const events: unknown[] = [];
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    ids.push(request.headers["last-event-id"]?.toString());
    (answers[ids.length - 1] ?? status(403))(response);
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  const { port } = server.address() as AddressInfo;
  await followStream(`http://127.0.0.1:${port}/`, "", new AbortController().signal, (_, data) => events.push(data));
  server.closeAllConnections();
  server.close();
  return { ids, events };
}

test("a stream goes on after its last event, and ends when it is complete", async () => {
  const { ids, events } = await followed([stream("id: a1\ndata: 1\n\n"), stream("id: a2\ndata: 2\n\n"), status(204)]);
  assert.deepEqual(ids, [undefined, "a1", "a2"]);
  assert.deepEqual(events, [1, 2]);
});

test("a stream starts again if the service does not know its last event", async () => {
  const { ids, events } = await followed([
    stream("id: old\ndata: 1\n\n"),
    status(422),
    stream("id: new\ndata: 2\n\n"),
    status(204),
  ]);
  assert.deepEqual(ids, [undefined, "old", undefined, "new"]);
  assert.deepEqual(events, [1, 2]);
});

test("a stream that is refused from its start is not requested again", async () => {
  const { ids } = await followed([status(422)]);
  assert.deepEqual(ids, [undefined]);
});
