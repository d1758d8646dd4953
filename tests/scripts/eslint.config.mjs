import js from "@eslint/js";

const COMPUTED = "AssignmentExpression[left.type='MemberExpression'][left.object.type='ThisExpression'][left.computed=true]";

export default [
  { ignores: ["**/vendor/**"] },
  js.configs.recommended,
  {
    files: ["**/*.js"],
    languageOptions: { sourceType: "script", ecmaVersion: 2023 },
    rules: {
      "no-undef": "off", // TypeScript knows them
      "no-unused-vars": ["error", { vars: "local", args: "after-used", caughtErrors: "all" }],
      "no-restricted-syntax": ["error", { selector: COMPUTED, message: "A computed name may overwrite a method, which no check sees." }],
      "array-callback-return": "error",
      "default-case-last": "error",
      eqeqeq: "error",
      "no-constructor-return": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-loop-func": "error",
      "no-promise-executor-return": "error",
      "no-return-assign": ["error", "except-parens"],
      "no-self-compare": "error",
      "no-shadow": ["error", { hoist: "never" }],
      "no-template-curly-in-string": "error",
      "no-throw-literal": "error",
      "no-unmodified-loop-condition": "error",
      "no-unreachable-loop": "error",
      "no-use-before-define": ["error", { functions: false, classes: false, variables: false }],
      "no-useless-concat": "error",
      "no-var": "error",
      "prefer-const": ["error", { destructuring: "all" }],
      radix: "error",
    },
  },
];
