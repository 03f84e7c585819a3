import type { TestGateway } from '../gateways/http-gateway.ts'

export interface AccessRow {
  readonly method?: string
  readonly path?: string
  readonly role?: string
  readonly status?: number
  readonly outcome?: string
  /** Hours before now. */
  readonly age?: number
}
export interface CommandRow {
  readonly action: string
  readonly role?: string
  readonly actor?: string
  readonly reason?: string | null
  readonly age?: number
}

let made = 0
const id = (prefix: string) => `${prefix}_${String(made++).padStart(26, '0')}`
const outcomes: Readonly<Record<number, string>> = { 2: 'success', 4: 'failed', 5: 'error' }
const outcomeOf = (status: number) =>
  status === 401 || status === 403 ? 'denied' : (outcomes[Math.floor(status / 100)] ?? 'success')
const before = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString()

/** Events as the audit would have written them, at times of one's own. */
export async function addAccess({ database: { sql } }: TestGateway, rows: readonly AccessRow[]): Promise<void> {
  for (const { method = 'GET', path = '/v1/admin/nodes', role = 'viewer', status = 200, ...rest } of rows) {
    const { age = 0.1, outcome = outcomeOf(status) } = rest
    await sql`insert into admin_access_events values (${id('evt')}, 'admin_token', ${role}, null, ${method}, ${path},
      '[]', ${status}, ${outcome}, null, null, null, ${id('req')}, ${before(age)})`
  }
}

export async function addCommands({ database: { sql } }: TestGateway, rows: readonly CommandRow[]): Promise<string[]> {
  const ids: string[] = []
  for (const { action, role = 'operator', actor = 'admin_token', reason = 'because', age = 0.1 } of rows) {
    const commandId = id('cmd')
    await sql`insert into admin_command_events (event_id, action, actor_type, actor_role, reason, metadata, created_at,
        writer_id, seq, mac, command_id)
      values (${id('evt')}, ${action}, ${actor}, ${role}, ${reason}, '{}', ${before(age)}, 'wrk_test', ${made}, '\\x00',
        ${commandId})`
    ids.push(commandId)
  }
  return ids
}
