export function StudiesPage() {
  return <p>StudiesPage</p>;
}
