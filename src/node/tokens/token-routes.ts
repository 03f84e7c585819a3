import { headers } from '../../brand.ts'
import { NoAnswer } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import type { ConnectionClock } from '../../listener/connection-clock.ts'
import { askTokenizer, tokenizerMs } from '../../polling/ask-tokenizer.ts'
import { checkBody, readJsonText } from '../../protocol/json/json-body.ts'
import { AgentTokensRequest } from '../../protocol/wire/nodes/tokens.ts'
import { tokenizerOf } from '../../runtimes/registry.ts'
import {
  NoSuchTokenizer,
  type TokenAsk,
  type Tokenizer,
  TokenizerRefusal,
  tokenAnswerBytesMax,
} from '../../runtimes/tokens/tokenizer.ts'
import { CallSignal } from '../../transport/call-signal.ts'
import { type NodeResponse, TransportError } from '../../transport/transport.ts'
import type { LocalCredentials } from '../access/local-credentials.ts'
import { chooseRuntime } from '../runtimes/choose-runtime.ts'
import type { LocalRuntime } from '../runtimes/local-runtime.ts'
import type { RuntimeSet } from '../runtimes/runtime-set.ts'

/** The largest value that the gateway's own setting for bodies may have. */
const bodyBytesMax = 64 * 1024 * 1024

export interface TokenRouteParts {
  readonly credentials: LocalCredentials
  readonly runtimes: RuntimeSet
  readonly connections: ConnectionClock
}

/** How the server that has the model in memory is asked. A question loads none. */
function tokenizerFor(runtime: LocalRuntime, modelId: string) {
  const tokenizer = tokenizerOf(runtime.kind)
  if (tokenizer === undefined) throw new NoSuchTokenizer()
  const { transport, models } = runtime
  const loaded = models.find(({ id }) => id === modelId)?.loaded !== false
  if (transport === null || !loaded) throw new Problem('runtime_unavailable')
  return { tokenizer, transport }
}

/** null: the server's answer holds no tokens. */
async function answerOf(tokenizer: Tokenizer, ask: TokenAsk, asked: AgentTokensRequest): Promise<object | null> {
  const { model, chat, text, tokens: ids, special = true, strings = false } = asked
  if (ids !== undefined) {
    const prompt = await tokenizer.textOf(ask, { model, ids })
    return prompt === null ? null : { prompt }
  }
  if (chat === undefined && text === undefined) throw new Problem('invalid_request', { param: 'text' })
  const said = await (chat === undefined
    ? tokenizer.ofText(ask, { model, text: text ?? '', special, strings })
    : tokenizer.ofChat(ask, { model, chat: chat as Readonly<Record<string, unknown>>, strings }))
  return said === null ? null : { count: said.ids.length, tokens: said.ids, token_strs: said.strings }
}

function problemOf(error: unknown): unknown {
  // As an agent of a version before says it: the gateway then asks no further.
  if (error instanceof NoSuchTokenizer) return new Problem('route_not_found')
  if (error instanceof TokenizerRefusal) return new Problem('invalid_request')
  if (error instanceof NoAnswer) return new Problem('upstream_timeout')
  return error instanceof TransportError ? new Problem('upstream_error') : error
}

/** A question about tokens. Only the gateway may ask: programs on this computer reach the model servers by themselves. */
export async function answerTokens(parts: TokenRouteParts, request: Request): Promise<Response> {
  if (!request.headers.has(headers.routerSignature)) throw new Problem('missing_credentials')
  const { credentials, runtimes, connections } = parts
  const caller = credentials.begin(request)
  const text = await connections.body(request, readJsonText(request, bodyBytesMax))
  caller.withBody(text)
  const asked = checkBody(text, AgentTokensRequest)
  const wanted = { model: asked.model, modality: 'chat', runtimeId: asked.runtime_id } as const
  try {
    const runtime = chooseRuntime(runtimes.list(), wanted)
    const { tokenizer, transport } = tokenizerFor(runtime, asked.model)
    const meant = { ...asked, model: runtime.askedFor?.(asked.model).model ?? asked.model }
    const read = (response: NodeResponse) => response.text(tokenAnswerBytesMax)
    // The agent does not know whose text it is, so it never reuses a connection for the texts of two callers.
    const way = { transport, once: true, waitMs: tokenizerMs, ending: new CallSignal(), read }
    const answer = await connections.lifted(request, () =>
      askTokenizer(way, request.signal, (ask) => answerOf(tokenizer, ask, meant)),
    )
    if (answer === null) throw new Problem('upstream_error')
    return Response.json(answer, { headers: { 'cache-control': 'no-store' } })
  } catch (error) {
    throw problemOf(error)
  }
}
