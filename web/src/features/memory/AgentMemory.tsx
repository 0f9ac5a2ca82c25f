import { useState } from "react";
import { useMayAct } from "@/shell/useMayAct";
import { Link } from "@/shell/Link";
import { ActionButton } from "@/shell/ActionButton";
import { PlusIcon } from "@/ui/icons/icons";
import { Tabs } from "@/ui/Tabs";
import { Changes } from "./Changes";
import { RememberDialog } from "./RememberDialog";
import { Remembered } from "./Remembered";

/** The memory of one agent: what is in it, and how it came to be. */
export function AgentMemory({ agent }: { readonly agent: string }) {
  const [tab, setTab] = useState("memory");
  const [isAdding, setAdding] = useState(false);
  const may = useMayAct();
  return (
    <section aria-label={`Memory of ${agent}`} className="flex h-full min-h-0 flex-col">
      <div className="flex flex-wrap items-center gap-3 px-4 pt-3 pb-1">
        <Link to="/memory" className="text-accent underline tablet:hidden">
          All agents
        </Link>
        <h2 className="min-w-0 flex-1 truncate text-15" title={agent}>
          {agent}
        </h2>
        <ActionButton
          label="Remember"
          may={may}
          icon={<PlusIcon size={12} />}
          onClick={() => setAdding(true)}
        />
      </div>
      <Tabs
        label={`Memory of ${agent}`}
        selected={tab}
        onSelect={setTab}
        className="flex-1"
        tabs={[
          { id: "memory", label: "Memory", content: <Remembered agent={agent} /> },
          { id: "changes", label: "Changes", content: <Changes agent={agent} /> },
        ]}
      />
      {isAdding && <RememberDialog agent={agent} onClose={() => setAdding(false)} />}
    </section>
  );
}
