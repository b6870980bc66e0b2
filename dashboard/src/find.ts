// What a search within a part of the page finds. Pure.

/** Whether a name matches what a person typed: a regular expression, or letters if it is none. Case does not matter. */
export function finder(text: string): (name: string) => boolean {
  const typed = text.trim().toLowerCase();
  let pattern: RegExp | undefined;
  try {
    pattern = new RegExp(typed, "i");
  } catch {} // such as "loss(" while a person types
  return (name) => name.toLowerCase().includes(typed) || pattern?.test(name) === true;
}
