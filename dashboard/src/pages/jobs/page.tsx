export function JobsPage() {
  return <p>JobsPage</p>;
}
