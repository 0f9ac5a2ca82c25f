import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { expectAccessible } from "../../tests/axe";
import { areaOf, at, type ChartSeries, ticksOf } from "./chart";
import { LineChart } from "./LineChart";

const LINE: ChartSeries = {
  id: "a",
  label: "Gini",
  tone: "money",
  points: [
    [1, 0.1],
    [2, 0.3],
    [4, 0.2],
  ],
};

test("axes hold all points, and their marks are round", () => {
  expect(areaOf([LINE], 0)).toEqual({ x0: 1, x1: 4, y0: 0, y1: 0.3 });
  expect(areaOf([{ ...LINE, points: [[1, 162]] }], 0)?.y1).toBe(200);
  expect(areaOf([{ ...LINE, points: [] }])).toBeNull();
  expect(areaOf([{ ...LINE, points: [[3, 7]] }])).toEqual({ x0: 3, x1: 3, y0: 7, y1: 8 });
  expect(ticksOf(0, 0.3)).toEqual([0, 0.1, 0.2, 0.3]);
  expect(ticksOf(0, 162)).toEqual([0, 50, 100, 150]);
  expect(at(LINE, 3)).toBe(0.3);
  expect(at(LINE, 0)).toBeUndefined();
});

test("the arrow keys read the values at each place in words", async () => {
  render(<LineChart label="Inequality" xName="tick" series={[LINE]} />);
  const chart = screen.getByRole("slider", { name: "Inequality" });
  expect(chart.getAttribute("aria-valuetext")).toBe("tick 4: Gini 0.2");
  chart.focus();
  await userEvent.keyboard("{Home}");
  expect(chart.getAttribute("aria-valuetext")).toBe("tick 1: Gini 0.1");
  await userEvent.keyboard("{ArrowRight}");
  expect(chart.getAttribute("aria-valuetext")).toBe("tick 2: Gini 0.3");
  await expectAccessible();
});

test("without data the chart says so", () => {
  render(<LineChart label="Inequality" xName="tick" series={[]} />);
  expect(screen.getByText(/nothing to draw yet/)).toBeTruthy();
});
