import { readFileSync, statSync } from 'node:fs'
import { CliFailure } from '../../frame/failure.ts'

export interface VariablesFile {
  readonly variables: Readonly<Record<string, string>>
  /** What to tell its owner; null: nothing. */
  readonly note: string | null
}

const bytesMax = 64 * 1_024
const othersMayRead = 0o077

const unquoted = (text: string) => /^(["'])(.*)\1$/s.exec(text)?.[2] ?? text

/** The file with the variables of a service: NAME=value a line, `#` for comments. Throws `CliFailure`, without any value. */
export function readVariablesFile(path: string): VariablesFile {
  let text: string
  let mode: number
  try {
    const facts = statSync(path)
    if (facts.size > bytesMax) throw new CliFailure(`${path} has more than ${bytesMax / 1_024} KiB.`)
    mode = facts.mode
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof CliFailure) throw error
    const { code } = error as { readonly code?: string }
    if (code === 'ENOENT' || code === 'ENOTDIR') return { variables: {}, note: null }
    throw new CliFailure(`${path} cannot be read (${code}).`)
  }
  const lines = text.split('\n').map((line) => line.trim())
  const pairs = lines.flatMap((line, at) => {
    if (line === '' || line.startsWith('#') || line.startsWith(';')) return []
    const [, name = '', value = ''] = /^([A-Za-z_][A-Za-z0-9_]*)=(.*)$/.exec(line) ?? []
    if (name === '') throw new CliFailure(`${path}, line ${at + 1}: each line must be NAME=value.`)
    return [[name, unquoted(value)] as const]
  })
  const open = process.platform !== 'win32' && (mode & othersMayRead) !== 0
  return {
    variables: Object.fromEntries(pairs),
    note: open ? `Others on this computer can read ${path}. Close it: chmod 600 ${path}` : null,
  }
}
