import type { FormEvent } from "react";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { type Enabled, no, unless, YES } from "@/commands/command";
import { ActionButton } from "./ActionButton";

test("a button that cannot act says why, stays reachable by keyboard and does nothing", async () => {
  const user = userEvent.setup();
  const act = vi.fn();
  const submit = vi.fn((event: FormEvent) => event.preventDefault());
  const form = (may: Enabled = no("Your role is viewer: you can look, not act.")) => (
    <form onSubmit={submit}>
      <ActionButton type="submit" label="Attach" name="Attach notes" may={may} onClick={act} />
    </form>
  );
  const { rerender } = render(form());

  await user.tab();
  await user.keyboard("{Enter}");
  const button = screen.getByRole("button", { name: "Attach notes" });
  expect(document.activeElement).toBe(button);
  expect(button.getAttribute("aria-disabled")).toBe("true");
  expect(button.getAttribute("aria-description")).toContain("viewer");
  expect(act).not.toHaveBeenCalled();
  expect(submit).not.toHaveBeenCalled();

  rerender(form(YES));
  await user.click(button);
  expect(button.getAttribute("aria-disabled")).toBeNull();
  expect(act).toHaveBeenCalledOnce();
});

test("what held before is told before a reason of its own", () => {
  expect(unless(no("Sign in first."), "Write a note.")).toEqual(no("Sign in first."));
  expect(unless(YES, "Write a note.")).toEqual(no("Write a note."));
  expect(unless(YES, false)).toEqual(YES);
});
