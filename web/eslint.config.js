import jsxA11y from "eslint-plugin-jsx-a11y";
import reactHooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

// Types and format are TypeScript's and prettier's; this checks what neither sees: hooks, and who can use a control.
export default tseslint.config(
  { ignores: ["src/client/schema.d.ts", "node_modules"] },
  { linterOptions: { reportUnusedDisableDirectives: "error" } },
  {
    files: ["src/**/*.{ts,tsx}", "tests/**/*.{ts,tsx}"],
    extends: [tseslint.configs.base, jsxA11y.flatConfigs.recommended],
    plugins: { "react-hooks": reactHooks },
    // The other rules of this plugin run the React Compiler over every component, which is not used here.
    rules: {
      "react-hooks/rules-of-hooks": "error",
      "react-hooks/exhaustive-deps": "error",
      // What scrolls must be reached by keyboard; axe looks for that in the browser.
      "jsx-a11y/no-noninteractive-tabindex": "off",
      // A field that appears because somebody asked for it gets the focus: it goes where the eye goes.
      "jsx-a11y/no-autofocus": "off",
    },
  },
);
