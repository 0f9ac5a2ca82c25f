const IS_MAC = typeof navigator !== "undefined" && /Mac|iP(hone|ad)/.test(navigator.userAgent);

/** `mod+k` as this machine's keyboard names it. */
export function shownKeys(keys: string): string {
  return keys
    .split("+")
    .map((key) => {
      if (key === "mod") return IS_MAC ? "⌘" : "Ctrl";
      if (key === "alt") return IS_MAC ? "⌥" : "Alt";
      if (key === "shift") return "⇧";
      return key.length === 1 ? key.toUpperCase() : key;
    })
    .join(IS_MAC ? "" : "+");
}

export function Kbd({ keys }: { readonly keys: string }) {
  return (
    <kbd className="rounded-[4px] border border-line px-1.25 font-mono text-11 text-ink-3">
      {keys.split(" ").map(shownKeys).join(" ")}
    </kbd>
  );
}
