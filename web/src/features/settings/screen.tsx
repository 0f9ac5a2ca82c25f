import { allCommands } from "@/commands/registry";
import type { Command } from "@/commands/command";
import { setUi, type Theme, useUi } from "@/state/ui";
import { Kbd } from "@/ui/Kbd";
import { Select } from "@/ui/Select";
import { Account } from "./Account";

const THEMES: readonly { readonly value: Theme; readonly label: string }[] = [
  { value: "system", label: "As the system" },
  { value: "dark", label: "Dark" },
  { value: "light", label: "Light" },
];

const withKeys: readonly (Command & { readonly shortcut: string })[] = allCommands.filter(
  (command): command is Command & { readonly shortcut: string } => command.shortcut !== undefined,
);

/** What belongs to this browser and to whoever is signed in. */
export default function Settings() {
  const theme = useUi((state) => state.theme);
  return (
    <div className="mx-auto flex max-w-180 flex-col gap-6 p-6">
      <h1 className="text-20">Settings</h1>
      <section aria-labelledby="look" className="flex flex-col gap-3">
        <h2 id="look" className="text-15">
          Look
        </h2>
        <Select
          label="Theme"
          value={theme}
          options={THEMES}
          onChange={(chosen) => setUi({ theme: chosen })}
          className="max-w-60"
        />
      </section>
      <Account />
      <section aria-labelledby="keys" className="flex flex-col gap-2">
        <h2 id="keys" className="text-15">
          Keyboard
        </h2>
        <dl className="grid grid-cols-[1fr_auto] gap-y-1.5">
          {withKeys.map((command) => (
            <div key={command.id} className="col-span-2 grid grid-cols-subgrid border-b border-line pb-1.5">
              <dt>{command.label}</dt>
              <dd>
                <Kbd keys={command.shortcut} />
              </dd>
            </div>
          ))}
        </dl>
      </section>
    </div>
  );
}
