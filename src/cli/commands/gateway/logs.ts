import type { AdminRequest, AdminRequestList } from '../../../protocol/wire/admin/requests.ts'
import { action, type Verb } from '../../frame/action.ts'
import { follow } from '../../frame/follow.ts'
import { cellText, shortTime } from '../../frame/table.ts'
import type { Terminal } from '../../frame/terminal.ts'

/** How many requests one look at the list reads. If more end between two looks, some are not shown. */
const requestsAtOnce = 1_000
const clientLeft = 499

/** What a person asks of one line: when, what became of it, which model, how fast; the rest is at `explain`. */
function lineOf({ style }: Pick<Terminal, 'style'>, request: AdminRequest): string {
  const { status, ttft_ms: first, completion_tokens: tokens } = request
  const colour = status < 400 ? 'green' : status === clientLeft ? 'yellow' : 'red'
  const facts = [
    first === null ? null : `first token after ${first} ms`,
    tokens === null ? null : `${tokens} tokens`,
    request.tries > 1 ? `${request.tries} tries` : null,
    `${request.duration_ms} ms in all`,
    request.code,
  ].filter((fact) => fact !== null)
  const time = shortTime(request.at)?.slice('2026-11-20 '.length)
  const what = `${request.operation} ${cellText(request.model)}`
  return `${time}  ${style(colour, String(status))}  ${what.padEnd(24)}  ${facts.join(', ')}  ${style('dim', request.request_id)}`
}

export const logs: Verb = {
  name: 'logs',
  about: 'Show what the gateway has served, request by request',
  actions: action({
    about: 'Show the newest requests, oldest first: lines to read in a terminal, JSON where the output is piped',
    options: {
      follow: { kind: 'flag', short: 'f', about: 'Go on with what comes, until Ctrl-C' },
      lines: {
        kind: 'number',
        value: 'N',
        min: 0,
        max: requestsAtOnce,
        about: 'How many past requests to show first (default 20)',
      },
    },
    run: async ({ options, json }, { terminal, gateway: connected }) => {
      const gateway = connected()
      const asJson = json || !terminal.outIsTerminal
      await follow<AdminRequest>({
        read: async () => {
          const path = `/v1/admin/requests?limit=${requestsAtOnce}`
          return (await gateway.admin<AdminRequestList>({ path })).requests.toReversed()
        },
        idOf: ({ request_id }) => request_id,
        show: (request) => terminal.out(`${asJson ? JSON.stringify(request) : lineOf(terminal, request)}\n`),
        first: options.lines ?? 20,
        once: !options.follow,
      })
      return undefined
    },
  }),
}
