import { Elysia } from 'elysia'
import type { NodeProof } from '../../../actors/agents/node-proofs.ts'
import { headers } from '../../../brand.ts'
import { Problem } from '../../../errors.ts'
import { adminBodyBytesMax, checkBody, readJsonText } from '../../../protocol/json/json-body.ts'
import { isNonce, keyVerifyMessage } from '../../../protocol/signing/signatures.ts'
import { KeyVerifyRequest, KeyVerifyResponse } from '../../../protocol/wire/nodes/agent.ts'
import type { HttpContext } from '../../frame/context.ts'
import { readsBy } from '../../frame/reads.ts'
import { refusedLogin } from '../../frame/refused-login.ts'
import { describe } from '../../frame/route-table.ts'
import { requestId } from '../../plugins/request-id.ts'

const forms = {
  [headers.nodeId]: (text: string) => /^[A-Za-z0-9_-]{1,64}$/.test(text),
  [headers.nodeTimestamp]: (text: string) => /^[0-9]{1,12}$/.test(text),
  [headers.nodeNonce]: isNonce,
  [headers.nodeSignature]: (text: string) => /^[A-Za-z0-9_-]{86}={0,2}$/.test(text),
}

/** By which a node says that it is itself; `body`: the bytes as sent. */
function proofOf(request: Request, body: string): NodeProof {
  const value = (name: keyof typeof forms) => {
    const text = request.headers.get(name)
    const param = `header.${name}`
    if (text === null) throw new Problem('missing_credentials', { param })
    if (forms[name]?.(text) !== true) throw new Problem('signature_malformed', { param })
    return text
  }
  const nodeId = value(headers.nodeId)
  const timestamp = Number(value(headers.nodeTimestamp))
  const nonce = value(headers.nodeNonce)
  const signature = value(headers.nodeSignature)
  return { nodeId, timestamp, nonce, signature, message: keyVerifyMessage(nodeId, timestamp, nonce, body) }
}

/** The proof is of the bytes as sent, and is looked at before what they say. */
async function readSigned({ connections }: HttpContext, request: Request) {
  const text = await connections.body(request, readJsonText(request, adminBodyBytesMax))
  return { proof: proofOf(request, text), asked: checkBody(text, KeyVerifyRequest) }
}

/** A node asks whether a gateway key that it was shown may use it (§12, credential 4). */
export const keyVerifyRoutes = (context: HttpContext) =>
  new Elysia().use(requestId(context)).post(
    '/v1/node-agent/keys/verify',
    async ({ body: { proof, asked }, exchange }) => {
      const { gateway } = context
      const valid = await gateway.verifyNodeKey(proof, asked.gateway_key, asked.model).catch((error: unknown) => {
        const guess = error instanceof Problem && error.code === 'signature_invalid'
        throw guess ? refusedLogin(gateway, exchange.address, error) : error
      })
      return { valid }
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
        security: [{ NodeId: [], NodeTimestamp: [], NodeNonce: [], NodeSignature: [] }],
      },
    },
  )
