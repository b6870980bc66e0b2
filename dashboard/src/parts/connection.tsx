// The notice that the api does not answer. The page keeps its data, and continues by itself.

import { connection } from "../api/client.ts";
import { Notice } from "./notice.tsx";

export function Connection() {
  const { state, detail } = connection.value;
  if (state !== "away") return null;
  return (
    <Notice kind="warn" title="The api does not answer">
      {detail} The data shown may be old. The page updates by itself when the api is back.
    </Notice>
  );
}
