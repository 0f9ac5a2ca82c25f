import { allCommands } from "@/commands/registry";
import type { Command } from "@/commands/command";
import { Kbd } from "@/ui/Kbd";
import { Section } from "./Section";

type WithKeys = Command & { readonly shortcut: string };

function grouped(commands: readonly Command[]): ReadonlyMap<string, readonly WithKeys[]> {
  const groups = new Map<string, WithKeys[]>();
  for (const command of commands) {
    if (command.shortcut === undefined) continue;
    const group = groups.get(command.group) ?? [];
    group.push({ ...command, shortcut: command.shortcut });
    groups.set(command.group, group);
  }
  return groups;
}

const groups = grouped(allCommands);

/** Every shortcut there is, from the one list of commands. */
export function Keys() {
  return (
    <Section title="Keyboard">
      <p className="text-ink-2">
        <Kbd keys="mod+k" /> finds every command and every thing by a few letters; two keys with a space
        between them are pressed one after the other.
      </p>
      <div className="grid gap-x-8 gap-y-4 tablet:grid-cols-2">
        {[...groups].map(([group, commands]) => (
          <section key={group} aria-label={`Shortcuts: ${group}`}>
            <h3 className="text-12 text-ink-3">{group}</h3>
            <dl>
              {commands.map((command) => (
                <div
                  key={command.id}
                  className="flex items-center justify-between gap-3 border-b border-line py-1"
                >
                  <dt>{command.label}</dt>
                  <dd className="shrink-0">
                    <Kbd keys={command.shortcut} />
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Section>
  );
}
