import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import type { GatewayHandle } from '../../../actors/gateway-handle.ts'
import { Problem } from '../../../errors.ts'
import { joinedMessage } from '../../../protocol/signing/join-words.ts'
import {
  JoinBegun,
  JoinRequest,
  JoinReveal,
  JoinRevealed,
  JoinState,
  joinBodyBytesMax,
} from '../../../protocol/wire/nodes/join.ts'
import type { HttpContext } from '../../frame/context.ts'
import { readsPlainly } from '../../frame/reads.ts'
import { refusedLogin } from '../../frame/refused-login.ts'
import { describe } from '../../frame/route-table.ts'
import { publicReads } from '../../plugins/rate-limit.ts'
import { enrolledAnswer } from './enroll.ts'

const path = '/v1/node-agent/join'
const one = `${path}/:join_id` as const
const params = Type.Object({ join_id: Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }) })
const text = (summary: string, description: string, empty = false) => ({
  ...describe({ summary, description, tags: ['Node agents (extension)'], empty }),
  security: [],
})

async function stateOf(gateway: GatewayHandle, joinId: string): Promise<JoinState> {
  const { joining, routerIdentity } = gateway
  const now = await joining.standing(joinId)
  if (now.state !== 'confirmed') return now
  const enrollment = await enrolledAnswer(gateway, { node: now.node, routerPublicKeys: routerIdentity.publicKeys })
  const signature = routerIdentity.signAs(now.kid, joinedMessage(joinId, enrollment))
  // The key over which the words were made was taken away meanwhile, so no answer can prove itself.
  return signature === null ? { state: 'expired' } : { state: 'confirmed', enrollment, signature_ed25519: signature }
}

/** Computers that join without a token: anybody may ask, and nothing happens until an operator has compared words (§39). */
export const joinRoutes = (context: HttpContext) =>
  new Elysia()
    .use(publicReads(context, 'own'))
    .post(
      path,
      async ({ body, exchange, status }) => {
        const { gateway } = context
        const begun = await gateway.joining
          .begin(body, gateway.hashAddress(exchange.address))
          .catch((error: unknown) => {
            const guess = error instanceof Problem && error.code === 'signature_invalid'
            throw guess ? refusedLogin(gateway, exchange.address, error) : error
          })
        return status(201, begun)
      },
      {
        response: { 201: JoinBegun },
        ...readsPlainly(context, JoinRequest, joinBodyBytesMax),
        detail: text(
          'Ask to become a node, without a token',
          'Needs the signature of the new identity and the commitment to a nonce. See docs/protocol.md, joining by six words.',
        ),
      },
    )
    .post(one, ({ body, params: { join_id: id } }) => context.gateway.joining.reveal(id, body.nonce), {
      params,
      response: { 200: JoinRevealed },
      ...readsPlainly(context, JoinReveal, joinBodyBytesMax),
      detail: text('Reveal the nonce of a join', 'The gateway reveals its own. Both sides can show the six words now.'),
    })
    .get(one, ({ params: { join_id: id } }) => stateOf(context.gateway, id), {
      params,
      response: { 200: JoinState },
      detail: text('Ask what became of a join', 'A confirmed one carries the enrolment, signed by the gateway’s key.'),
    })
    .delete(
      one,
      async ({ params: { join_id: id }, set }) => {
        await context.gateway.joining.withdraw(id)
        set.status = 204
      },
      { params, detail: text('Withdraw a join', 'The computer does not want to become a node any more.', true) },
    )
