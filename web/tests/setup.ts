import { cleanup, configure } from "@testing-library/react";
import { afterEach, vi } from "vitest";

afterEach(cleanup);

// A loaded machine takes its time to load a screen; a test that waits in vain fails all the same.
configure({ asyncUtilTimeout: 20_000 });

// jsdom has neither layout nor media queries; these answer as a desktop in the dark theme would.
vi.stubGlobal("matchMedia", (query: string) => ({
  matches: false,
  media: query,
  addEventListener: () => undefined,
  removeEventListener: () => undefined,
}));
vi.stubGlobal(
  "ResizeObserver",
  class {
    observe(): void {}
    unobserve(): void {}
    disconnect(): void {}
  },
);
