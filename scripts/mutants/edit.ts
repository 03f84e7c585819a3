/** A place in a source file where one small change breaks one rule. */
export interface Edit {
  /** Below the root of the checkout. */
  readonly file: string
  /** Counted from 1. */
  readonly line: number
  readonly lastLine: number
  /** Where the replaced text begins and ends in the file. */
  readonly start: number
  readonly end: number
  readonly was: string
  /** What may stand there instead. The first one that the compiler accepts is taken. */
  readonly texts: readonly string[]
}

/** An edit with the text that the compiler accepted. */
export interface Mutant extends Edit {
  readonly text: string
}

export function mutated(source: string, { start, end }: Edit, text: string): string {
  return source.slice(0, start) + text + source.slice(end)
}

const shownCharactersMax = 60

function shortened(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ')
  return line.length <= shownCharactersMax ? line : `${line.slice(0, shownCharactersMax)}…`
}

export function shownMutant({ file, line, was, text }: Mutant): string {
  return `${file}:${line} ${shortened(was)} → ${shortened(text)}`
}
