// The runs in the address of a comparison may be named by the beginnings of their ids.

export const ID_LENGTH = 12;

export type ReadId = (beginning: string) => Promise<string>;

/** The ids, whole where `read` finds them. A text of which it finds no job stays. */
export async function wholeIds(ids: readonly string[], read: ReadId): Promise<string[]> {
  const whole = await Promise.all(ids.map((id) => (id.length < ID_LENGTH ? read(id).catch(() => id) : id)));
  return [...new Set(whole)];
}
