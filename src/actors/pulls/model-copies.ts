import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { Database } from '../../db/client.ts'
import { Problem } from '../../errors.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import {
  type CopyOrder,
  copyRef,
  GivenFiles,
  givenFilesBytesMax,
  type ModelCopy,
  nodeFileBytesPath,
  nodeFilesPath,
} from '../../protocol/wire/nodes/pulls.ts'
import type { NodeResponse, NodeTransport } from '../../transport/transport.ts'
import type { Sealing } from '../accounts/sealing.ts'
import type { NodeProof, NodeProofs } from '../agents/node-proofs.ts'
import type { AuditContext, AuditTrail } from '../audit/audit-context.ts'
import { routeOn } from '../loading/model-wishes.ts'
import type { NodeRecord, PoolReads } from '../pool/pool-admin.ts'
import type { PoolRouter } from '../pool/pool-router.ts'
import { agentOf, ask, noAgent, notUnderstood, refused, send } from './agent-requests.ts'
import { CopiedBytes } from './copied-bytes.ts'
import type { CopyPace } from './copy-pace.ts'
import { type CopyTicket, openTicket, sealTicket } from './copy-tickets.ts'
import { orderPull } from './node-pulls.ts'

export interface ModelCopiesOptions {
  readonly db: Database
  readonly trail: AuditTrail
  readonly pool: PoolReads
  readonly router: PoolRouter
  readonly sealing: Sealing
  readonly proofs: Pick<NodeProofs, 'check'>
  readonly pace: Pick<CopyPace, 'passed'>
}

/** Files that one process passes on at once. */
const passingMax = 16

const checkFiles = TypeCompiler.Compile(GivenFiles)

const notGiven = () =>
  refused(
    'The owner of the computer that has the model does not let it be copied: see --give-models of its agent, and files in its models.json',
  )
const noFiles = () => new Problem('model_not_found', { param: 'model' })

/** Bytes of a file of a node, on their way. */
export interface PassedFile {
  readonly stream: ReadableStream<Uint8Array>
  /** As the node says, `bytes 0-99/100`. */
  readonly contentRange: string
}

export interface WantedBytes {
  /** Its place in the list. */
  readonly file: number
  readonly from: number
  /** The last one; null: to the end of the file. */
  readonly to: number | null
}

/** Models go from one node to another of the same owner, through this gateway, which keeps nothing of them (§39). */
export class ModelCopies {
  private passing = 0

  constructor(private readonly options: ModelCopiesOptions) {}

  /**
   * Resolves when the agent that gets the model has taken note of it. Refuses with `node_not_found`, `model_not_found`,
   * `invalid_request`, `invalid_state` where an owner does not allow it, and `upstream_error`.
   */
  async copy(audit: AuditContext, fromId: string, order: CopyOrder): Promise<ModelCopy> {
    const { db, trail, router, sealing } = this.options
    const from = await agentOf(this.options, fromId)
    const to = await agentOf(this.options, this.named(from.row, order.to))
    if (to.row.nodeId === from.row.nodeId) throw new Problem('invalid_request', { param: 'to', detail: 'It is there' })
    if (to.row.customerId !== from.row.customerId) throw refused('The two nodes belong to different owners')
    const model = upstreamName(router, from.row.nodeId, order.model)
    await filesOf(from.transport, model)
    const ref = copyRef(from.row.nodeId, model)
    await db.transaction((tx) => trail.record(tx, audit, { targetId: to.row.nodeId, metadata: { model: ref } }))
    const ticket = sealTicket(sealing, { from: from.row.nodeId, to: to.row.nodeId, model })
    const { name = model, context_length: tokens } = order
    const wanted = { ref, ticket, model: name, ...(tokens === undefined ? {} : { context_length: tokens }) }
    return { to_node_id: to.row.nodeId, pull: await orderPull(to.transport, wanted, noAgent) }
  }

  /** For the node that gets the model. null: its files are still being hashed. Refuses as `bytes` does. */
  async files(proof: NodeProof, ticket: string): Promise<GivenFiles | null> {
    const { transport, model } = await this.admitted(proof, ticket)
    return filesOf(transport, model)
  }

