import { brand } from '../../../brand.ts'
import { canonicalJson } from '../../../protocol/json/canonical-json.ts'
import { parseCheckpoint, parseLogProof } from '../../../protocol/log/checkpoint.ts'
import { parseNote } from '../../../protocol/log/note.ts'
import type { Growth } from '../../../protocol/verify/growth.ts'
import type { AuditChain } from '../../../protocol/wire/admin/audit.ts'
import type { AuditExport, AuditPart } from '../../../protocol/wire/admin/audit-export.ts'
import type { LogInclusion } from '../../../protocol/wire/money/log.ts'
import { action } from '../../frame/action.ts'
import { CliFailure } from '../../frame/failure.ts'
import { type GatewayClient, segment } from '../../frame/gateway-client.ts'
import { growthTo } from '../proofs/growth.ts'
import { openKnownLogs } from '../proofs/known-logs.ts'

const path = '/v1/admin/audit/export'
/** As many as one file of JSON may list. */
const eventsMax = 100_000

const part = async (gateway: GatewayClient, query: string): Promise<AuditPart | null> =>
  (await gateway.admin<AuditExport>({ path: `${path}?${query}` })).chain

/** One writer's chain with all of its events; each event's facts are a text, of which a file may have more. */
async function chainOf(gateway: GatewayClient, writerId: string, room: number) {
  const first = await part(gateway, `writer_id=${segment(writerId)}&after=0`)
  if (first === null) throw new CliFailure(`The chain of writer ${writerId} has gone meanwhile.`)
  const events = [...first.events]
  for (let after = first.next_after; after !== null; ) {
    const more = await part(gateway, `writer_id=${segment(writerId)}&after=${after}`)
    events.push(...(more?.events ?? []))
    if (events.length > room) throw new CliFailure(`There are more than ${eventsMax} events. Purge old ones first.`)
    after = more?.next_after ?? null
  }
  const { next_after: _, logged, ...chain } = first
  // What was written meanwhile belongs to the next export.
  const own = events.filter((_event, at) => first.begins.seq + at < first.seq)
  return {
    ...chain,
    events: own.map(({ kind, facts, mac }) => ({ kind, facts: canonicalJson(facts), mac })),
    logged: logged === null ? null : { ...logged, log_proof: await proofOf(gateway, logged.hash) },
  }
}

const proofOf = async (gateway: GatewayClient, hash: string): Promise<string> =>
  ((await gateway.get(`/v1/public/log/proof?hash=${segment(hash)}`, false)).body as LogInclusion).log_proof

const sizeOf = (proof: string | undefined) =>
  parseCheckpoint(parseNote(parseLogProof(proof ?? '')?.note ?? '')?.text ?? '')

export const exported = action({
  about: 'Print one file with every event of the audit’s chains and their ends in the public log, for `verify audit`',
  options: {},
  run: async (_, session) => {
    const gateway = session.gateway()
    await part(gateway, '')
    const { heads } = await gateway.admin<AuditChain>({ path: '/v1/admin/audit/verify?limit=10000' })
    const chains: Awaited<ReturnType<typeof chainOf>>[] = []
    let room = eventsMax
    for (const { writer_id: writerId } of heads) {
      const chain = await chainOf(gateway, writerId, room)
      room -= chain.events.length
      chains.push(chain)
    }
    const growths = new Map<number, Growth>()
    for (const { logged } of chains) {
      const now = sizeOf(logged?.log_proof)
      if (now === null || growths.has(now.size)) continue
      growths.set(now.size, await growthTo(gateway, openKnownLogs(session.env).remembered(now.origin), now))
    }
    const [consistency, forks] = (['consistency', 'forks'] as const).map((name) =>
      [...growths.values()].flatMap((growth) => growth[name]),
    )
    session.show(true, { object: `${brand}.audit_export`, chains: chains.reverse(), consistency, forks }, () => '')
    return undefined
  },
})
