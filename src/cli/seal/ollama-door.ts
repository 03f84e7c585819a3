import { otherTag } from '../../actors/operations/ollama-place.ts'
import type { InferenceRequest, Operation, WholeAnswer } from '../../actors/operations/operation.ts'
import { type ReadingOwner, StreamReading } from '../../actors/operations/reading/stream-reading.ts'
import { ollamaOperations } from '../../actors/operations/registry.ts'
import { Problem } from '../../errors.ts'
import type { RuntimeId } from '../../ids.ts'
import type { AnswerMetadata, ChunkIdentity, SettledEnd } from '../../protocol/chat/chunk-reader.ts'
import { boundedText, foreignJson } from '../../protocol/json/foreign-json.ts'
import { doorHeaders } from './refusals.ts'

/** The Ollama whose interface this is; clients look whether it is new enough. */
export const spokenVersion = '0.13.0'
const answerBytesMax = 64 * 1024 * 1024
/** A node's answer was written for this door, whatever stands behind the agent. */
const route: Parameters<Operation['readWhole']>[2] = {
  runtimeId: 'rt_sealed' as RuntimeId,
  runtimeKind: 'other',
  ranking: null,
  agent: null,
  external: false,
}

export interface OllamaPort {
  /** Sends this body sealed to an OpenAI path. */
  seal(path: string, body: string, signal: AbortSignal): Promise<Response>
  /** The models that may be asked for. */
  models(signal: AbortSignal): Promise<readonly string[]>
}

export const ollamaPaths: ReadonlyMap<string, Operation> = new Map(
  ollamaOperations.map((operation) => [`/api${operation.path}`, operation]),
)

/** A request of Ollama's interface as a chat or as embeddings for the node, and its answer back (§28). Throws `Problem`. */
export async function answerOllama(port: OllamaPort, operation: Operation, request: Request): Promise<Response> {
  const body = operation.read(await request.text()) as InferenceRequest & { model: string }
  if (body.svc?.mixture !== undefined) throw new Problem('mixture_unsupported_path', { param: 'svc.mixture' })
  const asked = body.model
  const identity = { id: 'sealed', created: Math.floor(Date.now() / 1_000), model: asked }
  // The first request with a prompt loads the model; nothing here could be told to.
  const idle = operation.idle?.(identity, body) ?? null
  if (idle !== null)
    return new Response(idle.answer, { headers: { ...doorHeaders, 'content-type': 'application/json' } })
  const known = await port.models(request.signal)
  const other = otherTag(asked)
  if (!known.includes(asked) && other !== null && known.includes(other)) body.model = other
  const path = operation.modality === 'embedding' ? '/v1/embeddings' : '/v1/chat/completions'
  const response = await port.seal(path, operation.written?.(body) ?? JSON.stringify(body), request.signal)
  if (!response.ok || response.body === null) return failed(response)
  const writer = body.stream === true ? operation.writer?.(identity, body, false) : undefined
  if (writer !== undefined) {
    const headers = { ...doorHeaders, 'content-type': operation.streamType ?? 'application/x-ndjson' }
    return new Response(response.body.pipeThrough(translating(writer) as never), { headers })
  }
  return whole(operation, body, identity, await said(response))
}

const said = async ({ body }: Response) => (body === null ? '' : ((await boundedText(body, answerBytesMax)) ?? ''))

/** The node's own sentence, in Ollama's form. */
async function failed(response: Response): Promise<Response> {
  const { error } = (foreignJson(await said(response)) ?? {}) as { readonly error?: { readonly message?: unknown } }
  const message = typeof error?.message === 'string' ? error.message : `The node answered ${response.status}.`
  return Response.json({ error: message }, { status: response.status, headers: doorHeaders })
}

const nothing = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }

function endOf({ usage, svc }: Pick<WholeAnswer, 'usage' | 'svc'>): SettledEnd {
  return { usage: usage ?? nothing, metadata: (svc ?? {}) as AnswerMetadata }
}

function whole(operation: Operation, body: InferenceRequest, identity: ChunkIdentity, text: string): Response {
  const answer = operation.readWhole(text, body, route)
  if (answer === null) throw new Problem('upstream_error')
  const written = operation.writeWhole(identity, answer, endOf(answer), body)
  return new Response(written, { headers: { ...doorHeaders, 'content-type': 'application/json' } })
}

type Writer = NonNullable<ReturnType<NonNullable<Operation['writer']>>>

/** Chunks of OpenAI in, lines of Ollama out. */
function translating(writer: Writer): TransformStream<Uint8Array, Uint8Array> {
  const encoder = new TextEncoder()
  let out: TransformStreamDefaultController<Uint8Array>
  let over = false
  const write = (text: string) => void (text === '' || out.enqueue(encoder.encode(text)))
  const end = (last: string) => {
    if (over) return
    over = true
    write(reading.take() + last)
    reading.close()
  }
  const owner: ReadingOwner = {
    started: () => {},
    skipped: () => {},
    complete: () => end(writer.last(endOf(writer), false)),
    broken: (_code, words) => {
      const { error } = (foreignJson(words ?? '') ?? {}) as { readonly error?: object }
      end(writer.failure(error ?? { message: 'The node failed while it was answering.' }))
    },
  }
  const reading = new StreamReading(owner, writer, false)
  reading.begin()
  return new TransformStream({
    start: (controller) => {
      out = controller
    },
    transform: (chunk) => {
      if (over) return
      reading.part(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length), 0, chunk.length)
      if (!over && reading.hasText) write(reading.take())
    },
    flush: () => {
      reading.end()
      if (reading.isFinished) owner.complete()
      else owner.broken('upstream_error')
    },
  })
}
