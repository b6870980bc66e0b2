export function HostsPage() {
  return <p>HostsPage</p>;
}
