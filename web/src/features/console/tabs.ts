/** The tabs of the drawer, in their order. */
export const TABS = [
  { id: "live", label: "Live stream" },
  { id: "context", label: "Context" },
  { id: "decisions", label: "Decisions" },
  { id: "ledger", label: "Ledger" },
  { id: "timeline", label: "Timeline" },
] as const;
export type TabId = (typeof TABS)[number]["id"];