  /**
   * The same, for the bytes of one file. Refuses with `signature_invalid` and the other faults of a proof, `invalid_state` where an
   * operator has taken a node out or an owner does not allow it, `capacity_exhausted` and `upstream_error`.
   */
  async bytes(proof: NodeProof, ticket: string, wanted: WantedBytes, signal: AbortSignal): Promise<PassedFile> {
    const { transport, model } = await this.admitted(proof, ticket)
    if (this.passing >= passingMax) throw new Problem('capacity_exhausted')
    this.passing++
    const done = () => {
      this.passing--
    }
    try {
      return await passed(
        transport,
        model,
        wanted,
        signal,
        (response, bytes) => new CopiedBytes(response, bytes, this.options.pace, done),
      )
    } catch (error) {
      done()
      throw error
    }
  }

  /** The node of the same owner that an operator calls so. */
  private named({ customerId }: NodeRecord, given: string): string {
    if (given.startsWith('node_')) return given
    const called = [...this.options.router.nodesOf(customerId)].filter(({ row }) => row.name === given)
    const [one, other] = called
    if (one === undefined) throw new Problem('node_not_found', { param: 'to' })
    if (other !== undefined) {
      const detail = `${called.length} nodes of this owner are called so. Send the id of one`
      throw new Problem('invalid_request', { param: 'to', detail })
    }
    return one.row.nodeId
  }

  /** An operator has ordered it, and has not taken one of the nodes out since. */
  private async admitted(proof: NodeProof, text: string): Promise<{ transport: NodeTransport; model: string }> {
    const { proofs, sealing } = this.options
    const fault = await proofs.check(proof)
    if (fault !== null) throw new Problem(fault)
    const ticket = openTicket(sealing, text)
    if (ticket === null || ticket.to !== proof.nodeId) throw new Problem('signature_invalid')
    return { transport: await this.source(ticket), model: ticket.model }
  }

  private async source({ from, to }: CopyTicket): Promise<NodeTransport> {
    const [source, target] = await Promise.all([agentOf(this.options, from), agentOf(this.options, to)])
    if (source.row.customerId !== target.row.customerId) throw refused('The two nodes belong to different owners')
    return source.transport
  }
}

/** A model that does not serve yet is known to its node alone. */
function upstreamName(router: PoolRouter, nodeId: string, model: string): string {
  try {
    return routeOn(router, nodeId, model).upstreamModelId
  } catch (error) {
    if (error instanceof Problem && error.code === 'model_not_found') return model
    throw error
  }
}

/** null: they are still being hashed. */
async function filesOf(transport: NodeTransport, model: string): Promise<GivenFiles | null> {
  const asked = { method: 'POST', path: nodeFilesPath, body: { model } } as const
  const { status, text } = await ask(transport, asked, givenFilesBytesMax)
  if (status === 202) return null
  const value = foreignJson(text)
  if (status === 404)
    throw (value as { code?: unknown } | undefined)?.code === 'model_not_found' ? noFiles() : noAgent()
  if (status === 409) throw notGiven()
  if (status !== 200 || !checkFiles.Check(value)) throw notUnderstood()
  return value
}

const rangeForm = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/

async function passed(
  transport: NodeTransport,
  model: string,
  { file, from, to }: WantedBytes,
  signal: AbortSignal,
  passOn: (response: NodeResponse, bytes: number) => CopiedBytes,
): Promise<PassedFile> {
  const body = { model, file, from, ...(to === null ? {} : { to }) }
  const response = await send(transport, { method: 'POST', path: nodeFileBytesPath, body }, signal)
  const contentRange = response.headers.get('content-range') ?? ''
  const [, first, last, size] = (rangeForm.exec(contentRange) ?? []).map(Number)
  const isIt = response.status === 206 && first === from && last !== undefined && size !== undefined && last < size
  if (!isIt || last < first || (to !== null && last > to)) {
    response.discard()
    throw response.status === 409 ? notGiven() : new Problem('upstream_error')
  }
  return { stream: passOn(response, last - first + 1).stream, contentRange }
}
