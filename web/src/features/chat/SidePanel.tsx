import { useEffect, useState } from "react";
import type { Turn } from "@/projection/turn";
import { Badge } from "@/ui/Badge";
import { Tabs } from "@/ui/Tabs";
import type { Chat } from "./api";
import { OperationsTab } from "./OperationsTab";
import { SetupTab } from "./SetupTab";
import { StateTab } from "./StateTab";

interface SidePanelProps {
  readonly chat: Chat;
  readonly asOf: number | null;
  readonly run: string;
  readonly live: Turn | null;
  readonly isRunOpen: boolean;
  /** Somebody asked for a run that is not the newest. */
  readonly isChosen: boolean;
  readonly onNewest: () => void;
}

/** Beside the thread: what the chat keeps, what its operations do, how it is set up. */
export function SidePanel({ chat, asOf, run, live, isRunOpen, isChosen, onNewest }: SidePanelProps) {
  const [tab, setTab] = useState("state");
  useEffect(() => {
    if (isChosen) setTab("operations");
  }, [isChosen, run]);
  return (
    <Tabs
      label="About this chat"
      className="h-full"
      selected={tab}
      onSelect={setTab}
      tabs={[
        {
          id: "state",
          label: "State",
          badge: chat.panels.length > 0 && (
            <Badge count={chat.panels.length} label="artifacts" tone="artifact" />
          ),
          content: <StateTab chat={chat} asOf={asOf} />,
        },
        {
          id: "operations",
          label: "Operations",
          content: (
            <OperationsTab
              chat={chat}
              run={run}
              live={live}
              isOpen={isRunOpen}
              isChosen={isChosen}
              onNewest={onNewest}
            />
          ),
        },
        { id: "setup", label: "Set-up", content: <SetupTab chat={chat} /> },
      ]}
    />
  );
}
