// A secret that is shown once: a token, or what signs the messages of a webhook.

import { Notice } from "../../parts/notice.tsx";
import { CopyButton } from "../job/copy_button.tsx";
import styles from "./kit.module.css";

export function Secret({ title, text, onClose }: { title: string; text: string; onClose: () => void }) {
  return (
    <Notice kind="good" title={title}>
      <p>Copy it now: it cannot be shown again.</p>
      <p class={styles["secret"]}>
        <code>{text}</code>
        <CopyButton text={() => text} label="Copy the secret">
          Copy
        </CopyButton>
        <button type="button" onClick={onClose}>
          Done
        </button>
      </p>
    </Notice>
  );
}
