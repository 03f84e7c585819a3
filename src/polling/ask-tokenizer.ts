import { within } from '../deadline.ts'
import { NoSuchTokenizer, type TokenAsk, TokenizerRefusal } from '../runtimes/tokens/tokenizer.ts'
import type { CallSignal } from '../transport/call-signal.ts'
import { type NodeRequest, type NodeResponse, type NodeTransport, TransportError } from '../transport/transport.ts'

/** Timeout for all questions to one server about one text, ms: far longer than a tokenizer takes for the longest body. */
export const tokenizerMs = 5_000

/** The way of one question to one server. */
export interface TokenizerWay extends Pick<NodeRequest, 'headers' | 'isolationKey' | 'once'> {
  readonly transport: NodeTransport
  readonly waitMs: number
  /** Aborted when no answer is wanted any more, and at the end. */
  readonly ending: CallSignal
  /** The text of an answer. */
  read(response: NodeResponse): Promise<string>
}

/** Statuses of a server that does not have such a path. */
const missing: ReadonlySet<number> = new Set([404, 405, 501])
/** Of one that has it, and takes other texts or tokens. */
const refusing: ReadonlySet<number> = new Set([400, 413, 422])

function failureOf(status: number): Error {
  if (missing.has(status)) return new NoSuchTokenizer()
  return refusing.has(status) ? new TokenizerRefusal() : new TransportError('malformed')
}

/**
 * Runs `work` until it is done, late (`NoAnswer`) or no longer wanted (the reason of `signal`). Rejects as the transport does, and
 * with `NoSuchTokenizer` and `TokenizerRefusal`.
 */
export async function askTokenizer<T>(
  way: TokenizerWay,
  signal: AbortSignal,
  work: (ask: TokenAsk) => Promise<T>,
): Promise<T> {
  const { transport, waitMs, ending, read, ...sent } = way
  const end = () => ending.abort()
  const ask = async (path: string, body: object) => {
    const headers = { 'content-type': 'application/json', ...sent.headers }
    const init = { ...sent, method: 'POST', headers, body: JSON.stringify(body), signal: ending } as const
    const response = await transport.fetch(path, init)
    if (response.status === 200) return read(response)
    response.discard()
    throw failureOf(response.status)
  }
  signal.addEventListener('abort', end, { once: true })
  try {
    signal.throwIfAborted()
    return await within(waitMs, work(ask))
  } catch (error) {
    signal.throwIfAborted()
    throw error
  } finally {
    signal.removeEventListener('abort', end)
    end()
  }
}
