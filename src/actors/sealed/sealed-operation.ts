import { Problem } from '../../errors.ts'
import type { Envelope } from '../../protocol/json/problem-response.ts'
import { sealedNodesPath } from '../../protocol/wire/inference/sealed.ts'
import { chat } from '../operations/chat.ts'
import { completions } from '../operations/completions.ts'
import { embeddings } from '../operations/embeddings.ts'
import { messages } from '../operations/messages.ts'
import type { InferenceRequest, Operation } from '../operations/operation.ts'
import { routeOf } from '../operations/registry.ts'
import { responses } from '../operations/responses.ts'

/** A request of which the gateway knows what its headers say, and its size. */
export interface SealedRequest extends InferenceRequest {
  readonly sealed: {
    readonly bytes: Uint8Array
    /** The encapsulated key, hex. */
    readonly enc: string
    /** As the client wrote it; `model` is the one that it means. */
    readonly clientModel: string
  }
}

/** Of a prompt in JSON. Where nothing is reported, this is counted. */
const bytesPerToken = 4

const never = (): never => {
  throw new Problem('internal_error')
}

/** Sealed, an operation has a model, a bound and a size, and no more that could be read of it here. */
function sealedOf(base: Operation): Operation<SealedRequest> {
  const tokens = ({ sealed }: SealedRequest) => Math.ceil(sealed.bytes.length / bytesPerToken)
  return {
    name: `sealed_${base.name}`,
    path: base.path,
    bases: [`${sealedNodesPath}/:node_id`],
    summary: `${base.summary}, sealed`,
    description:
      'The body is sealed to one of your nodes by EHBP; the gateway relays it and its answer, and can read neither. See docs/sealed.md.',
    schema: base.schema,
    modality: base.modality,
    byAgents: true,
    receiptKind: 'hosted_sealed',
    envelope: base.envelope,
    generates: base.generates,
    idPrefix: base.idPrefix,
    ownOnly: true,
    read: never,
    estimate: (body) => ({ tokens: tokens(body), textTokens: 0 }),
    tokensLeast: () => 0,
    prompt: () => null,
    upstream: never,
    readWhole: never,
    writeWhole: never,
  }
}

export const sealedOperations: readonly Operation<SealedRequest>[] = [
  chat,
  completions,
  embeddings,
  responses,
  messages,
].map((operation) => sealedOf(operation as Operation))

/** Whose shape an error has that a sealed operation meets outside of the seal; null: it is no such path. */
export const sealedEnvelope = (route: string): Envelope | null =>
  sealedOperations.find((operation) => routeOf(operation) === route)?.envelope ?? null
