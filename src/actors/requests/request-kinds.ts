import type { ProblemCode } from '../../errors.ts'
import { idTail } from '../../ids.ts'
import type { ChatRecord } from '../chat/chat-command.ts'

/** What became of one request, as its handler hands it over. */
export interface FinishedRequest {
  readonly requestId: string
  readonly customerId: string
  readonly keyId: string | null
  readonly operation: string
  readonly stream: boolean
  /** Its tags as one text (`tagSeparator`); null: no tags. */
  readonly tags: string | null
  readonly record: ChatRecord
}

/** What many requests have in common. */
export interface RequestKind {
  readonly customerId: string
  readonly keyId: string | null
  readonly operation: string
  readonly stream: boolean
  readonly model: string | null
  readonly nodeId: string | null
  readonly status: number
  readonly code: ProblemCode | null
  readonly tags: string | null
}

export const kindFields = [
  'customerId',
  'keyId',
  'operation',
  'stream',
  'model',
  'nodeId',
  'status',
  'code',
  'tags',
] as const satisfies readonly (keyof RequestKind)[]

/** Kinds that are known at a time. A power of two. */
const kindsMax = 1_024

const tailOf = (id: string | null) => (id === null ? 0 : idTail(id))

function placeOf({ customerId, keyId, tags, record }: FinishedRequest): number {
  const { model, nodeId, status } = record
  const ids = tailOf(customerId) + 3 * tailOf(keyId) + 5 * tailOf(nodeId) + 7 * tailOf(model) + 11 * tailOf(tags)
  return (ids + status) & (kindsMax - 1)
}

const isOf = (kind: RequestKind, { customerId, keyId, operation, stream, tags, record }: FinishedRequest) =>
  kind.customerId === customerId &&
  kind.keyId === keyId &&
  kind.nodeId === record.nodeId &&
  kind.model === record.model &&
  kind.status === record.status &&
  kind.code === record.code &&
  kind.stream === stream &&
  kind.tags === tags &&
  kind.operation === operation

/** One object for all requests of a kind, as long as no other kind takes its place. */
export class RequestKinds {
  private readonly known: (RequestKind | undefined)[] = new Array(kindsMax).fill(undefined)

  of(finished: FinishedRequest): RequestKind {
    const place = placeOf(finished)
    const known = this.known[place]
    if (known !== undefined && isOf(known, finished)) return known
    const { customerId, keyId, operation, stream, tags, record } = finished
    const { model, nodeId, status, code } = record
    const kind: RequestKind = { customerId, keyId, operation, stream, model, nodeId, status, code, tags }
    this.known[place] = kind
    return kind
  }
}
