/** What a person wishes for a goal besides its words; "" leaves it to the server. */
export interface GoalWishes {
  readonly model: string;
  /** Dollars. */
  readonly budget: string;
  /** Whether the plan's estimate is a limit too. */
  readonly atMost: boolean;
  readonly workspace: string;
  /** Images, sounds, PDFs and texts that everybody who works on it is shown. */
  readonly files: readonly File[];
}

export const NO_WISHES: GoalWishes = { model: "", budget: "", atMost: false, workspace: "", files: [] };

const DOLLARS = /^\d{1,9}(?:\.\d{1,6})?$/;

/** What is wrong with a budget, if anything. */
export function budgetMistake(budget: string): string | undefined {
  const text = budget.trim();
  if (text === "" || (DOLLARS.test(text) && Number(text) > 0)) return undefined;
  return "Write dollars, such as 2 or 0.50.";
}

/** The fields of the request; what nobody wished is left out. */
export async function wishedFields(wishes: GoalWishes): Promise<Record<string, unknown>> {
  const { model, budget, atMost, workspace, files } = wishes;
  return {
    ...(model.trim() !== "" && { model: model.trim() }),
    ...(budget.trim() !== "" && { budget_usd: budget.trim() }),
    ...(atMost && { at_most: true }),
    ...(workspace.trim() !== "" && { workspace: workspace.trim() }),
    ...(files.length > 0 && { attachments: await Promise.all(files.map(dataUrl)) }),
  };
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}

/** The wishes in a few words; "" for none. */
export function wishWords(wishes: GoalWishes): string {
  const { model, budget, atMost, workspace, files } = wishes;
  return [
    model.trim(),
    budget.trim() !== "" && `at most ${budget.trim()} USD`,
    atMost && "at most the estimate",
    workspace.trim() !== "" && `in ${workspace.trim()}`,
    files.length > 0 && `with ${files.map((file) => file.name).join(", ")}`,
  ]
    .filter(Boolean)
    .join(", ");
}
