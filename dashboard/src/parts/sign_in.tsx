// The sign-in form: it exchanges a token for a session, and does not keep the token in the page.

import { useState } from "preact/hooks";
import { call, Problem } from "../api/client.ts";
import { path, query } from "../url.ts";
import { Notice } from "./notice.tsx";
import { Panel } from "./panel.tsx";
import styles from "./sign_in.module.css";

export function SignIn() {
  const [problem, setProblem] = useState<string>();
  const wasRefused = new URLSearchParams(query.value).get("signin") === "refused";

  async function enter(event: Event): Promise<void> {
    event.preventDefault();
    const token = new FormData(event.currentTarget as HTMLFormElement).get("token");
    try {
      const headers = { Authorization: `Bearer ${String(token).trim()}` };
      const { data } = await call<{ path: string }>("POST", "/v1/login-links", { headers });
      location.assign(
        `${data.path}&next=${encodeURIComponent(path.value + (query.value && !wasRefused ? `?${query.value}` : ""))}`,
      );
    } catch (error) {
      setProblem(reasonOf(error));
    }
  }

  return (
    <div class={styles["place"]}>
      <h1 class="spoken">Hora</h1>
      <Panel title="Sign in">
        <form onSubmit={enter} class={styles["form"]}>
          {wasRefused && (
            <Notice kind="warn" title="This login link is not valid">
              It is unknown, was already used, or is older than ten minutes. <code>hora login</code> prints a new one.
            </Notice>
          )}
          <label>
            Token
            <input
              name="token"
              type="password"
              autocomplete="current-password"
              required
              aria-invalid={problem !== undefined}
              aria-describedby="token-problem"
            />
          </label>
          <p id="token-problem" class={styles["problem"]} role="alert">
            {problem}
          </p>
          <button type="submit" class="primary">
            Sign in
          </button>
          <p class="muted">
            Or run <code>hora login</code>: it prints a link that opens this page as you. If you started the stack with{" "}
            <code>hora up</code>, the token is in <code>$HORA_HOME/token</code>.
          </p>
        </form>
      </Panel>
    </div>
  );
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Problem)) return String(error);
  if (error.status === 401) return "This token is unknown, has expired or was revoked.";
  return error.message;
}
