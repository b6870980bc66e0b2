// A text field with suggestions (the ARIA combobox pattern): all on a click, the matching ones while typing.
// Any text is allowed, whether suggested or not.

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import styles from "./controls.module.css";

export interface Option {
  readonly value: string;
  /** An explanation of the option. */
  readonly detail: string;
}

interface Props {
  id: string;
  text: string;
  placeholder: string;
  about: string;
  isInvalid: boolean;
  options: readonly Option[];
  onType: (text: string) => void;
  onLeave: () => void;
}

export function Combobox({ id, text, placeholder, about, isInvalid, options, onType, onLeave }: Props) {
  const listbox = useListbox(options, text, onType);
  const { isOpen, active } = listbox;
  return (
    <span class={styles["combobox"]}>
      <input
        id={id}
        class={styles["text"]}
        type="text"
        role="combobox"
        autocomplete="off"
        spellcheck={false}
        value={text}
        placeholder={placeholder}
        aria-autocomplete="list"
        aria-expanded={isOpen}
        aria-controls={`${id}-options`}
        aria-activedescendant={isOpen && active >= 0 ? `${id}-option-${active}` : undefined}
        aria-describedby={about}
        aria-invalid={isInvalid}
        onInput={(event) => {
          onType(event.currentTarget.value);
          listbox.setOpen("matching");
          listbox.setActive(-1);
        }}
        onClick={() => listbox.setOpen("all")}
        onKeyDown={listbox.press}
        onBlur={() => {
          listbox.close();
          onLeave();
        }}
      />
      {isOpen && (
        <Suggestions
          list={listbox.list}
          id={id}
          options={listbox.shownOptions}
          active={active}
          onPoint={listbox.setActive}
          onChoose={listbox.choose}
        />
      )}
    </span>
  );
}

/** The list of options: which are shown, which is active, and the keys that choose one. */
function useListbox(options: readonly Option[], text: string, onType: (text: string) => void) {
  const [open, setOpen] = useState<"no" | "all" | "matching">("no");
  const [active, setActive] = useState(-1);
  const list = useRef<HTMLDivElement>(null);
  const shownOptions = open === "matching" ? matching(options, text) : options;
  const isOpen = open !== "no" && shownOptions.length > 0;
  useEffect(
    () => list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" }),
    [active],
  );

  const close = (): void => {
    setOpen("no");
    setActive(-1);
  };
  const choose = (option: Option | undefined): void => {
    if (option !== undefined) onType(option.value);
    close();
  };
  const press = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      if (!isOpen) setOpen("all");
      else
        setActive(
          (before) => (before + step + shownOptions.length + (before < 0 && step < 0 ? 1 : 0)) % shownOptions.length,
        );
    } else if (event.key === "Enter" && isOpen && active >= 0) {
      event.preventDefault(); // Enter chooses, and does not submit
      choose(shownOptions[active]);
    } else if (event.key === "Escape" && isOpen) {
      event.preventDefault();
      close();
    }
  };
  return { list, shownOptions, isOpen, active, setOpen, setActive, close, choose, press };
}

interface SuggestionsProps {
  list: RefObject<HTMLDivElement | null>;
  /** Of the input. */
  id: string;
  options: readonly Option[];
  /** The index of the active option; -1 if none is. */
  active: number;
  onPoint: (index: number) => void;
  onChoose: (option: Option) => void;
}

function Suggestions({ list, id, options, active, onPoint, onChoose }: SuggestionsProps) {
  return (
    <div ref={list} id={`${id}-options`} role="listbox" aria-label="Suggestions" class={styles["options"]}>
      {options.map((option, index) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are the field's, which keeps the focus
        <div
          key={option.value}
          id={`${id}-option-${index}`}
          role="option"
          tabIndex={-1}
          aria-selected={index === active}
          class={styles["option"]}
          onMouseDown={(event) => event.preventDefault()}
          onMouseMove={() => onPoint(index)}
          onClick={() => onChoose(option)}
        >
          <b>{option.value}</b>
          <small>{option.detail}</small>
        </div>
      ))}
    </div>
  );
}

function matching(options: readonly Option[], text: string): readonly Option[] {
  const needle = text.trim().toLowerCase();
  return options.filter(({ value, detail }) => `${value} ${detail}`.toLowerCase().includes(needle));
}
