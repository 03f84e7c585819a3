import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { Role } from '../../actors/accounts/access.ts'
import { type OwnPart, ownPartPath } from '../../actors/siblings/siblings.ts'
import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import type { HttpContext } from '../frame/context.ts'
import { requestId } from '../plugins/request-id.ts'
import { ownExplanation, ownMixtures, ownTransitions } from '../views/own.ts'
import { ownRequests } from '../views/own-requests.ts'

type PartQuery = Readonly<Record<string, string>>

/** How this process answers for itself; what it knows comes in the shape that its own caller would see. */
const partsOf = ({ gateway }: HttpContext): Readonly<Record<OwnPart, (asked: PartQuery) => unknown>> => ({
  metrics: async () => ({ index: gateway.siblings.index, text: await gateway.metrics.text() }),
  explain: ({ request_id = '', role }) => [ownExplanation(gateway, request_id, role as Role) ?? []].flat(),
  mixtures: ({ limit, role }) => ownMixtures(gateway, Number(limit), role as Role),
  transitions: ({ machine = '', id = '', limit }) =>
    ownTransitions(gateway, machine, id === '' ? null : id, Number(limit)),
  loads: () => gateway.own.loads(),
  moved: ({ since }) => gateway.own.moved(Number(since)),
  totals: () => gateway.own.totals(),
  consoles: ({ token = '' }) => gateway.consoleSeats.counts(token),
  demands: () => gateway.demands.sums(),
  requests: (asked) => ownRequests(gateway, asked),
  readings: () => gateway.own.readings(),
  polls: ({ since }) => gateway.own.polls(Number(since)),
})

/** Between the processes of one gateway (§33): at their own door alone. */
export const ownPartRoutes = (context: HttpContext) => {
  const parts = partsOf(context)
  return new Elysia().use(requestId(context)).get(
    `${ownPartPath}:part`,
    async ({ params, query, request }) => {
      const { pathname, search } = new URL(request.url)
      if (!context.gateway.siblings.admits(request.headers.get(headers.peerProof), pathname + search)) {
        throw new Problem('invalid_credentials')
      }
      const answer = Object.hasOwn(parts, params.part) ? await parts[params.part as OwnPart](query) : null
      if (answer === null) throw new Problem('route_not_found')
      return Response.json(answer)
    },
    { params: Type.Object({ part: Type.String() }), query: Type.Record(Type.String(), Type.String()) },
  )
}
