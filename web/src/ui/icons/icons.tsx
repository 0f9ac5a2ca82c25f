import type { ReactNode } from "react";

/** Line icons of 16 px. They are decoration: the control or the word beside them has the name. */
function icon(drawing: ReactNode) {
  return function Icon({ size = 16 }: { readonly size?: number }) {
    return (
      <svg
        aria-hidden="true"
        viewBox="0 0 16 16"
        width={size}
        height={size}
        fill="none"
        stroke="currentColor"
        strokeWidth="1.4"
        strokeLinecap="round"
        strokeLinejoin="round"
        className="shrink-0"
      >
        {drawing}
      </svg>
    );
  };
}

// Screens
export const CanvasIcon = icon(<path d="M8 2 14 8 8 14 2 8Z" />);
export const ChatIcon = icon(<path d="M2.5 3.5h11v7h-6l-3 2.5v-2.5h-2Z" />);
export const WorldIcon = icon(
  <path d="M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2ZM2 8h12M8 2c-4 4-4 8 0 12M8 2c4 4 4 8 0 12" />,
);
export const ArtifactsIcon = icon(<path d="M4 2h5.5L12.5 5v9H4ZM9.5 2v3h3M6 8h4.5M6 10.5h4.5" />);
export const RunsIcon = icon(<path d="M4.5 3 12.5 8l-8 5Z" />);
export const MemoryIcon = icon(<path d="M8 2v12M2 8h12M3.8 3.8l8.4 8.4M12.2 3.8l-8.4 8.4" />);
export const MarketIcon = icon(<path d="M2.5 5.5h10l-2.5-2.5M13.5 10.5h-10L6 13" />);
export const CostsIcon = icon(
  <path d="M8 1.5v13M11.5 4.5c-.8-1-2-1.4-3.5-1.4-2 0-3.3 1-3.3 2.4 0 3.3 6.8 1.6 6.8 5 0 1.4-1.4 2.4-3.5 2.4-1.6 0-2.9-.5-3.6-1.6" />,
);
export const SettingsIcon = icon(<path d="M2 4.5h6M12 4.5h2M10 3v3M2 11.5h2M8 11.5h6M6 10v3" />);
export const OverviewIcon = icon(
  <path d="M2.5 3h4.5v4.5H2.5ZM9 3h4.5v3H9ZM9 8.5h4.5V13H9ZM2.5 10h4.5v3H2.5Z" />,
);

// Things
export const AgentIcon = icon(
  <path d="M8 2.5a2.6 2.6 0 1 0 0 5.2 2.6 2.6 0 0 0 0-5.2ZM3 13.5c.4-2.6 2.3-4 5-4s4.6 1.4 5 4" />,
);
export const TaskIcon = icon(<path d="M2.5 2.5h11v11h-11ZM5 8l2.2 2.2L11 6" />);
export const MembraneIcon = icon(
  <path d="M6 3.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9ZM10 3.5a4.5 4.5 0 1 1 0 9" />,
);
export const DatasetIcon = icon(<path d="M2.5 3h11v10h-11ZM2.5 6.3h11M2.5 9.6h11M6.5 3v10" />);
export const MemoryStoreIcon = icon(
  <path d="M3 4.5C3 3.4 5.2 2.5 8 2.5s5 .9 5 2-2.2 2-5 2-5-.9-5-2ZM3 4.5v7c0 1.1 2.2 2 5 2s5-.9 5-2v-7M3 8c0 1.1 2.2 2 5 2s5-.9 5-2" />,
);
export const PromptIcon = icon(<path d="m3 4 4 4-4 4M8.5 12H13" />);
export const WorkflowIcon = icon(<path d="M2.5 2.5h4v4h-4ZM9.5 9.5h4v4h-4ZM6.5 4.5H11.5v5" />);
export const ToolIcon = icon(
  <path d="M10.5 2.5a3.3 3.3 0 0 0-3 4.6L2.8 11.8l1.5 1.5 4.7-4.7a3.3 3.3 0 0 0 4.3-4.2L11.2 6.5 9.6 4.9l2-2.1a3 3 0 0 0-1.1-.3Z" />,
);

// Actions
export const SearchIcon = icon(<path d="M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9ZM10.3 10.3 14 14" />);
export const CloseIcon = icon(<path d="m3.5 3.5 9 9M12.5 3.5l-9 9" />);
export const PauseIcon = icon(<path d="M5 3v10M11 3v10" strokeWidth="2.2" />);
export const PlayIcon = icon(<path d="M4.5 3 12.5 8l-8 5Z" fill="currentColor" />);
export const StepIcon = icon(<path d="M3.5 3.5 9.5 8l-6 4.5ZM12.5 3.5v9" />);
export const StopIcon = icon(<path d="M3.5 3.5h9v9h-9Z" fill="currentColor" />);
export const MoreIcon = icon(<path d="M3 8h.01M8 8h.01M13 8h.01" strokeWidth="2.4" />);
export const DownIcon = icon(<path d="m3.5 6 4.5 4.5L12.5 6" />);
export const UpIcon = icon(<path d="M3.5 10.5 8 6l4.5 4.5" />);
export const RightIcon = icon(<path d="M6 3.5 10.5 8 6 12.5" />);
export const BackIcon = icon(<path d="M10 3.5 5.5 8l4.5 4.5" />);
export const PanelRightIcon = icon(<path d="M2.5 3h11v10h-11ZM9.5 3v10" />);
export const PanelBottomIcon = icon(<path d="M2.5 3h11v10h-11ZM2.5 9.5h11" />);
export const WarnIcon = icon(<path d="M8 2.5 14 13.5H2ZM8 6.5v3.2M8 11.6v.1" />);
export const CheckIcon = icon(<path d="m3 8.5 3.2 3.2L13 5" />);
export const HistoryIcon = icon(<path d="M3 8a5.2 5.2 0 1 1 1.6 3.8M3 4v4h3.6M8 5.2V8l2.2 1.4" />);
export const MinusIcon = icon(<path d="M3 8h10" />);
export const FitIcon = icon(<path d="M2.5 5.5v-3h3M10.5 2.5h3v3M13.5 10.5v3h-3M5.5 13.5h-3v-3" />);
export const ArrangeIcon = icon(<path d="M2.5 3h4v3h-4ZM9.5 3h4v3h-4ZM2.5 10h4v3h-4ZM9.5 10h4v3h-4Z" />);
export const PlusIcon = icon(<path d="M8 3v10M3 8h10" />);
