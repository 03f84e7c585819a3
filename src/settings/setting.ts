/** One environment variable: its default, its range and what it means. */
export type Setting =
  | { readonly kind: 'text'; readonly default: string | null; readonly meaning: string }
  | { readonly kind: 'secret'; readonly meaning: string }
  | { readonly kind: 'list'; readonly meaning: string }
  | { readonly kind: 'flag'; readonly default: boolean; readonly meaning: string }
  /** A whole amount, read as bigint. */
  | { readonly kind: 'wei'; readonly default: bigint; readonly meaning: string }
  | { readonly kind: 'choice'; readonly default: string; readonly of: readonly string[]; readonly meaning: string }
  | {
      readonly kind: 'number'
      readonly default: number
      readonly min: number
      readonly max: number
      readonly meaning: string
    }
