import type { Node } from '../../protocol/wire/admin/admin.ts'

/** One option of a command. `value` is its placeholder in the help text. */
export type OptionSpec =
  | { readonly kind: 'flag'; readonly about: string; readonly short?: string }
  | { readonly kind: 'text'; readonly value: string; readonly about: string }
  /** The option may be given several times. */
  | { readonly kind: 'texts'; readonly value: string; readonly about: string }
  | {
      readonly kind: 'number'
      readonly value: string
      readonly about: string
      readonly min: number
      readonly max: number
      /** By default only whole numbers are allowed. */
      readonly fraction?: boolean
    }
  | { readonly kind: 'choice'; readonly of: readonly string[]; readonly about: string }

export type OptionSpecs = Readonly<Record<string, OptionSpec>>

/** `rest` takes all remaining arguments, at least one. */
export interface OperandSpec {
  readonly name: string
  readonly about: string
  readonly optional?: boolean
  readonly rest?: boolean
}

/** `is`: the part of the path, or the member of the body, that it fills. */
export interface ActionOperand extends OperandSpec {
  readonly is: string
  /** A pattern, and what it asks for in words. */
  readonly form?: readonly [pattern: string, words: string]
}

/** `is`: the member of the body, where it has another name. */
export type ActionOption = OptionSpec & { readonly is?: string }

export type Cell = string | number | boolean | null | undefined

/** How an answer is shown in a terminal. */
export interface Printer {
  /** Unix ms. */
  readonly nowMs: number
  /** A name and a value per line. */
  fields(pairs: readonly (readonly [string, Cell])[]): string
  nodes(nodes: readonly Node[]): string
  /** A secret that no later answer contains. */
  once(what: string, secret: string): string
  /** To the second. */
  time(instant: string | null): string | null
}

/**
 * The command of an action. What it leaves out follows from the action: an operand for each part of the path, an
 * option for each member of the body, a line for each value of the answer. `{NODE}` stands for what was typed as NODE.
 */
export interface ActionCommand<R> {
  /** `nodes drain`. */
  readonly words: string
  readonly about: string
  readonly operands?: readonly ActionOperand[]
  /** By the name of a member of the body, with dashes. */
  readonly options?: Readonly<Record<string, ActionOption>>
  /** Asked first unless `--yes` is given. null: nothing is asked, and `--yes` is taken all the same. */
  readonly asks?: string | null
  /** The command behind which it stands in the help. Absent: behind all. */
  readonly after?: string
  readonly prints?: string | ((answer: R, print: Printer) => string)
  /** What `--json` prints beside the operands, where the route answers nothing. */
  readonly gives?: Readonly<Record<string, unknown>>
}
