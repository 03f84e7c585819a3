import { Problem } from '../../errors.ts'
import { textWeight, wholeTokens } from '../../protocol/chat/token-estimate.ts'
import { upstreamBody } from '../../protocol/chat/upstream-request.ts'
import { firstUnlisted } from '../../protocol/dialects/members/unlisted.ts'
import { type EmbeddingList, embeddingsText, readEmbeddings } from '../../protocol/embeddings/embedding-list.ts'
import { vectorLength } from '../../protocol/embeddings/vector-lengths.ts'
import { EmbeddingsRequest, EmbeddingsResponse, embeddingInputsMax } from '../../protocol/wire/inference/embeddings.ts'
import type { Operation, WholeAnswer } from './operation.ts'
import { readRequestBody, refuseFields, refuseRouting } from './request-body.ts'

const path = '/v1/embeddings'

/** A text, or the tokens of one. */
type Input = string | readonly number[]

/** The inputs one by one. A list of numbers is one input. */
export function inputsOf({ input }: EmbeddingsRequest): readonly Input[] {
  if (typeof input === 'string') return [input]
  return typeof input[0] === 'number' ? [input as number[]] : (input as Input[])
}

function refuseMixedInput({ input }: EmbeddingsRequest): void {
  if (typeof input === 'string') return
  const kindOf = (item: unknown) => (Array.isArray(item) ? 'tokens' : typeof item)
  const kind = kindOf(input[0])
  const refuse = (detail: string) => new Problem('invalid_request', { param: 'input', detail })
  if (input.some((item) => kindOf(item) !== kind)) throw refuse('input: all items of a list must be of one kind')
  if (kind !== 'number' && input.length > embeddingInputsMax) {
    throw refuse(`input: at most ${embeddingInputsMax} inputs in one request`)
  }
}

const weightOf = (input: Input) => (typeof input === 'string' ? textWeight(input) : input.length)

function estimate(body: EmbeddingsRequest) {
  const tokens = wholeTokens(inputsOf(body).reduce((sum, input) => sum + weightOf(input), 0))
  // Of the context each input has all to itself: the sum says nothing of it.
  return { tokens, textTokens: 0 }
}

export interface EmbeddingsAnswer extends WholeAnswer {
  readonly vectors: EmbeddingList['vectors']
}

const nothing = () => 0
/** Of one call to a node: answers of more would be too large to hold and to check at once. */
const nodeInputsMax = 256
/** Text Embeddings Inference's default of `--max-client-batch-size`. */
const teiInputsMax = 32

export const embeddings: Operation<EmbeddingsRequest> = {
  name: 'embeddings',
  path: '/embeddings',
  summary: 'Embed texts',
  description:
    'OpenAI-compatible: a text, a list of texts, or tokens; floats or base64. Fields that are not listed pass through to the node, and those that no table of the gateway knows to your own nodes alone.',
  schema: EmbeddingsRequest,
  response: EmbeddingsResponse,
  modality: 'embedding',
  ownPath: path,
  byAgents: false,
  receiptKind: 'hosted_embedding',
  envelope: 'openai',
  generates: false,
  idPrefix: 'embd-',
  read(text) {
    const body = readRequestBody(text, EmbeddingsRequest)
    refuseMixedInput(body)
    refuseRouting(body, false)
    refuseFields(body, ['stream'], 'embeddings have no stream')
    return body
  },
  unlisted: (body) => firstUnlisted('embeddings', body),
  estimate,
  tokensLeast: nothing,
  prompt: () => null,
  upstream: (text, body) => upstreamBody(text, body, null, null, path),
  readWhole(text, body): EmbeddingsAnswer | null {
    const list = readEmbeddings(text, inputsOf(body).length, body.encoding_format ?? 'float')
    if (list === null) return null
    const [first = '[]'] = list.vectors
    return { ...list, vectorLength: vectorLength(first), cachedTokens: null, choices: [], outputWeight: nothing }
  },
  parts: {
    count: (body) => inputsOf(body).length,
    unitsMax: ({ runtimeKind }) => (runtimeKind === 'tei' ? teiInputsMax : nodeInputsMax),
    cut: (body, from, to) => ({ ...body, input: inputsOf(body).slice(from, to) as EmbeddingsRequest['input'] }),
    join: (answers): EmbeddingsAnswer => ({
      choices: [],
      usage: null,
      cachedTokens: null,
      svc: undefined,
      outputWeight: nothing,
      vectors: answers.flatMap((answer) => (answer as EmbeddingsAnswer).vectors),
    }),
  },
  writeWhole: (identity, answer, end) => embeddingsText(identity, (answer as EmbeddingsAnswer).vectors, end),
}
