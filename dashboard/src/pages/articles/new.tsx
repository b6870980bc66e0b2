// A new article, at /articles/new. The address may have the text to begin with, in `text`.

import { call } from "../../api/client.ts";
import type { Article } from "../../api/types.ts";
import { go, param } from "../../url.ts";
import { Editor } from "./editor.tsx";

const TEXT = `What was tried, and what came out.

\`\`\`hora
chart: val_accuracy
filter: status=succeeded
limit: 5
\`\`\`
`;

const textParam = param("text", TEXT);

export function NewArticlePage() {
  const save = async (title: string, text: string): Promise<void> => {
    const { data } = await call<Article>("POST", "/v1/articles", { body: { title, text } });
    go(`/articles/${data.id}`);
  };
  return <Editor title="" text={textParam.value} version={0} onSave={save} onEnd={() => go("/articles")} />;
}
