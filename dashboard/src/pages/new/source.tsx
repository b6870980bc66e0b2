// The draft as JSON, to write or paste. It stays in sync with the form.

import { type Draft, isSame, parsed } from "./draft.ts";
import styles from "./source.module.css";
import { useText } from "./use_text.ts";

interface Props {
  /** What the text is, and what may be left out. */
  about?: string;
  draft: Draft;
  onDraft: (draft: Draft) => void;
  /** Called with every text: whether it can be read. */
  onReadable: (isReadable: boolean) => void;
}

export function Source({
  about = "Spec as JSON; fields that you leave out have their defaults",
  draft,
  onDraft,
  onReadable,
}: Props) {
  // A text that is not a valid draft changes nothing, and stays as it is.
  const isCurrent = (text: string): boolean => isSame(parsed(text) ?? draft, draft);
  const { text, type } = useText(JSON.stringify(draft, null, 2), isCurrent, (next) => {
    const read = parsed(next);
    onReadable(read !== undefined);
    if (read !== undefined) onDraft(read);
  });
  const trouble = parsed(text) === undefined ? troubleIn(text) : "";
  return (
    <div class={styles["source"]}>
      <label for="spec-source">{about}</label>
      <textarea
        id="spec-source"
        spellcheck={false}
        rows={Math.max(14, text.split("\n").length + 1)}
        value={text}
        aria-invalid={trouble !== ""}
        aria-describedby="spec-source-trouble"
        onInput={(event) => type(event.currentTarget.value)}
      />
      <p id="spec-source-trouble" class={styles["trouble"]} role="status">
        {trouble}
      </p>
    </div>
  );
}

function troubleIn(text: string): string {
  try {
    JSON.parse(text);
    return "This must be an object: { … }";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
