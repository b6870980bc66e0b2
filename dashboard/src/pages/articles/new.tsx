// A new article, at /articles/new.

import { call } from "../../api/client.ts";
import type { Article } from "../../api/types.ts";
import { go } from "../../url.ts";
import { Editor } from "./editor.tsx";

const TEXT = `What was tried, and what came out.

\`\`\`hora
chart: val_accuracy
filter: status=succeeded
limit: 5
\`\`\`
`;

export function NewArticlePage() {
  const save = async (title: string, text: string): Promise<void> => {
    const { data } = await call<Article>("POST", "/v1/articles", { body: { title, text } });
    go(`/articles/${data.id}`);
  };
  return <Editor title="" text={TEXT} version={0} onSave={save} onEnd={() => go("/articles")} />;
}
