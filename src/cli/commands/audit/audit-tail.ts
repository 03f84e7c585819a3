import type {
  AccessEvent,
  AccessEventList,
  ApprovalEvent,
  ApprovalEventList,
  CommandEvent,
  CommandEventList,
} from '../../../protocol/wire/admin/audit.ts'
import type { Actors } from '../../../protocol/wire/admin/operators.ts'
import { action } from '../../frame/action.ts'
import { follow } from '../../frame/follow.ts'
import type { GatewayClient } from '../../frame/gateway-client.ts'
import { cellText, shortTime } from '../../frame/table.ts'
import type { Terminal } from '../../frame/terminal.ts'

/** `actor`: who acted; undefined: nobody whom the gateway knows. */
type Line = { readonly actor: Actors[number] | undefined } & (
  | { readonly kind: 'access'; readonly event: AccessEvent }
  | { readonly kind: 'approval'; readonly event: ApprovalEvent }
  | { readonly kind: 'command'; readonly event: CommandEvent }
)

const kinds = ['access', 'approval', 'command'] as const
/** How many events one look at a list reads. If more happen within two seconds, some are not shown. */
const eventsAtOnce = 1_000
/** The reads of this command itself. If they were shown, the output would never end. */
const ownReads = /^\/v1\/admin\/(?:access|approval|command)-events$/

/** Each event with who acted. A gateway of an earlier version tells no actors. */
function withActors<E extends { readonly event_id: string }>({
  events,
  actors = [],
}: {
  readonly events: readonly E[]
  readonly actors?: Actors
}): readonly (readonly [E, Actors[number] | undefined])[] {
  const byEvent = new Map(actors.map((actor) => [actor.event_id, actor]))
  return events.map((event) => [event, byEvent.get(event.event_id)])
}

async function read(gateway: GatewayClient, only: Line['kind'] | undefined, query: string): Promise<readonly Line[]> {
  const wanted = (kind: Line['kind']) => only === undefined || only === kind
  const list = <T>(kind: Line['kind']) => gateway.admin<T>({ path: `/v1/admin/${kind}-events?${query}` })
  const lines: Line[] = []
  if (wanted('access')) {
    const answer = await list<AccessEventList>('access')
    for (const [event, actor] of withActors(answer)) {
      if (!ownReads.test(event.path_template)) lines.push({ kind: 'access', event, actor })
    }
  }
  if (wanted('approval')) {
    const answer = await list<ApprovalEventList>('approval')
    for (const [event, actor] of withActors(answer)) lines.push({ kind: 'approval', event, actor })
  }
  if (wanted('command')) {
    const answer = await list<CommandEventList>('command')
    for (const [event, actor] of withActors(answer)) lines.push({ kind: 'command', event, actor })
  }
  return lines.sort((a, b) => order(a).localeCompare(order(b)))
}

const order = ({ event }: Line) => `${event.created_at} ${event.event_id}`

/** A role is one of the administration's, so an actor without one is shown by its type. */
function actorOf({ event: { actor_type: type, actor_role: role }, actor }: Line): string {
  if (type !== 'admin_token') return type
  const who = actor?.actor_name ?? actor?.actor_hash_prefix
  const seconded = actor?.approver_name ?? actor?.approver_hash_prefix
  return `${role}${who == null ? '' : ` ${cellText(who)}`}${seconded == null ? '' : ` with ${cellText(seconded)}`}`
}

function textOf({ style }: Pick<Terminal, 'style'>, line: Line): string {
  const { kind, event } = line
  const head = `${shortTime(event.created_at)}  ${style('dim', kind.padEnd(8))}  ${actorOf(line).padEnd(20)}`
  if (kind === 'access') {
    const bad = event.status_code >= 400
    const status = style(bad ? 'red' : 'green', String(event.status_code))
    return `${head}  ${status}  ${event.method} ${cellText(event.path_template)}  ${event.error_code ?? ''}`.trimEnd()
  }
  const what = kind === 'approval' ? `${event.target_type} ${cellText(event.target_id)}` : event.command_id
  const reason = event.reason === null ? style('yellow', 'no reason') : cellText(event.reason)
  return `${head}  ${style('bold', event.action)}  ${what}  ${reason}`
}

export const tail = action({
  about: 'Follow the audit events until Ctrl-C. Reads of the audit lists themselves are left out',
  options: {
    only: { kind: 'choice', of: kinds, about: 'Show only this kind of event' },
    by: {
      kind: 'text',
      value: 'PERSON',
      about: 'Show only what this person did or agreed to: her name, or her hash prefix',
    },
    lines: {
      kind: 'number',
      value: 'N',
      min: 0,
      max: eventsAtOnce,
      about: 'How many past events to show first (default 10)',
    },
    once: { kind: 'flag', about: 'Show past events only and end' },
  },
  run: async ({ options, json }, session) => {
    const gateway = session.gateway()
    const show = (line: Line) =>
      session.terminal.out(
        `${json ? JSON.stringify({ kind: line.kind, ...line.event, actor: line.actor ?? null }) : textOf(session.terminal, line)}\n`,
      )
    const by = options.by === undefined ? {} : { actor: options.by }
    const query = new URLSearchParams({ limit: String(eventsAtOnce), ...by }).toString()
    await follow({
      read: () => read(gateway, options.only, query),
      idOf: ({ event }) => event.event_id,
      show,
      first: options.lines ?? 10,
      once: options.once,
    })
    return undefined
  },
})
