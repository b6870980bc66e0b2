// The ids of the jobs in the list that a person saw last, in this tab. The page of a job leads on to its neighbours.

const KEY = "hora-listed-jobs";

export function keepListed(ids: readonly string[]): void {
  sessionStorage.setItem(KEY, ids.join());
}

export function listedIds(): readonly string[] {
  return (sessionStorage.getItem(KEY) ?? "").split(",");
}
