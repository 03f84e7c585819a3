import type { OperandSpec, OptionSpecs } from '../../actions/frame/command.ts'
import type { Session } from './session.ts'

export type { OperandSpec, OptionSpec, OptionSpecs } from '../../actions/frame/command.ts'

type ValueOf<S> = S extends { kind: 'flag' }
  ? boolean
  : S extends { kind: 'number' }
    ? number | undefined
    : S extends { kind: 'texts' }
      ? readonly string[]
      : S extends { kind: 'choice'; of: readonly (infer C)[] }
        ? C | undefined
        : string | undefined

export type OptionValues<S extends OptionSpecs> = { readonly [N in keyof S]: ValueOf<S[N]> }

export interface Input<S extends OptionSpecs = OptionSpecs> {
  /** In the order of the operand specs. The values of a `rest` operand come last. */
  readonly operands: readonly string[]
  readonly options: OptionValues<S>
  readonly json: boolean
}

/** One command: `status`, or `create` of `keys create`. */
export interface Action {
  readonly about: string
  readonly operands: readonly OperandSpec[]
  readonly options: OptionSpecs
  /** Resolves with the exit code, or with undefined for 0. Rejects with `CliFailure`. */
  readonly run: (input: Input, session: Session) => Promise<number | undefined>
}

export interface Verb {
  readonly name: string
  readonly about: string
  /** One command, or several by name, such as `list` or `keys list`. `''` is the verb without a subcommand. */
  readonly actions: Action | Readonly<Record<string, Action>>
}

/** A verb by its name, whose code is imported when a command line names it. */
export interface VerbEntry {
  readonly name: string
  /** The commands that are written for it. */
  readonly load: () => Promise<Verb>
  /** These and the ones that follow from actions and lists. None of the second begins with the name of one of the first. */
  readonly whole: () => Promise<Verb>
}

/** The entry of a verb without commands that follow from something else. */
export const entryOf = (verb: Verb): VerbEntry => ({ name: verb.name, load: async () => verb, whole: async () => verb })

export const isSingle = (actions: Verb['actions']): actions is Action => typeof actions.run === 'function'

/** Gives `run` the types of its own options. */
export function action<const S extends OptionSpecs>(spec: {
  readonly about: string
  readonly operands?: readonly OperandSpec[]
  readonly options: S
  readonly run: (input: Input<S>, session: Session) => Promise<number | undefined>
}): Action {
  return { ...spec, operands: spec.operands ?? [], run: (input, session) => spec.run(input as Input<S>, session) }
}
