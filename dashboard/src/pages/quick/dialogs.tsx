// The quick search and the list of keys, which keys open on every page.

import { useEffect, useState } from "preact/hooks";
import { usePolled } from "../../api/polled.ts";
import type { Listed } from "../../api/types.ts";
import { finder } from "../../find.ts";
import { Dialog } from "../../parts/dialog.tsx";
import { keyHelp } from "../../parts/key_help.ts";
import { FOR_ADMINS, MORE, PLACES } from "../../places.ts";
import { pathWith } from "../../query.ts";
import styles from "./dialogs.module.css";

const TYPED_MS = 200;
const MOST = 8; // of each kind
const ONCE = { every_s: Number.POSITIVE_INFINITY };

interface Place {
  readonly kind: string;
  readonly text: string;
  readonly href: string;
}

export function QuickSearch({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const places = usePlaces(text);
  const press = (event: KeyboardEvent): void => {
    const stops = [...(event.currentTarget as Element).querySelectorAll<HTMLElement>("input, a")];
    const place = stops.indexOf(event.target as HTMLElement);
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) stops[(place + step + stops.length) % stops.length]?.focus();
    else if (event.key === "Enter" && place === 0) stops[1]?.click();
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Go to" onClose={onClose}>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the arrows move between the input and the links */}
      <div class={styles["search"]} onKeyDown={press}>
        <input
          type="search"
          value={text}
          placeholder="Page, job, study, article, dataset, project, host"
          aria-label="Go to"
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <ul class={styles["places"]}>
          {places.map(({ kind, text, href }) => (
            <li key={href}>
              <a href={href} onClick={onClose}>
                {text} <small>{kind}</small>
              </a>
            </li>
          ))}
        </ul>
        {places.length === 0 && <p class="muted">Nothing has this in its name.</p>}
      </div>
    </Dialog>
  );
}

/** What a list of the api has; articles have a title instead of a name. */
interface Item {
  readonly id: string;
  readonly name?: string;
  readonly title?: string;
}

/** The places whose names contain a text. The api searches jobs and studies; of other things it lists all. */
function usePlaces(text: string): readonly Place[] {
  const [search, setSearch] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setSearch(text.trim()), TYPED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const isAdmin = usePolled<{ scope: string }>("/v1/me", ONCE).data?.scope === "admin";
  const searched = (path: string): string | null => (search === "" ? null : pathWith(path, { search, limit: MOST }));
  const jobs = useItems(searched("/v1/jobs"));
  const studies = useItems(searched("/v1/studies"));
  const articles = useItems("/v1/articles?limit=500");
  const datasets = useItems("/v1/datasets?limit=500");
  const projects = useItems("/v1/projects?limit=500");
  const hosts = useItems("/v1/hosts?limit=500");
  const isFound = finder(text);
  const pages = [["/new", "New job"], ...PLACES, ...MORE, ["/tokens", "Tokens"], ...(isAdmin ? FOR_ADMINS : [])];
  const found = pages.flatMap(([href = "", name = ""]) => (isFound(name) ? [{ kind: "page", text: name, href }] : []));
  if (text.trim() === "") return found;
  const among = (kind: string, items: readonly Item[], hrefOf: (item: Item) => string): readonly Place[] =>
    items.map((item) => ({ kind, text: nameOf(item), href: hrefOf(item) }));
  const matching = (items: readonly Item[]): readonly Item[] =>
    items.filter((item) => isFound(nameOf(item))).slice(0, MOST);
  return [
    ...found,
    ...among("job", jobs, ({ id }) => `/jobs/${id}`),
    ...among("study", studies, ({ id }) => `/studies/${id}`),
    ...among("article", matching(articles), ({ id }) => `/articles/${id}`),
    ...among("dataset", matching(datasets), ({ name }) => `/datasets/${name}`),
    ...among("project", matching(projects), ({ name }) => `/projects/${name}`),
    ...among("host", matching(hosts), ({ name }) => `/hosts?q=${name}`),
  ];
}

function nameOf({ name, title = "" }: Item): string {
  return name ?? title;
}

function useItems(path: string | null): readonly Item[] {
  return usePolled<Listed<Item>>(path, ONCE).data?.items ?? [];
}

export function Keys({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      {[...keyHelp.value].map(([title, rows]) => (
        <section key={title}>
          <h3>{title}</h3>
          <dl class={styles["keys"]}>
            {rows.map(([keys, text]) => (
              <div key={keys}>
                <dt>
                  <kbd>{keys}</kbd>
                </dt>
                <dd>{text}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
    </Dialog>
  );
}
