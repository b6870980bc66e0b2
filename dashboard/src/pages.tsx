// The page at each address. Each is loaded when it is first opened.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Notice } from "./parts/notice.tsx";

interface Page {
  readonly title: string;
  readonly pattern: RegExp;
  readonly load: () => Promise<ComponentType<{ id: string }>>;
}

const PAGES: readonly Page[] = [
  { title: "Jobs", pattern: /^\/$/, load: async () => (await import("./pages/jobs/page.tsx")).JobsPage },
  { title: "Job", pattern: /^\/jobs\/([0-9a-z]+)$/, load: async () => (await import("./pages/job/page.tsx")).JobPage },
  {
    title: "Compare",
    pattern: /^\/compare$/,
    load: async () => (await import("./pages/compare/page.tsx")).ComparePage,
  },
  {
    title: "Studies",
    pattern: /^\/studies$/,
    load: async () => (await import("./pages/studies/list.tsx")).StudiesPage,
  },
  {
    title: "New study",
    pattern: /^\/studies\/new$/,
    load: async () => (await import("./pages/studies/new/page.tsx")).NewStudyPage,
  },
  {
    title: "Study",
    pattern: /^\/studies\/([0-9a-z]+)$/,
    load: async () => (await import("./pages/studies/page.tsx")).StudyPage,
  },
  {
    title: "Articles",
    pattern: /^\/articles$/,
    load: async () => (await import("./pages/articles/list.tsx")).ArticlesPage,
  },
  {
    title: "New article",
    pattern: /^\/articles\/new$/,
    load: async () => (await import("./pages/articles/new.tsx")).NewArticlePage,
  },
  {
    title: "Article",
    pattern: /^\/articles\/([0-9a-z]+)$/,
    load: async () => (await import("./pages/articles/page.tsx")).ArticlePage,
  },
  { title: "Queue", pattern: /^\/queue$/, load: async () => (await import("./pages/queue/page.tsx")).QueuePage },
  { title: "Hosts", pattern: /^\/hosts$/, load: async () => (await import("./pages/hosts/page.tsx")).HostsPage },
  {
    title: "Datasets",
    pattern: /^\/datasets$/,
    load: async () => (await import("./pages/datasets/page.tsx")).DatasetsPage,
  },
  {
    title: "Dataset",
    pattern: /^\/datasets\/([a-z0-9._-]+)$/,
    load: async () => (await import("./pages/datasets/dataset.tsx")).DatasetPage,
  },
  {
    title: "Projects",
    pattern: /^\/projects$/,
    load: async () => (await import("./pages/projects/page.tsx")).ProjectsPage,
  },
  {
    title: "Project",
    pattern: /^\/projects\/([a-z0-9-]+)$/,
    load: async () => (await import("./pages/projects/project.tsx")).ProjectPage,
  },
  { title: "Usage", pattern: /^\/usage$/, load: async () => (await import("./pages/usage/page.tsx")).UsagePage },
  {
    title: "Webhooks",
    pattern: /^\/webhooks$/,
    load: async () => (await import("./pages/webhooks/page.tsx")).WebhooksPage,
  },
  {
    title: "Webhook",
    pattern: /^\/webhooks\/([0-9a-z]+)$/,
    load: async () => (await import("./pages/webhooks/webhook.tsx")).WebhookPage,
  },
  { title: "Tokens", pattern: /^\/tokens$/, load: async () => (await import("./pages/tokens/page.tsx")).TokensPage },
  { title: "Users", pattern: /^\/users$/, load: async () => (await import("./pages/users/page.tsx")).UsersPage },
  { title: "Audit log", pattern: /^\/audit$/, load: async () => (await import("./pages/audit/page.tsx")).AuditPage },
  { title: "New job", pattern: /^\/new$/, load: async () => (await import("./pages/new/page.tsx")).NewPage },
];

const loaded = new Map<Page, ComponentType<{ id: string }>>();

/** The page at a path. */
export function PageAt({ path }: { path: string }) {
  const page = PAGES.find(({ pattern }) => pattern.test(path));
  const [, setCount] = useState(0);
  const [failedPage, setFailedPage] = useState<Page>();
  useEffect(() => {
    document.title = page === undefined ? "Hora" : `${page.title} · Hora`;
    if (page === undefined || loaded.has(page)) return;
    page.load().then(
      (component) => {
        loaded.set(page, component);
        setCount(loaded.size);
      },
      () => setFailedPage(page), // the service has a newer version, or is away
    );
  }, [page]);
  if (page === undefined) {
    return (
      <Notice kind="warn" title="Page not found" isPage>
        <a href="/">Go to the jobs</a>
      </Notice>
    );
  }
  const Component = loaded.get(page);
  if (Component !== undefined) return <Component key={path} id={page.pattern.exec(path)?.[1] ?? ""} />;
  if (failedPage !== page) return null;
  return (
    <Notice kind="warn" title="This part of the page could not be loaded">
      <button type="button" onClick={() => window.location.reload()}>
        Reload the page
      </button>
    </Notice>
  );
}
