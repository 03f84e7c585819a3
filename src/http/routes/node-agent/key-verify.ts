import { Elysia } from 'elysia'
import { adminBodyBytesMax, checkBody, readJsonText } from '../../../protocol/json/json-body.ts'
import { keyVerifyMessage } from '../../../protocol/signing/signatures.ts'
import { KeyVerifyRequest, KeyVerifyResponse } from '../../../protocol/wire/nodes/agent.ts'
import type { HttpContext } from '../../frame/context.ts'
import { readsBy } from '../../frame/reads.ts'
import { describe } from '../../frame/route-table.ts'
import { requestId } from '../../plugins/request-id.ts'
import { nodeProofSecurity, proofOf, provedBy } from './node-proof.ts'

/** The proof is of the bytes as sent, and is looked at before what they say. */
async function readSigned({ connections }: HttpContext, request: Request) {
  const text = await connections.body(request, readJsonText(request, adminBodyBytesMax))
  const proof = proofOf(request, (nodeId, timestamp, nonce) => keyVerifyMessage(nodeId, timestamp, nonce, text))
  return { proof, asked: checkBody(text, KeyVerifyRequest) }
}

/** A node asks whether a gateway key that it was shown may use it (§12, credential 4). */
export const keyVerifyRoutes = (context: HttpContext) =>
  new Elysia().use(requestId(context)).post(
    '/v1/node-agent/keys/verify',
    async ({ body: { proof, asked }, exchange }) => {
      const { gateway } = context
      const verifying = gateway.verifyNodeKey(proof, asked.gateway_key, asked.model)
      return { valid: await provedBy(gateway, exchange.address, verifying) }
    },
    {
      response: { 200: KeyVerifyResponse },
      ...readsBy(KeyVerifyRequest, ({ request }: { readonly request: Request }) => readSigned(context, request)),
      detail: {
        ...describe({
          summary: 'Ask whether a gateway key may use this node',
          description:
            'The node signs the request in four headers, see docs/protocol.md. The answer is true only for a key of the node’s owner whose node scope and model policy include the node.',
          tags: ['Node agents (extension)'],
        }),
        security: nodeProofSecurity,
      },
    },
  )
