// A choice of any number of options, as buttons that stay pressed.

import styles from "./toggles.module.css";

interface Props {
  label: string;
  options: readonly (readonly [key: string, text: string])[];
  chosenKeys: readonly string[];
  onToggle: (key: string) => void;
}

export function Toggles({ label, options, chosenKeys, onToggle }: Props) {
  return (
    <fieldset class={styles["toggles"]}>
      <legend class="spoken">{label}</legend>
      {options.map(([key, text]) => (
        <button key={key} type="button" aria-pressed={chosenKeys.includes(key)} onClick={() => onToggle(key)}>
          {text}
        </button>
      ))}
    </fieldset>
  );
}
