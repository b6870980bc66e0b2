// The title and the text of an article, and beside them what they become.

import { useEffect, useState } from "preact/hooks";
import { call, Problem } from "../../api/client.ts";
import type { ArticlePreview } from "../../api/types.ts";
import { ProblemNotice } from "../../parts/notice.tsx";
import { Blocks } from "./blocks.tsx";
import styles from "./editor.module.css";

interface Props {
  title: string;
  text: string;
  /** The version that is changed; 0: a new article. */
  version: number;
  onSave: (title: string, text: string, version: number) => Promise<void>;
  onEnd: () => void;
}

const PAUSE_MS = 500; // of typing, before the preview is made again

export function Editor(props: Props) {
  // What was there when the editor opened: the page goes on reading newer versions.
  const [version] = useState(props.version);
  const [title, setTitle] = useState(props.title);
  const [text, setText] = useState(props.text);
  const [isBusy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState<Problem>();
  const preview = usePreview(text);
  const isChanged = title !== props.title || text !== props.text;
  useWarning(isChanged);

  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setRefusal(undefined);
    try {
      await props.onSave(title, text, version);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setRefusal(error);
    }
    setBusy(false);
  };
  const end = (): void => {
    if (!isChanged || confirm("Leave without saving?")) props.onEnd();
  };
  return (
    <form class={styles["editor"]} onSubmit={save}>
      <header class={styles["header"]}>
        <h1>{version === 0 ? "New article" : "Edit article"}</h1>
        <button type="button" onClick={end}>
          Cancel
        </button>
        <button type="submit" disabled={isBusy || title.trim() === "" || preview.problem !== undefined}>
          Save
        </button>
      </header>
      {refusal?.isAway && <p role="alert">The api does not answer. Nothing was saved; your text stays here.</p>}
      <ProblemNotice problem={refusal} />
      <div class={styles["columns"]}>
        <div class={styles["source"]}>
          <label>
            Title
            <input value={title} maxLength={200} required onInput={(event) => setTitle(event.currentTarget.value)} />
          </label>
          <label>
            Text, in Markdown
            <textarea
              rows={30}
              maxLength={100_000}
              spellcheck
              value={text}
              onInput={(event) => setText(event.currentTarget.value)}
            />
          </label>
          <p>
            <a href="/help/articles.html" target="_blank" rel="noopener">
              How to write charts and tables
            </a>
          </p>
        </div>
        <section aria-label="Preview" class={styles["preview"]}>
          <ProblemNotice problem={preview.problem} />
          <Blocks blocks={preview.blocks} />
        </section>
      </div>
    </form>
  );
}

interface Preview {
  readonly blocks: ArticlePreview["blocks"];
  readonly problem: Problem | undefined;
}

/** The text in its parts, after a pause of typing. While the text has a mistake, the last good one stays. */
function usePreview(text: string): Preview {
  const [preview, setPreview] = useState<Preview>({ blocks: [], problem: undefined });
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      const options = { body: { title: "x", text }, signal: abort.signal };
      try {
        const { data } = await call<ArticlePreview>("POST", "/v1/articles?dry_run=true", options);
        setPreview({ blocks: data.blocks, problem: undefined });
      } catch (error) {
        if (error instanceof Problem) setPreview(({ blocks }) => ({ blocks, problem: error }));
        else if (!abort.signal.aborted) throw error;
      }
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);
  return preview;
}

/** Let the browser ask before it leaves a text that is not saved. */
function useWarning(isChanged: boolean): void {
  useEffect(() => {
    if (!isChanged) return;
    const warn = (event: Event): void => event.preventDefault();
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [isChanged]);
}
