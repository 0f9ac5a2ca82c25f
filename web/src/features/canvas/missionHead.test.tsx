import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test } from "vitest";
import { shownMission } from "@/projection/standing";
import { resetUi, useUi } from "@/state/ui";
import { expectAccessible } from "../../../tests/axe";
import { churn } from "../../../tests/events";
import { foldAll } from "../../../tests/fold";
import { MissionHead } from "./MissionHead";

beforeEach(() => resetUi());

/** A second goal, planned after that of `churn`. */
function two() {
  return churn()
    .add("run:later", "run.started", { loop: "mission" }, { texts: { goal: "Write a letter" } })
    .add("run:later", "mission.planned", { calls: 3 });
}

test("the goal in words, how far it is and what it cost; it opens in the inspector", async () => {
  const graph = foldAll(churn().events);
  render(<MissionHead graph={graph} mission="churn" />);

  const head = screen.getByRole("region", { name: "Mission" });
  expect(head.textContent).toContain(graph.runs.get("churn")?.goal);
  expect(head.textContent).toMatch(/\d of 2 tasks done/);
  expect(head.textContent).toContain("$");
  await expectAccessible();

  await userEvent.setup().click(screen.getByRole("button"));
  expect(useUi.getState().selection).toEqual({ kind: "mission", id: "churn" });
});

test("the newest that can go on is shown, unless another one is chosen", () => {
  expect(shownMission(foldAll(two().events), "")).toBe("later");
  expect(shownMission(foldAll(two().events), "churn")).toBe("churn");
  expect(shownMission(foldAll(two().add("run:later", "run.completed", {}).events), "")).toBe("churn");
});

test("without a goal there is no head", () => {
  render(<MissionHead graph={foldAll([])} mission="" />);
  expect(screen.queryByRole("region")).toBeNull();
});
