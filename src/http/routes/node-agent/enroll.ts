import { Elysia } from 'elysia'
import type { EnrolledNode } from '../../../actors/agents/enrollment.ts'
import type { GatewayHandle } from '../../../actors/gateway-handle.ts'
import { Problem } from '../../../errors.ts'
import { agentProtocolVersion, EnrollRequest, EnrollResponse } from '../../../protocol/wire/nodes/agent.ts'
import type { HttpContext } from '../../frame/context.ts'
import { readsPlainly } from '../../frame/reads.ts'
import { refusedLogin } from '../../frame/refused-login.ts'
import { describe } from '../../frame/route-table.ts'
import { requestId } from '../../plugins/request-id.ts'
import { tunnelRoute } from '../node-tunnel.ts'

/** Wrong tokens and wrong signatures may be guesses, so they count against their address. */
const guesses: readonly string[] = ['enrollment_token_invalid', 'signature_invalid']

const tunnelUrl = (baseUrl: string) => baseUrl.replace(/^http/, 'ws') + tunnelRoute

/** What a node is told once it is one (§22, §39). */
export async function enrolledAnswer(
  gateway: GatewayHandle,
  { node, routerPublicKeys }: EnrolledNode,
): Promise<EnrollResponse> {
  const { keys } = await gateway.publicLog.keys()
  return {
    status: 'enrolled',
    protocol_version: agentProtocolVersion,
    node_id: node.nodeId,
    node_class: node.nodeClass,
    visibility: node.visibility,
    privacy_class: node.privacyClass,
    router_public_keys: [...routerPublicKeys],
    tunnel_url: tunnelUrl(gateway.baseUrl()),
    endpoint_url: node.url,
    log_keys: [...keys],
  }
}

/** Enrols a node (§22). */
export const enrollRoutes = (context: HttpContext) =>
  new Elysia().use(requestId(context)).post(
    '/v1/node-agent/enroll',
    async ({ body, exchange, status }) => {
      const { gateway } = context
      const enrolled = await gateway.enrollment.enroll(body).catch((error: unknown) => {
        const guess = error instanceof Problem && guesses.includes(error.code)
        throw guess ? refusedLogin(gateway, exchange.address, error) : error
      })
      return status(201, await enrolledAnswer(gateway, enrolled))
    },
    {
      response: { 201: EnrollResponse },
      ...readsPlainly(context, EnrollRequest),
      detail: {
        ...describe({
          summary: 'Become a node',
          description:
            'Needs a single-use token of an operator and the signature of the new identity. See docs/protocol.md, enrolment.',
          tags: ['Node agents (extension)'],
        }),
        security: [],
      },
    },
  )
