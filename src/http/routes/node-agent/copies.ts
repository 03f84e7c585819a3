import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { headers } from '../../../brand.ts'
import { Problem } from '../../../errors.ts'
import { pathOf } from '../../../listener/request-target.ts'
import { copyMessage } from '../../../protocol/signing/signatures.ts'
import { GivenFiles } from '../../../protocol/wire/nodes/pulls.ts'
import type { HttpContext } from '../../frame/context.ts'
import { describe } from '../../frame/route-table.ts'
import { requestId } from '../../plugins/request-id.ts'
import { nodeProofSecurity, proofOf, provedBy } from './node-proof.ts'

const place = '/v1/node-agent/copies/files'
const tags = ['Node agents (extension)']
const Hashing = Type.Object({ status: Type.Literal('hashing') })

const ticketHeader = {
  name: headers.copyTicket,
  in: 'header' as const,
  required: true,
  description: 'As the order of the copy brought it',
  schema: { type: 'string' as const },
}
const rangeHeader = {
  name: 'range',
  in: 'header' as const,
  required: false,
  description: '`bytes=FROM-` or `bytes=FROM-LAST`; absent: the whole file',
  schema: { type: 'string' as const },
}

/** The node for which the ticket was made signs each request for it. Throws what `proofOf` throws. */
function shown(request: Request) {
  const ticket = request.headers.get(headers.copyTicket) ?? ''
  if (!/^[A-Za-z0-9_-]{1,1024}$/.test(ticket)) {
    throw new Problem('missing_credentials', { param: `header.${headers.copyTicket}` })
  }
  const path = pathOf(request.url)
  const proof = proofOf(request, (nodeId, timestamp, nonce) => copyMessage(nodeId, timestamp, nonce, path, ticket))
  return { ticket, proof }
}

/** Throws `invalid_parameter` for anything but one range with a beginning. */
function rangeOf(request: Request): { readonly from: number; readonly to: number | null } {
  const given = request.headers.get('range')
  if (given === null) return { from: 0, to: null }
  const [, from, to = ''] = /^bytes=(\d{1,15})-(\d{1,15})?$/.exec(given) ?? []
  if (from === undefined) throw new Problem('invalid_parameter', { param: 'header.range' })
  return { from: Number(from), to: to === '' ? null : Number(to) }
}

/** Where a node gets the files of a model that is copied to it (§39). */
export const copyRoutes = (context: HttpContext) =>
  new Elysia()
    .use(requestId(context))
    .get(
      place,
      async ({ request, exchange, set }) => {
        const { gateway } = context
        const { proof, ticket } = shown(request)
        const files = await provedBy(gateway, exchange.address, gateway.modelCopies.files(proof, ticket))
        set.headers['cache-control'] = 'private, no-store'
        if (files !== null) return files
        set.status = 202
        return { status: 'hashing' as const }
      },
      {
        response: { 200: GivenFiles, 202: Hashing },
        detail: {
          ...describe({
            summary: 'List the files of a model that is copied to this node',
            description:
              'The node signs the request, and shows the ticket of the order, see docs/protocol.md. 202 while the node that has the files still hashes them.',
            tags,
          }),
          parameters: [ticketHeader],
          security: nodeProofSecurity,
        },
      },
    )
    .get(
      `${place}/:file`,
      async ({ params, request, exchange }) => {
        const { gateway } = context
        const { proof, ticket } = shown(request)
        const wanted = { file: Number(params.file), ...rangeOf(request) }
        const passing = gateway.modelCopies.bytes(proof, ticket, wanted, request.signal)
        const { stream, contentRange } = await provedBy(gateway, exchange.address, passing)
        return new Response(stream, {
          status: 206,
          headers: {
            ...context.base,
            [headers.requestId]: exchange.requestId,
            'cache-control': 'private, no-store',
            'content-type': 'application/octet-stream',
            'content-range': contentRange,
          },
        })
      },
      {
        params: Type.Object({
          file: Type.String({ pattern: '^[0-9]{1,2}$', description: 'Its place in the list, from 0' }),
        }),
        detail: {
          ...describe({
            summary: 'Read a file of a model that is copied to this node',
            description:
              'Its place in the list is its name. The bytes come from the other node as they are read; the gateway keeps nothing of them.',
            tags,
            mediaType: 'application/octet-stream',
          }),
          parameters: [ticketHeader, rangeHeader],
          security: nodeProofSecurity,
        },
      },
    )
