// A button that copies a text, and shows whether it did.

import { useEffect, useState } from "preact/hooks";

interface Props {
  /** Makes the text to copy. */
  text: () => string | Promise<string>;
  label: string;
  children: string;
  class?: string | undefined;
}

const MESSAGE_MS = 1500;

export function CopyButton({ text, label, children, class: name }: Props) {
  const [message, setMessage] = useState<string>();
  useEffect(() => {
    if (message === undefined) return;
    const timer = setTimeout(() => setMessage(undefined), MESSAGE_MS);
    return () => clearTimeout(timer);
  }, [message]);
  return (
    <button
      type="button"
      class={name}
      title={label}
      onClick={async () => {
        const isCopied = await Promise.resolve(text()).then(copied, () => false);
        setMessage(isCopied ? "Copied" : "Could not copy");
      }}
    >
      {message ?? children}
    </button>
  );
}

/** Whether it was copied. Over plain HTTP from another machine, browsers offer only the old command. */
export async function copied(text: string): Promise<boolean> {
  if (navigator.clipboard !== undefined) {
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
  }
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  return isCopied;
}
