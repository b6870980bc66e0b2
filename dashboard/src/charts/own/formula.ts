// Arithmetic over metrics: `loss - val_loss`, `log10(learning_rate)`. A recursive descent over the tokens makes a
// function of the values. Pure.
//
//     sum     = product {("+" | "-") product}
//     product = signed {("*" | "/") signed}
//     signed  = "-" signed | power
//     power   = atom ["^" signed]
//     atom    = number | name | "name" | function "(" sum {"," sum} ")" | "(" sum ")"

/** A value, given those of the metrics by name. */
type Value = (of: (name: string) => number) => number;

export interface Formula {
  readonly text: string;
  /** The metrics in it. */
  readonly names: readonly string[];
  readonly value: Value;
}

/** A text that is no formula. The message says what is wrong, and where. */
export class FormulaError extends Error {}

const FUNCTIONS: Readonly<Record<string, (...values: number[]) => number>> = {
  log: Math.log,
  log10: Math.log10,
  exp: Math.exp,
  sqrt: Math.sqrt,
  abs: Math.abs,
  min: Math.min,
  max: Math.max,
};

/** A number, a name (`train/loss` is one, `a / b` are two), a name in quotes, or a sign. */
const TOKEN =
  /((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)|([\p{L}_][\p{L}\p{N}_.:@]*(?:\/[\p{L}\p{N}_.:@]+)*)|"([^"]+)"|(\S)/giu;

/** Raises `FormulaError`. */
export function formulaOf(text: string): Formula {
  const reader = new Reader(text);
  return { text, value: reader.read(), names: [...reader.names] };
}

/** The formula that is a metric. */
export function formulaOfName(name: string): Formula {
  return { text: name, names: [name], value: (of) => of(name) };
}

class Reader {
  readonly names = new Set<string>();
  readonly #tokens: readonly RegExpExecArray[];
  #next = 0;

  constructor(text: string) {
    this.#tokens = [...text.matchAll(TOKEN)];
  }

  read(): Value {
    const value = this.#sum();
    if (this.#next < this.#tokens.length) throw this.#wrong("an operator is missing before");
    return value;
  }

  /** Whether the next token is this sign; then it is read. */
  #takes(sign: string): boolean {
    const isNext = this.#tokens[this.#next]?.[4] === sign;
    if (isNext) this.#next += 1;
    return isNext;
  }

  #wrong(what: string): FormulaError {
    const token = this.#tokens[this.#next];
    return new FormulaError(token ? `${what} “${token[0]}” at character ${token.index + 1}` : `${what} the end`);
  }

  #sum(): Value {
    let left = this.#product();
    for (;;) {
      if (this.#takes("+")) left = joined(left, this.#product(), (a, b) => a + b);
      else if (this.#takes("-")) left = joined(left, this.#product(), (a, b) => a - b);
      else return left;
    }
  }

  #product(): Value {
    let left = this.#signed();
    for (;;) {
      if (this.#takes("*")) left = joined(left, this.#signed(), (a, b) => a * b);
      else if (this.#takes("/")) left = joined(left, this.#signed(), (a, b) => a / b);
      else return left;
    }
  }

  #signed(): Value {
    if (!this.#takes("-")) return this.#power();
    const value = this.#signed();
    return (of) => -value(of);
  }

  #power(): Value {
    const base = this.#atom();
    return this.#takes("^") ? joined(base, this.#signed(), (a, b) => a ** b) : base;
  }

  #atom(): Value {
    if (this.#takes("(")) return this.#inside(false)[0] as Value;
    const [, digits, word, quoted] = this.#tokens[this.#next] ?? [];
    const name = word ?? quoted;
    if (digits === undefined && name === undefined) throw this.#wrong("a value is missing before");
    this.#next += 1;
    if (digits !== undefined) return () => Number(digits);
    if (word !== undefined && this.#takes("(")) return this.#call(word);
    this.names.add(name as string);
    return (of) => of(name as string);
  }

  #call(name: string): Value {
    const apply = Object.hasOwn(FUNCTIONS, name) ? FUNCTIONS[name] : undefined;
    if (apply === undefined)
      throw new FormulaError(`no function is called “${name}”; there are ${Object.keys(FUNCTIONS).join(", ")}`);
    const values = this.#inside(apply.length > 1);
    return (of) => apply(...values.map((value) => value(of)));
  }

  /** The value up to the closing parenthesis, or several. */
  #inside(isSeveral: boolean): Value[] {
    const values = [this.#sum()];
    while (isSeveral && this.#takes(",")) values.push(this.#sum());
    if (!this.#takes(")")) throw this.#wrong("a “)” is missing before");
    return values;
  }
}

function joined(a: Value, b: Value, join: (a: number, b: number) => number): Value {
  return (of) => join(a(of), b(of));
}
