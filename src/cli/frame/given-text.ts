import { UsageFault } from './failure.ts'
import type { Session } from './session.ts'

const fileBytesMax = 1024 * 1024

/**
 * The value of an option that may be long or secret: `@file` is read from that file, `-` from standard input, anything
 * else is the value itself.
 */
export async function givenText(session: Session, option: string, value: string): Promise<string> {
  if (value === '-') return (await session.terminal.readAll()).trim()
  if (!value.startsWith('@')) return value
  const file = Bun.file(value.slice(1))
  if (!(await file.exists())) throw new UsageFault(`--${option}: the file ${value.slice(1)} cannot be read`)
  if (file.size > fileBytesMax)
    throw new UsageFault(`--${option}: the file ${value.slice(1)} is larger than ${fileBytesMax} bytes`)
  return (await file.text()).trim()
}

export const givenTextForm = '`@file` reads a file, `-` reads standard input'
