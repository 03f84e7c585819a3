import { readGiven } from '../../../protocol/verify/bundle.ts'
import { checkWord, type Verdict } from '../../../protocol/verify/trust.ts'
import { CliFailure, exitCodes, UsageFault } from '../../frame/failure.ts'
import type { Session } from '../../frame/session.ts'

/** An export of a long audit is large. */
const fileBytesMax = 256 * 1024 * 1024

async function textOf(session: Session, name: string): Promise<string> {
  if (name === '-') return (await session.terminal.readAll()).trim()
  const file = Bun.file(name)
  if (!(await file.exists())) throw new UsageFault(`The file ${name} cannot be read`)
  if (file.size > fileBytesMax) throw new UsageFault(`The file ${name} is larger than ${fileBytesMax} bytes`)
  return (await file.text()).trim()
}

/** What a file holds. Rejects with `CliFailure` for what is neither JSON nor a checkpoint. */
export async function readFile(session: Session, file: string): Promise<unknown> {
  const text = await textOf(session, file)
  const value = readGiven(text)
  if (value === undefined)
    throw new CliFailure(`${file} contains neither JSON nor a checkpoint.`, [], exitCodes.unverifiable)
  return value
}

const shout = (word: string) => (word === 'does not hold' || word === 'warning' ? word.toUpperCase() : word)

/** A verdict for people, a line for each check. */
export const verdictLines = ({ kind, subject, checks, valid }: Verdict) => [
  [kind, subject] as const,
  ...checks.map((one) => [one.name, `${shout(checkWord(one))}: ${one.detail}`] as const),
  ['Result', valid ? 'valid' : 'NOT VALID'] as const,
]
