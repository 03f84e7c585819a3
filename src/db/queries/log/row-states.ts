import { sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import type { AuditMetadata } from '../../schema/partitioned/audit-events.ts'

/** What an event says of its target, so that a row which changes without an event is found (§36). */
export type RecordedState = Pick<AuditMetadata, 'state' | 'prices'>

const millis = (column: string) => `floor(extract(epoch from ${column}) * 1000)::bigint`
const hashed = (json: string) => `encode(sha256(convert_to((${json})::text, 'UTF8')), 'hex')`

/**
 * Of a customer with its keys, whose row is `c`. Hashes of tokens are in it, so that nobody can try guesses against it. Balances are
 * the ledger's affair, and secrets are sealed anew in a rotation.
 */
const accountState = hashed(`json_build_array(c.customer_id, c.display_name, c.account_status, c.gateway_policy,
  encode(c.token_hash, 'hex'), (select json_agg(json_build_array(k.key_id, encode(k.key_hash, 'hex'), k.name, k.node_scope,
    k.model_policy, ${millis('k.expires_at')}, ${millis('k.revoked_at')}) order by k.key_id)
  from gateway_keys k where k.customer_id = c.customer_id))`)

const catalogueState = hashed(`select coalesce(json_agg(json_build_array(m.model_id, m.aliases,
  m.prompt_token_price_wei::text, m.completion_token_price_wei::text) order by m.model_id), '[]') from model_entries m`)

/**
 * Of a node, row `n` or `d`: whose it is, and where its earnings go, those of former owners too. An agent that is there says so itself
 * (`payee_statements`).
 */
const payeeState = (row: 'n' | 'd') => {
  const own = `${row}.node_id, ${row}.customer_id, lower(${row}.payout_address)`
  const former = `${row}.former_payees`
  return hashed(
    `case when ${former} is null then json_build_array(${own}) else json_build_array(${own}, ${former}) end`,
  )
}
const nodeState = payeeState('n')
/** Of a node that was deleted, whose kept row is `d` (docs/decisions/0069). */
const deletedState = payeeState('d')

/** Of a named role token, row `a`: its last use is no change. `reset-admin` revokes without an event. */
const adminState = hashed(
  `json_build_array(a.admin_id, a.name, a.role, encode(a.token_hash, 'hex'), a.revoked_at is null)`,
)

/** A wait for other transactions about the same subject, until this one ends: the later event says what both have made. */
export const lockSubject = (tx: Database, subject: string) =>
  tx.execute(sql`select pg_advisory_xact_lock(7414, hashtext(${subject}))`)

/** The subject of all entries together. */
export const catalogue = 'catalogue'

async function stateOfAccount(tx: Database, customerId: string): Promise<RecordedState> {
  await lockSubject(tx, customerId)
  const [row] = await tx.execute<{ state: string }>(
    sql`select ${sql.raw(accountState)} as state from customers c where c.customer_id = ${customerId}`,
  )
  return row === undefined ? {} : { state: row.state }
}

async function stateOfCatalogue(tx: Database, modelId: string): Promise<RecordedState> {
  await lockSubject(tx, catalogue)
  const [row] = await tx.execute<{ state: string; prompt: string | null; completion: string | null }>(sql`
    select ${sql.raw(catalogueState)} as state, p.prompt_token_price_wei::text as prompt,
      p.completion_token_price_wei::text as completion
    from (select 1) one left join model_entries p on p.model_id = ${modelId}`)
  return row === undefined ? {} : { state: row.state, prices: [row.prompt ?? '0', row.completion ?? '0'] }
}

async function stateOfNode(tx: Database, nodeId: string): Promise<RecordedState> {
  await lockSubject(tx, nodeId)
  const [row] = await tx.execute<{ state: string | null }>(sql`
    select case when n.kind = 'runtime' then ${sql.raw(nodeState)} when n.node_id is null then ${sql.raw(deletedState)} end as state
    from (select ${nodeId}::text as id) q left join nodes n on n.node_id = q.id left join deleted_nodes d on d.node_id = q.id`)
  return row?.state == null ? {} : { state: row.state }
}

async function stateOfAdmin(tx: Database, adminId: string): Promise<RecordedState> {
  await lockSubject(tx, adminId)
  const [row] = await tx.execute<{ state: string }>(
    sql`select ${sql.raw(adminState)} as state from admins a where a.admin_id = ${adminId}`,
  )
  return row === undefined ? {} : { state: row.state }
}

/**
 * What changes nothing that a state is made of: credits, exports, logs that were read, commands to nodes, of which the gateway gives
 * some by itself. The event of one would say of a row that somebody has changed by hand that it is as it should be.
 */
export const unchanging: readonly string[] = [
  ...['customer.credit.create', 'customer.debit.create', 'customer.usage.export', 'customer.invoice.export'],
  ...['customer.webhook_secret.rotate', 'node.drain', 'node.resume', 'node.revoke', 'node.sleep', 'node.wake'],
  ...['node.model.load', 'node.model.unload', 'node.model.logs', 'node.model.copy', 'node.pull', 'node.pull.cancel'],
]
const changes = `e.action not in (${unchanging.map((action) => `'${action}'`).join(', ')})`

/** In the transaction of an action, after its change. `type`: of the target, as the approval policy has it. */
export async function recordedState(
  tx: Database,
  action: string,
  type: string | null,
  targetId: string | null,
): Promise<RecordedState> {
  if (targetId === null || unchanging.includes(action)) return {}
  if (type === 'customer') return stateOfAccount(tx, targetId)
  if (type === 'model') return stateOfCatalogue(tx, targetId)
  if (type === 'node') return stateOfNode(tx, targetId)
  if (type === 'admin') return stateOfAdmin(tx, targetId)
  if (type !== 'gateway_key') return {}
  const [key] = await tx.execute<{ id: string }>(
    sql`select customer_id as id from gateway_keys where key_id = ${targetId}`,
  )
  return key === undefined ? {} : stateOfAccount(tx, key.id)
}

/** Clocks of gateways differ: of events of two so close to each other either may be the later one. */
export const togetherWithin = `interval '1 minute'`
/** Of an event without a state a version before knows why; it explains what stands there. */
const fits = (state: string) => `(l.state is null or l.state = ${state})`

/** When an admin has vouched for all rows that no event had named; null: none has, or a purge took that event. */
const allNamedAt = `(select max(created_at) from admin_approval_events where action = 'audit.rows.name' and metadata->>'result' = 'all_named')`

/** A purge that took events left the ends of their chains, which the audit's key has signed. */
export const wasPurged = 'exists (select 1 from audit_tombstones t where t.run_id = p.run_id)'

/**
 * Rows of after this moment have their event: since the first event with a state, or always once an admin has vouched for what was
 * there before, except that a purge since then took the events of before its cutoff. A minute lies between the two clocks.
 */
const since = `since as (select case when named.at is not null then coalesce(purged.cutoff + ${togetherWithin}, '-infinity')
    else greatest(states.at, purged.cutoff) + ${togetherWithin} end as at
  from (select ${allNamedAt} as at) named,
    (select min(created_at) as at from admin_approval_events where metadata ? 'state') states,
    (select max(p.cutoff) as cutoff from audit_purge_runs p where p.started_at > coalesce(${allNamedAt}, '-infinity')
      and ${wasPurged}) purged)`

/** Each writer's last event of a subject: it has made the ones before in turn. */
export const lastEvents = (subject: string, from: string) => `
    select distinct on (${subject}, e.writer_id) ${subject} as subject, e.created_at, e.metadata->>'state' as state
    from admin_approval_events e ${from} and ${changes} order by ${subject}, e.writer_id, e.seq desc`
export const eventsOf = (
  type: 'node' | 'admin',
) => `events as (${lastEvents('e.target_id', `where e.target_type = '${type}'`)}),
  newest as (select subject, max(created_at) as at from events group by subject)`

export const accountEvents = `events as (${lastEvents(
  'coalesce(k.customer_id, e.target_id)',
  `left join gateway_keys k on e.target_type = 'gateway_key' and k.key_id = e.target_id
    where e.target_type in ('customer', 'gateway_key') and e.target_id is not null`,
)}),
  newest as (select subject, max(created_at) as at from events group by subject)`

/** Statements that name what no event has made as it is. */
export const stateRules = {
  'every customer and its keys are as their last event made them': `
    with ${since}, ${accountEvents}
    select c.customer_id as subject from customers c cross join since left join newest n on n.subject = c.customer_id
    where case when n.at is null then c.created_at > since.at
      else not exists (select 1 from events l where l.subject = c.customer_id and l.created_at > n.at - ${togetherWithin}
        and ${fits(accountState)}) end`,
  // All that was kept of deleted nodes is named when an admin has vouched: an event of before that says nothing explains nothing of it any more. What is
  // kept counts for no node that is there because an operator has written it back.
  'every node without an agent is paid as its last event says': `
    with ${eventsOf('node')}
    select n.node_id as subject from nodes n join newest w on w.subject = n.node_id
    where n.kind = 'runtime' and not exists (select 1 from events l where l.subject = n.node_id
      and l.created_at > w.at - ${togetherWithin} and ${fits(nodeState)})
    union all
    select d.node_id from deleted_nodes d join newest w on w.subject = d.node_id
    where not exists (select 1 from nodes n where n.node_id = d.node_id) and not exists (select 1 from events l where l.subject = d.node_id
      and l.created_at > w.at - ${togetherWithin} and ${fits(deletedState)}
      and (l.state is not null or l.created_at > coalesce(${allNamedAt}, '-infinity') - ${togetherWithin}))`,
  'the catalogue is as its last event made it': `
    with events as (${lastEvents(`'model_entries'::text`, `where e.target_type = 'model'`)}),
      newest as (select max(created_at) as at from events)
    select 'model_entries' as subject from newest n
    where n.at is not null and not exists (select 1 from events l
      where l.created_at > n.at - ${togetherWithin} and ${fits(catalogueState)})`,
  'every named token is as its last event made it': `
    with ${since}, ${eventsOf('admin')}
    select a.admin_id as subject from admins a cross join since left join newest w on w.subject = a.admin_id
    where a.revoked_at is null and case when w.at is null then a.created_at > since.at
      else not exists (select 1 from events l where l.subject = a.admin_id and l.created_at > w.at - ${togetherWithin}
        and ${fits(adminState)}) end`,
} as const
