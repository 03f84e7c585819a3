import { Elysia } from 'elysia'
import type { Passage } from '../../actors/tunnels/peer-door.ts'
import { encodeHead, peerPath } from '../../actors/tunnels/peer-transport.ts'
import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { responseNonceHeader } from '../../protocol/sealed/ehbp.ts'
import { ClientStream } from '../../transport/client-stream.ts'
import { type NodeResponse, TransportError } from '../../transport/transport.ts'
import type { HttpContext } from '../frame/context.ts'
import { describe } from '../frame/route-table.ts'
import { requestId } from '../plugins/request-id.ts'

/** Another gateway has already applied the limits of its own routes. */
const bodyBytesMax = 128 * 1024 * 1024
/** How many bytes may wait for the other gateway before the node is held back. */
const bufferedBytesMax = 64 * 1024
/** The only headers of a node that a gateway reads. */
const passedHeaders = ['content-type', 'content-range', 'retry-after', responseNonceHeader] as const

async function bodyOf(request: Request): Promise<Uint8Array> {
  const length = Number(request.headers.get('content-length') ?? Number.NaN)
  if (!(length <= bodyBytesMax)) throw new Problem('payload_too_large')
  return request.bytes()
}

/** Keeps the answer only in memory, and at most `bufferedBytesMax` of it. */
function streamOf(answer: NodeResponse, over: () => void): ReadableStream<Uint8Array> {
  const gateway = new ClientStream<Uint8Array>(bufferedBytesMax, () => answer.discard())
  gateway.source = answer.flow
  answer.read({
    bytes: (chunk) => gateway.write(chunk, performance.now()),
    ended: () => {
      over()
      gateway.close()
    },
    failed: () => gateway.cut(),
  })
  return gateway.stream
}

function passedOn(answer: NodeResponse, over: () => void): Response {
  const passed: Record<string, string> = {}
  for (const name of passedHeaders) {
    const value = answer.headers.get(name)
    if (value !== null) passed[name] = value
  }
  return new Response(streamOf(answer, over), {
    headers: {
      'content-type': 'application/octet-stream',
      [headers.peerHead]: encodeHead({ status: answer.status, headers: passed }),
    },
  })
}

async function pass({ connections }: HttpContext, passage: Passage, request: Request): Promise<Response> {
  const body = await connections.body(request, bodyOf(request))
  // The connection may be silent as long as the node is. The gateway that asked has the deadlines.
  connections.lift(request)
  try {
    return passedOn(await passage(body, request.signal), () => connections.rest(request))
  } catch (error) {
    connections.rest(request)
    if (!(error instanceof TransportError)) throw error
    return new Response(null, { status: 502, headers: { [headers.peerFailure]: error.failure } })
  }
}

/** Routes between the gateways of one pool (§26). The gateway with a node's tunnel passes requests of the others on. */
export const peerRoutes = (context: HttpContext) =>
  new Elysia().use(requestId(context)).post(
    `${peerPath}:node_id`,
    ({ params, request }) => {
      const passage = context.gateway.dialIn.peerDoor.admit({
        proof: request.headers.get(headers.peerProof),
        to: request.headers.get(headers.peerTo),
        head: request.headers.get(headers.peerHead) ?? '',
        nodeId: params.node_id,
        method: 'POST',
        path: peerPath + params.node_id,
      })
      return pass(context, passage, request)
    },
    {
      parse: 'none',
      detail: {
        ...describe({
          summary: 'Pass on a request of another gateway to a node that dialled in here',
          tags: ['Extensions'],
        }),
        security: [],
      },
    },
  )
