// The frame around every page: navigation, the user, and the state of the connection.

import { connection } from "./api/client.ts";
import { usePolled } from "./api/polled.ts";
import styles from "./app.module.css";
import { PageAt } from "./pages.tsx";
import { Connection } from "./parts/connection.tsx";
import { SignIn } from "./parts/sign_in.tsx";
import { choice } from "./theme.ts";
import { path } from "./url.ts";

const PLACES = [
  ["/", "Jobs"],
  ["/compare", "Compare"],
  ["/studies", "Studies"],
  ["/queue", "Queue"],
  ["/hosts", "Hosts"],
] as const;

export function App() {
  const isSignedOut = connection.value.state === "signed_out";
  return (
    <>
      <a class={styles["skip"]} href="#main" onClick={() => document.getElementById("main")?.focus()}>
        Skip to content
      </a>
      <header class={styles["bar"]}>
        <a class={styles["name"]} href="/" aria-label="Hora, jobs">
          <img src="/icon.svg" alt="" width="20" height="20" /> Hora
        </a>
        <nav aria-label="Pages" class={styles["nav"]}>
          {PLACES.map(([href, text]) => (
            <a key={href} href={href} aria-current={isWithin(href) ? "page" : undefined}>
              {text}
            </a>
          ))}
        </nav>
        <div class={styles["right"]}>
          <a class={styles["new"]} href="/new" aria-current={path.value === "/new" ? "page" : undefined}>
            New job
          </a>
          <ThemeSwitch />
          <a href="/help">Help</a>
          <a href="/docs">API</a>
          {!isSignedOut && <Me />}
        </div>
      </header>
      <Connection />
      <main id="main" tabIndex={-1} class={styles["main"]}>
        {isSignedOut ? <SignIn /> : <PageAt path={path.value} />}
      </main>
    </>
  );
}

function isWithin(href: string): boolean {
  if (href === "/") return path.value === "/" || path.value.startsWith("/jobs/");
  return path.value === href || path.value.startsWith(`${href}/`);
}

function Me() {
  const { data } = usePolled<{ user: string; scope: string }>("/v1/me", { every_s: Number.POSITIVE_INFINITY });
  if (data === undefined) return null;
  return (
    <span class={styles["me"]} title={`Signed in with the scope ${data.scope}`}>
      {data.user}
    </span>
  );
}

function ThemeSwitch() {
  return (
    <label class={styles["theme"]}>
      <span class="spoken">Theme</span>
      <select
        value={choice.value}
        onChange={(event) => (choice.value = event.currentTarget.value as typeof choice.value)}
      >
        <option value="system">◐ System</option>
        <option value="light">☀ Light</option>
        <option value="dark">☾ Dark</option>
      </select>
    </label>
  );
}
