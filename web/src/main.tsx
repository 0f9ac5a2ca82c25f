import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { boot, install } from "./shell/boot";
import "./ui/base.css";

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no element with the id root");

install();
void boot();
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
