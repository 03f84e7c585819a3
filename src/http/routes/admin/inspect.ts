import { Elysia } from 'elysia'
import { headers } from '../../../brand.ts'
import { Problem } from '../../../errors.ts'
import { eventStreamHeaders } from '../../../protocol/chat/sse.ts'
import type { HttpContext } from '../../frame/context.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'

/** The time that a dropped console gets to read the rest, s. */
const droppedSeconds = 10

const stopping = () => new Problem('service_unavailable', { detail: 'The gateway is stopping', retryAfterSeconds: 5 })

/** What moves, as it moves: statecharts, pool and traffic on one stream (§23). */
export const inspectRoutes = (context: HttpContext) =>
  new Elysia().use(admin(context)).get(
    '/v1/admin/inspect',
    async ({ actor: { role, caller }, exchange, request }) => {
      const { callers, consoles, consoleSeats } = context.gateway
      const ended = await consoleSeats.take({ role, token: exchange.actorHash ?? '' })
      // Heartbeats come often enough for the clock of every answer.
      const dropped = () => context.connections.rest(request, droppedSeconds)
      const isGone = () => callers.isGone(caller)
      // A console that left meanwhile would never say that its stream has ended.
      const stream = request.signal.aborted ? null : consoles.open({ role, name: caller.name, isGone, dropped, ended })
      if (stream === null) {
        ended()
        throw stopping()
      }
      return new Response(stream, {
        headers: { ...context.base, ...eventStreamHeaders, [headers.requestId]: exchange.requestId },
      })
    },
    {
      action: 'machine.inspect',
      detail: describe({
        summary: 'Follow the statecharts, the pool and the traffic',
        description:
          'Server-sent events: `hello` and `snapshot` first, then `transitions` (at most every 100 ms), `pool` (every second where something changed), `traffic` (every 5 s) and a comment every 10 s. Types, states, ids and times, never content. The last event is `end`, with `reason` `slow_client`, `shutdown`, or `signed_out` where the caller’s session or token has ended. 429 `concurrency_limited` when the token has 8 open; 503 when too many are open in all, 8 of which are kept for admins.',
        tags: ['Statecharts (extension)'],
        mediaType: 'text/event-stream',
      }),
    },
  )
