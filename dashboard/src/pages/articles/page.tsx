// An article at /articles/ID, with its charts and tables as the jobs are now.

import { useEffect, useState } from "preact/hooks";
import { call, Problem } from "../../api/client.ts";
import { usePolled } from "../../api/polled.ts";
import type { Article, ArticleVersion, Listed } from "../../api/types.ts";
import { ago, moment } from "../../format.ts";
import { ProblemNotice, Waiting } from "../../parts/notice.tsx";
import { pathWith } from "../../query.ts";
import { go, param } from "../../url.ts";
import { Blocks } from "./blocks.tsx";
import { Editor } from "./editor.tsx";
import styles from "./page.module.css";

const versionParam = param("version");
const editParam = param("edit");

export function ArticlePage({ id }: { id: string }) {
  const version = versionParam.value;
  const path = `/v1/articles/${id}`;
  const { data, problem, refresh } = usePolled<Article>(pathWith(path, { version }), { every_s: 10 });
  if (data === undefined) return <Waiting problem={problem} subject="the article" />;
  if (editParam.value === "1" && version === "") {
    const save = async (title: string, text: string, seenVersion: number): Promise<void> => {
      await call<Article>("PATCH", path, { body: { version: seenVersion, title, text } });
      refresh();
      editParam.set("");
    };
    return (
      <Editor
        title={data.title}
        text={data.text}
        version={data.version}
        onSave={save}
        onEnd={() => editParam.set("")}
      />
    );
  }
  return (
    <article class={styles["article"]}>
      <ProblemNotice problem={problem} />
      <header class={styles["header"]}>
        <h1>
          <bdi>{data.title}</bdi>
        </h1>
        <p class="muted">
          {data.author}, <time title={moment(data.changed_at)}>{ago(data.changed_at)}</time>, project {data.project}
        </p>
        <Tools article={data} isOld={version !== ""} />
      </header>
      <Blocks blocks={data.blocks} />
    </article>
  );
}

function Tools({ article, isOld }: { article: Article; isOld: boolean }) {
  const [problem, setProblem] = useState<Problem>();
  const exported = (format: string): string =>
    pathWith(`/v1/articles/${article.id}/export`, { format, version: versionParam.value });
  const remove = async (): Promise<void> => {
    if (!confirm(`Delete the article “${article.title}” with all its versions?`)) return;
    try {
      await call("DELETE", `/v1/articles/${article.id}`);
      go("/articles");
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return (
    <>
      <div class={styles["tools"]}>
        {!isOld && (
          <button type="button" onClick={() => editParam.set("1")}>
            Edit
          </button>
        )}
        <Versions id={article.id} shown={article.version} />
        <span>
          Save as{" "}
          <a href={exported("html")} download>
            HTML
          </a>
          {", "}
          <a href={exported("pdf")} download>
            PDF
          </a>
          {", "}
          <a href={exported("markdown")} download>
            Markdown
          </a>
        </span>
        <button type="button" onClick={remove}>
          Delete
        </button>
      </div>
      <ProblemNotice problem={problem} />
    </>
  );
}

function Versions({ id, shown }: { id: string; shown: number }) {
  const { data, refresh } = usePolled<Listed<ArticleVersion>>(`/v1/articles/${id}/versions`, { every_s: 10 });
  useEffect(() => refresh(), [shown]);
  const versions = data?.items ?? [];
  // The list may be older than the article.
  const newest = Math.max(shown, versions[0]?.version ?? 0);
  const offered = versions.some(({ version }) => version === shown)
    ? versions
    : [{ version: shown, author: "", created_at: "" }, ...versions];
  return (
    <label>
      Version{" "}
      <select
        value={String(shown)}
        onChange={({ currentTarget: { value } }) => versionParam.set(value === String(newest) ? "" : value)}
      >
        {offered.map(({ version, author, created_at }) => (
          <option key={version} value={String(version)}>
            {version}
            {author !== "" && `, ${author}, ${ago(created_at)}`}
          </option>
        ))}
      </select>
    </label>
  );
}
