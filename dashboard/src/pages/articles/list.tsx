// The list of articles at /articles, those that were changed last first.

import { usePolled } from "../../api/polled.ts";
import type { ArticleLine, Listed } from "../../api/types.ts";
import { ago, moment } from "../../format.ts";
import { Notice, ProblemNotice, Waiting } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import { pathWith, withParams } from "../../query.ts";
import { param, query } from "../../url.ts";
import styles from "./list.module.css";

const PAGE = 50;
const cursorParam = param("cursor");

export function ArticlesPage() {
  const cursor = cursorParam.value;
  const path = pathWith("/v1/articles", { limit: PAGE, cursor });
  const { data, problem } = usePolled<Listed<ArticleLine>>(path, { every_s: 10 });
  return (
    <div class={styles["page"]}>
      <header class={styles["header"]}>
        <h1>Articles</h1>
        <a href="/articles/new">New article</a>
      </header>
      {data !== undefined && <ProblemNotice problem={problem} />}
      {data === undefined ? (
        <Waiting problem={problem} subject="articles" />
      ) : (
        <Articles page={data} isFirst={cursor === ""} />
      )}
    </div>
  );
}

function Articles({ page, isFirst }: { page: Listed<ArticleLine>; isFirst: boolean }) {
  if (page.items.length === 0 && isFirst) {
    return (
      <Notice title="No articles yet">
        An article is a page of prose with charts and tables of jobs in it: what was tried, what came out, what to do
        next. Its charts stay up to date.
      </Notice>
    );
  }
  return (
    <Panel title={isFirst ? "Changed last" : "Older articles"} flush>
      <div class={styles["scroll"]}>
        <table class={styles["table"]}>
          <thead>
            <tr>
              <th scope="col">Title</th>
              <th scope="col">Owner</th>
              <th scope="col">Project</th>
              <th scope="col" class="figure">
                Version
              </th>
              <th scope="col">Changed</th>
            </tr>
          </thead>
          <tbody>
            {page.items.map((article) => (
              <tr key={article.id}>
                <th scope="row">
                  <a href={`/articles/${article.id}`}>
                    <bdi>{article.title}</bdi>
                  </a>
                </th>
                <td>{article.owner}</td>
                <td>{article.project}</td>
                <td class="figure">{article.version}</td>
                <td title={moment(article.changed_at)}>
                  {ago(article.changed_at)} by {article.author}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <nav class={styles["pages"]} aria-label="Pages of the list">
        {!isFirst && <a href="/articles">Changed last</a>}
        {page.next_cursor !== null && (
          <a href={`/articles?${withParams(query.value, { cursor: page.next_cursor })}`}>Older</a>
        )}
      </nav>
    </Panel>
  );
}
