import { useEffect } from "react";
import { isTyping } from "@/commands/keyboard";
import { keyboard, runCommand } from "@/commands/registry";

/** Listens for the shortcuts of all commands, everywhere but in fields that one types in. */
export function useShortcuts(): void {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.repeat || event.isComposing || isTyping(event.target, event))
        return;
      const isModal = document.querySelector("[aria-modal=true]") !== null;
      const command = keyboard.press(event);
      if (command === null || (isModal && command !== "palette.open")) return;
      event.preventDefault();
      void runCommand(command);
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, []);
}
