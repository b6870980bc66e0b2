// What the pages about people, projects, tokens, datasets, webhooks and the log share: lists, forms and questions.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { get, Problem } from "../../api/client.ts";
import { usePolled } from "../../api/polled.ts";
import type { Listed, Me } from "../../api/types.ts";
import { ago, moment, UNKNOWN } from "../../format.ts";
import { Confirm } from "../../parts/dialog.tsx";
import { ProblemNotice, Waiting } from "../../parts/notice.tsx";
import { param } from "../../url.ts";
import styles from "./kit.module.css";
import { matches } from "./matching.ts";

export const ONCE = { every_s: Number.POSITIVE_INFINITY };

/** The caller and their rights; undefined until they are known. */
export function useMe(): Me | undefined {
  return usePolled<Me>("/v1/me", ONCE).data;
}

interface PageProps {
  title: string;
  /** The list that the page is about one item of: its path and title. */
  back?: readonly [path: string, title: string];
  children: ComponentChildren;
}

export function Page({ title, back, children }: PageProps) {
  return (
    <div class={styles["page"]}>
      <h1>
        {back !== undefined && <a href={back[0]}>{back[1]}</a>}
        {back !== undefined && " / "}
        <bdi>{title}</bdi>
      </h1>
      {children}
    </div>
  );
}

const searchParam = param("q");

interface ListProps<T> {
  /** What is listed, in the plural: "tokens". */
  noun: string;
  path: string;
  heads: readonly string[];
  /** The texts that the search looks at. */
  texts: (item: T) => readonly (string | null | undefined)[];
  children: (item: T, refresh: () => void) => ComponentChildren;
  hasSearch?: boolean;
  every_s?: number;
}

