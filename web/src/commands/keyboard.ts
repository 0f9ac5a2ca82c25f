export interface KeyPress {
  readonly key: string;
  readonly code: string;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
  readonly shiftKey: boolean;
  readonly timeStamp: number;
}

export const SEQUENCE_MS = 1500;

/** `mod+k` for Ctrl-K and Cmd-K alike, `g`, `?`, `escape`; letters by their place where Alt changes them. */
export function nameOf(press: KeyPress): string {
  const letter = /^Key([A-Z])$/.exec(press.code)?.[1];
  const key = press.altKey && letter !== undefined ? letter.toLowerCase() : press.key.toLowerCase();
  const parts = [
    (press.ctrlKey || press.metaKey) && "mod",
    press.altKey && "alt",
    press.shiftKey && (key.length > 1 || press.altKey) && "shift",
    key === " " ? "space" : key,
  ];
  return parts.filter(Boolean).join("+");
}

/** Finds the command of the keys that were pressed: alone, or the second one of a sequence. */
export class Keyboard {
  readonly #bindings: ReadonlyMap<string, string>;
  #first: { readonly name: string; readonly at: number } | null = null;

  /** Shortcut to command id. Errors: `Error` if two commands want the same keys. */
  constructor(bindings: Iterable<readonly [shortcut: string, command: string]>) {
    const known = new Map<string, string>();
    for (const [shortcut, command] of bindings) {
      const taken = known.get(shortcut);
      if (taken !== undefined) throw new Error(`${command} and ${taken} both want ${shortcut}`);
      known.set(shortcut, command);
    }
    this.#bindings = known;
  }

  press(press: KeyPress): string | null {
    const name = nameOf(press);
    const first = this.#first;
    this.#first = null;
    if (first !== null && press.timeStamp - first.at <= SEQUENCE_MS) {
      const command = this.#bindings.get(`${first.name} ${name}`);
      if (command !== undefined) return command;
    }
    const command = this.#bindings.get(name);
    if (command !== undefined) return command;
    if ([...this.#bindings.keys()].some((shortcut) => shortcut.startsWith(`${name} `))) {
      this.#first = { name, at: press.timeStamp };
    }
    return null;
  }
}

/** Letters belong to a field that one types in; combinations with Ctrl, Cmd or Alt do not. */
export function isTyping(target: EventTarget | null, press: KeyPress): boolean {
  if (press.ctrlKey || press.metaKey || press.altKey) return false;
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}
