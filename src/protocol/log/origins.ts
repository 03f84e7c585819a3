import { brand } from '../../brand.ts'

/** The name without its number, and its number: 1 of a log that was never forked. */
function partsOf(origin: string) {
  const [, base = '', number = '1'] = /^(.*?)(?:\/([0-9]+))?$/.exec(origin.replace(`${brand}-log/`, '')) ?? []
  return { base, number: Number(number) }
}

/** What a log's names have in common, however often it was forked. */
export const lineageOf = (origin: string): string => partsOf(origin).base

/** Whether a log begins under this name. A named fork never gives it such a one. */
export const isFirst = (origin: string): boolean => partsOf(origin).number === 1

/** Whether the log had the one name before the other: a database that says so was put back to before a named fork. */
export function isEarlier(origin: string, than: string): boolean {
  const [one, other] = [partsOf(origin), partsOf(than)]
  return one.base === other.base && one.number < other.number
}

/** The name under which a log goes on after a fork, `…/2`, `…/3`: never one that it had before, here or in what was lost. */
export function nextOrigin(origin: string, lost: string): string {
  const { base, number } = partsOf(isEarlier(origin, lost) ? lost : origin)
  return `${brand}-log/${base}/${number + 1}`
}