/** A list of the api as a table with a search, page by page. A child is a row. */
export function List<T>({ noun, path, heads, texts, children, hasSearch = true, every_s = 15 }: ListProps<T>) {
  const first = usePolled<Listed<T>>(path, { every_s });
  const [more, setMore] = useState<{ path: string; pages: Listed<T>[] }>({ path, pages: [] });
  const { act, isBusy, problem } = useAct();
  if (first.data === undefined) return <Waiting problem={first.problem} subject={noun} />;
  const pages = [first.data, ...(more.path === path ? more.pages : [])];
  const items = pages.flatMap((page) => page.items);
  const shown = hasSearch ? items.filter((item) => matches(texts(item), searchParam.value)) : items;
  const cursor = pages.at(-1)?.next_cursor ?? null;
  const refresh = (): void => {
    setMore({ path, pages: [] });
    first.refresh();
  };
  const load = (): void => {
    const join = path.includes("?") ? "&" : "?";
    void act(async () => {
      const page = await get<Listed<T>>(`${path}${join}cursor=${encodeURIComponent(cursor ?? "")}`);
      setMore({ path, pages: [...pages.slice(1), page] });
    });
  };
  return (
    <>
      <ProblemNotice problem={problem ?? first.problem} />
      {hasSearch && (
        <input
          type="search"
          class={styles["search"]}
          aria-label={`Search ${noun}`}
          placeholder={`Search ${noun}`}
          value={searchParam.value}
          onInput={(event) => searchParam.set(event.currentTarget.value)}
        />
      )}
      <div class={styles["scroll"]} tabIndex={0} role="region" aria-label={noun}>
        <table class={styles["table"]}>
          <thead>
            <tr>
              {heads.map((head) => (
                <th key={head} scope="col">
                  {head === "" ? <span class="spoken">Actions</span> : head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>{shown.map((item) => children(item, refresh))}</tbody>
        </table>
        {shown.length === 0 && (
          <p class={styles["none"]}>{items.length === 0 ? `There are no ${noun}.` : `None of the ${noun} matches.`}</p>
        )}
      </div>
      {cursor !== null && (
        <button type="button" class={styles["more"]} disabled={isBusy} onClick={load}>
          More {noun}
        </button>
      )}
    </>
  );
}

export interface Acting {
  /** Carry out a request; false if the api refused it, which `problem` says. */
  readonly act: (request: () => Promise<unknown>) => Promise<boolean>;
  readonly isBusy: boolean;
  readonly problem: Problem | undefined;
}

export function useAct(): Acting {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const act = async (request: () => Promise<unknown>): Promise<boolean> => {
    setBusy(true);
    setProblem(undefined);
    try {
      await request();
      return true;
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(-1, "unreadable", "Unreadable answer", String(error)));
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { act, isBusy, problem };
}

interface ActionProps {
  text: string;
  /** What it acts on, for those who hear the page. */
  of: string;
  request: () => Promise<unknown>;
  onDone: () => void;
  /** Asked before; without one it acts at once. */
  question?: { readonly title: string; readonly about: string };
}

/** A button that changes something. If the api refuses, it says why beside it. */
export function Action({ text, of, request, onDone, question }: ActionProps) {
  const { act, isBusy, problem } = useAct();
  const [isAsking, setAsking] = useState(false);
  const carryOut = async (): Promise<void> => {
    if (await act(request)) onDone();
  };
  return (
    <>
      <button
        type="button"
        class={question === undefined ? undefined : "danger"}
        disabled={isBusy}
        onClick={() => (question === undefined ? void carryOut() : setAsking(true))}
      >
        {text}
        <span class="spoken"> {of}</span>
      </button>
      {problem?.isAway && <span role="alert">The api does not answer.</span>}
      <ProblemNotice problem={problem} />
      {question !== undefined && isAsking && (
        <Confirm
          title={question.title}
          action={text.replace("…", "")}
          onAnswer={(isYes) => {
            setAsking(false);
            if (isYes) void carryOut();
          }}
        >
          <p>{question.about}</p>
        </Confirm>
      )}
    </>
  );
}

interface FormProps {
  title: string;
  button: string;
  /** Sends the fields of the form, by their names. */
  send: (fields: FormData) => Promise<unknown>;
  children: ComponentChildren;
  isOpen?: boolean;
}

/** A form below a line that opens it. After the api has accepted it, it is empty again. */
export function Form({ title, button, send, children, isOpen = false }: FormProps) {
  const { act, isBusy, problem } = useAct();
  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    if (await act(() => send(new FormData(form)))) form.reset();
  }
  return (
    <details class={styles["form"]} open={isOpen}>
      <summary>{title}</summary>
      <form onSubmit={submit}>
        {children}
        {problem?.isAway && <p role="alert">The api does not answer. What you typed stays here.</p>}
        <ProblemNotice problem={problem} />
        <button type="submit" class="primary" disabled={isBusy}>
          {button}
        </button>
      </form>
    </details>
  );
}

interface FieldProps {
  label: string;
  name: string;
  about?: string;
  value?: string | number | null | undefined;
  type?: "text" | "number";
  required?: boolean;
  placeholder?: string;
}

export function Field({ label, name, about, value, type = "text", ...more }: FieldProps) {
  return (
    <label class={styles["field"]}>
      <span>{label}</span>
      <input type={type as "text"} name={name} autocomplete="off" step="any" defaultValue={value ?? ""} {...more} />
      {about !== undefined && <small>{about}</small>}
    </label>
  );
}

interface ChoiceProps extends Omit<FieldProps, "type"> {
  options: readonly (readonly [value: string, text: string])[];
}

export function Choice({ label, name, about, value, options }: ChoiceProps) {
  return (
    <label class={styles["field"]}>
      <span>{label}</span>
      <select name={name}>
        {options.map(([option, text]) => (
          <option key={option} value={option} selected={option === value}>
            {text}
          </option>
        ))}
      </select>
      {about !== undefined && <small>{about}</small>}
    </label>
  );
}

export function When({ at }: { at: string | null | undefined }) {
  if (!at) return <>{UNKNOWN}</>;
  return (
    <time dateTime={at} title={moment(at)}>
      {Date.parse(at) > Date.now() ? moment(at) : ago(at)}
    </time>
  );
}
