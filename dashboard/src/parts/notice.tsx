// Messages instead of data, or about it: nothing yet, not found, not allowed, away.

import type { ComponentChildren } from "preact";
import { connection } from "../api/client.ts";
import type { Problem } from "../api/problem.ts";
import styles from "./notice.module.css";

interface Props {
  kind?: "plain" | "bad" | "warn" | "good";
  title?: string;
  /** It stands for the whole page. */
  isPage?: boolean;
  children?: ComponentChildren;
}

export function Notice({ kind = "plain", title, isPage = false, children }: Props) {
  return (
    <div class={`${styles["notice"]} ${styles[kind]}`} role={kind === "bad" ? "alert" : "status"}>
      {title !== undefined && (isPage ? <h1>{title}</h1> : <strong>{title}</strong>)}
      {children !== undefined && <div>{children}</div>}
    </div>
  );
}

/** A problem of the api. Problems of the connection are shown elsewhere. */
export function ProblemNotice({ problem }: { problem: Problem | undefined }) {
  if (problem === undefined || problem.isAway || problem.status === 401) return null;
  return (
    <Notice kind="bad" title={problem.title}>
      {problem.errors.length === 0 ? (
        problem.detail
      ) : (
        <ul>
          {problem.errors.map((error) => (
            <li key={error.field}>
              <code>{error.field}</code> {error.message}
            </li>
          ))}
        </ul>
      )}
    </Notice>
  );
}

/** Shown until data has come: the problem, or that the data is loading. */
export function Waiting({ problem, subject }: { problem: Problem | undefined; subject: string }) {
  if (problem !== undefined && !problem.isAway && problem.status !== 401) return <ProblemNotice problem={problem} />;
  if (connection.value.state !== "ok") return null;
  return (
    <p class={styles["waiting"]} role="status">
      Loading {subject}…
    </p>
  );
}
