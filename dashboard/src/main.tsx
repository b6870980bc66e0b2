import "./styles/base.css";
import { render } from "preact";
import { App } from "./app.tsx";
import { followLinks } from "./url.ts";

followLinks();
render(<App />, document.getElementById("app") as HTMLElement);
