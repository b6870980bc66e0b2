// Colours for the text of a program: comments, words and names in quotes, keywords. Pure; used by `file_text.tsx`.

const LIGHTED = /\.(pyi?|ipynb|json|toml|ya?ml|sh|cfg|ini)$/;
const LONGEST = 100_000; // characters; a longer text stays plain

// Groups: a comment, a text in quotes, a keyword.
const TOKENS =
  /(#.*)|("""[\s\S]*?"""|'''[\s\S]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|\b(and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|match|None|not|or|pass|raise|return|self|True|False|try|while|with|yield|true|false|null)\b/g;

export const KINDS = ["comment", "quote", "keyword"] as const;

/** The pieces of a text, each with its kind; null: plain. */
export function tokensOf(path: string, text: string): [piece: string, kind: (typeof KINDS)[number] | null][] {
  if (!LIGHTED.test(path) || text.length > LONGEST) return [[text, null]];
  // A split with groups gives the text before a match, then its groups, of which one has matched.
  return text.split(TOKENS).map((piece, index) => [piece ?? "", KINDS[(index % 4) - 1] ?? null]);
}
