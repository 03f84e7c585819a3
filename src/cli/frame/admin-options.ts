import type { Terminal } from './terminal.ts'

/** The audit keeps the reason with the action (§16). */
export const reasonOption = { reason: { kind: 'text', value: 'TEXT', about: 'The reason, for the audit' } } as const
export const yesOption = { yes: { kind: 'flag', about: 'Do not ask for confirmation' } } as const
export const customerOption = {
  customer: { kind: 'text', value: 'ID', about: 'The customer (default: the one in the credentials file)' },
} as const

export const reasonBody = (reason: string | undefined) => (reason === undefined ? {} : { reason })

/** A secret that no later answer contains. */
export function shownOnce(terminal: Terminal, what: string, secret: string): string {
  return `\n${what}:\n\n  ${terminal.style('bold', secret)}\n\nIt is shown only this once. Keep it where you keep passwords.\n`
}
