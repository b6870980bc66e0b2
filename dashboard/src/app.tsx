// The frame around every page: navigation, the user, and the state of the connection.

import { useState } from "preact/hooks";
import { call, connection } from "./api/client.ts";
import { usePolled } from "./api/polled.ts";
import styles from "./app.module.css";
import { PageAt } from "./pages.tsx";
import { Connection } from "./parts/connection.tsx";
import { Menu } from "./parts/menu.tsx";
import { SignIn } from "./parts/sign_in.tsx";
import { FOR_ADMINS, MORE, PLACES } from "./places.ts";
import { QuickDialogs, quick } from "./quick.tsx";
import { choice } from "./theme.ts";
import { path } from "./url.ts";

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
          <Links places={PLACES} />
          {!isSignedOut && <More key={path.value} />}
        </nav>
        <div class={styles["right"]}>
          <a class={styles["new"]} href="/new" aria-current={path.value === "/new" ? "page" : undefined}>
            New job
          </a>
          <span class={styles["wide"]}>
            <ThemeSwitch />
          </span>
          <a href="/help">Help</a>
          <a class={styles["wide"]} href="/docs">
            API
          </a>
          {!isSignedOut && <Account key={path.value} />}
        </div>
      </header>
      <Connection />
      {!isSignedOut && <QuickDialogs />}
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

function Links({ places }: { places: readonly (readonly [href: string, text: string])[] }) {
  return places.map(([href, text]) => (
    <a key={href} href={href} aria-current={isWithin(href) ? "page" : undefined}>
      {text}
    </a>
  ));
}

function useMe(): { user: string; scope: string; kind: string } | undefined {
  return usePolled<{ user: string; scope: string; kind: string }>("/v1/me", { every_s: Number.POSITIVE_INFINITY }).data;
}

function More() {
  const isAdmin = useMe()?.scope === "admin";
  return (
    <Menu title="More">
      <Links places={isAdmin ? [...MORE, ...FOR_ADMINS] : MORE} />
      <button type="button" onClick={() => (quick.value = "search")}>
        Go to… <kbd>Ctrl K</kbd>
      </button>
      <button type="button" onClick={() => (quick.value = "keys")}>
        Keys <kbd>?</kbd>
      </button>
    </Menu>
  );
}

function Account() {
  const me = useMe();
  const [problem, setProblem] = useState<string>();
  if (me === undefined) return <NoAccount />;
  const leave = async (): Promise<void> => {
    try {
      await call("POST", "/logout");
      location.assign("/"); // so that nothing that was read stays in the page
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <span title={`Signed in with the scope ${me.scope}`}>
      <Menu title={me.user} side="right">
        <p class="muted">Signed in with the scope {me.scope}</p>
        <Links places={[["/tokens", "Tokens"]]} />
        <span class={styles["narrow"]}>
          <ThemeSwitch />
          <a href="/docs">API</a>
        </span>
        <button type="button" onClick={() => void leave()}>
          Sign out
        </button>
        {problem !== undefined && <p role="alert">You are still signed in. {problem}</p>}
      </Menu>
    </span>
  );
}

/** The room of the button, so that nothing moves when the name comes. */
function NoAccount() {
  return (
    <span class={styles["hidden"]} aria-hidden="true">
      <button type="button" disabled>
        admin ▾
      </button>
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
