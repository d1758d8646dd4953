/* What the report's scripts may take for granted on their own page. */

/* The layout of graphs (assets/vendor). */
declare const dagre: any;

/* The glossary: names of one thing, and what it is. */
declare const GLOSSARY: [string[], string][];

/* What a selector finds, and what an event happens to, is an HTML element; of which kind, the end of the selector says. */
interface ParentNode {
  querySelectorAll(selectors: "select"): NodeListOf<HTMLSelectElement>;
  querySelector(selectors: `[name=${string}`): HTMLInputElement | null;
  querySelector(selectors: string): HTMLElement | null;
  querySelectorAll(selectors: `${string} a`): NodeListOf<HTMLAnchorElement>;
  querySelectorAll(selectors: string): NodeListOf<HTMLElement>;
}
interface Element {
  closest(selectors: string): HTMLElement | null;
}
interface EventTarget {
  closest(selectors: string): HTMLElement | null;
  matches: any; // (selectors: string) => boolean; of a media query, boolean
}
interface Document {
  getElementById(id: "keys" | "capture"): HTMLDialogElement;
  getElementById(id: "filter" | "op"): HTMLInputElement;
  getElementById(id: "program"): HTMLSelectElement;
  getElementById(id: "program-text"): HTMLDetailsElement;
  getElementById(id: string): HTMLElement | null;
  readonly activeElement: HTMLElement | null;
}
interface Window {
  outpaceSorts?: boolean; // a notebook's pages bring their script each
}
