import { called } from "@/state/called";
import { Select } from "@/ui/Select";
import { TextField } from "@/ui/TextField";
import { setFilter, useConsole } from "./consoleStore";
import { GROUPS } from "./groups";

/** Which rows of the stream are shown. */
export function StreamFilter({ agents }: { readonly agents: readonly string[] }) {
  const filter = useConsole((state) => state.filter);
  const known = filter.agent === "" || agents.includes(filter.agent) ? agents : [...agents, filter.agent];
  return (
    <div role="search" aria-label="Filter the stream" className="flex gap-2 px-3 py-1.5">
      <TextField
        label="Filter by text"
        bare
        type="search"
        placeholder="Filter"
        className="min-w-20 flex-1"
        value={filter.text}
        onChange={(event) => setFilter({ text: event.target.value })}
      />
      <Select
        label="Kind of event"
        bare
        className="min-w-0 shrink"
        value={filter.group}
        options={GROUPS}
        onChange={(group) => setFilter({ group })}
      />
      <Select
        label="Agent"
        bare
        className="max-w-36 min-w-0 shrink"
        value={filter.agent}
        options={[
          { value: "", label: "Everybody" },
          ...known.map((agent) => ({ value: agent, label: called(agent) })),
        ]}
        onChange={(agent) => setFilter({ agent })}
      />
    </div>
  );
}
