/** `openai has a key; none for anthropic, groq`: which providers of models can be called. */
export function keyWords(models: Readonly<Record<string, boolean>>): string {
  const names = Object.keys(models).sort();
  const held = names.filter((name) => models[name] === true);
  const missing = names.filter((name) => models[name] !== true);
  const first =
    held.length === 0
      ? "no provider has a key"
      : `${held.join(", ")} ${held.length === 1 ? "has" : "have"} a key`;
  return held.length === 0 || missing.length === 0 ? first : `${first}; none for ${missing.join(", ")}`;
}
